//! `/v1/ns/distro`: ephemeral data as peers exchange it, answered by a node that has no peers.
//!
//! Source: Nacos 1.4.8 naming module, distro controller; compat files
//! `distro-data`, `distro-wipe`.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderValue, StatusCode};
use nacre_middleware::V1Body;
use serde_json::Value;

use super::{
    Api, V1Call, body,
    params::Params,
    reply::{self, Refusal, Reply},
    routes::Outcome,
};
use crate::{
    base::json,
    distro::{
        accept::{AcceptError, accept},
        codec::{Data, ShownData},
        key::{self, Key},
    },
    model::Service,
};

impl From<AcceptError> for Refusal {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Name(_) => Self::illegal(error),
            AcceptError::Empty | AcceptError::Key(_) | AcceptError::NoKey(_) | AcceptError::Field(..) => {
                Self::failed(error)
            }
        }
    }
}

/// PUT datum: replaces ephemeral lists.
pub fn put_datum(api: &Api, call: &V1Call) -> Outcome {
    let data: Data<'_> = body::json(call)?;
    accept(&api.registry, data, api.clock.reading())?;
    Ok(Reply::OK)
}

/// GET datum: the ephemeral lists of the services whose keys the body names; unknown ones are left out.
pub fn get_datum(api: &Api, call: &V1Call) -> Outcome {
    let asked: Value = body::any_json(call)?;
    let Some(keys) = asked.get("keys") else { return Err(Refusal::failed("the body names no keys")) };
    let keys = match keys {
        Value::String(keys) => keys.clone(),
        Value::Array(_) | Value::Object(_) => String::new(),
        scalar => scalar.to_string(),
    };
    let find = |key: &str| match key::read(key) {
        Key::List(place) => api.registry.get(place),
        Key::Other | Key::Broken => None,
    };
    let services: Vec<Arc<Service>> = keys.split(',').filter_map(find).collect();
    Ok(octets(api, &services))
}

/// GET datums: all ephemeral lists that aren't empty.
pub fn get_datums(api: &Api, _: &V1Call) -> Outcome {
    let mut services = Vec::new();
    api.registry.for_each(|service| {
        if !service.state().ephemeral.is_empty() {
            services.push(Arc::clone(service));
        }
    });
    Ok(octets(api, &services))
}

fn octets(api: &Api, services: &[Arc<Service>]) -> Reply {
    let json = json::to_bytes(&ShownData { services, at: api.clock.reading() });
    let media_type = HeaderValue::from_static("application/octet-stream");
    Reply::Whole(Box::new(reply::typed_response(StatusCode::OK, media_type, V1Body::sized(json))))
}

/// PUT checksum: a peer says what it is responsible for; without peers there is nothing to compare or remove.
pub fn put_checksum(_: &Api, call: &V1Call) -> Outcome {
    Params::of(call).typed("source", "String")?;
    let checksums: BTreeMap<String, Value> = body::json(call)?;
    if let Some((key, _)) = checksums.iter().find(|(_, checksum)| checksum.is_array() || checksum.is_object())
    {
        return Err(Refusal::failed(format_args!("JSON parse error: the checksum of {key} is not a text")));
    }
    Ok(Reply::OK)
}
