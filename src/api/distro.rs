//! `/v1/ns/distro`: ephemeral data as peers exchange it, answered by a node that has no peers.
//!
//! Only callers from the own host are answered. Source: Nacos 1.4.8 naming module, distro controller; compat files
//! `distro-data`, `distro-wipe`.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderValue, StatusCode};
use nacre_middleware::V1Body;
use serde_json::Value;

use super::{
    Api, V1Call, body,
    node::check_own_host,
    params::Params,
    reply::{self, Refusal, Reply},
    routes::Outcome,
};
use crate::{
    base::json,
    distro::{
        accept::{AcceptError, accept},
        bodies::{Dialect, Outgoing, ShownData},
        codec::Data,
        key::{self, Key},
    },
    model::{Service, State},
};

impl From<AcceptError> for Refusal {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Name(_) => Self::illegal(error),
            AcceptError::Empty
            | AcceptError::Key(_)
            | AcceptError::NoKey(_)
            | AcceptError::OtherKey(_)
            | AcceptError::Unreadable(..)
            | AcceptError::Field(..) => Self::failed(error),
        }
    }
}

/// PUT datum: replaces ephemeral lists.
pub fn put_datum(api: &Api, call: &V1Call) -> Outcome {
    check_own_host(call.peer)?;
    let data: Data<'_> = body::json(call)?;
    accept(&api.registry, data, api.clock.reading())?;
    Ok(Reply::OK)
}

/// GET datum: the ephemeral lists of the services whose keys the body names; unknown ones are left out.
pub fn get_datum(api: &Api, call: &V1Call) -> Outcome {
    check_own_host(call.peer)?;
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
    let data: Vec<_> = services.iter().map(|service| whole(service, service.state())).collect();
    Ok(octets(api, &data, dialect(api, call)))
}

/// GET datums: all ephemeral lists that aren't empty, and for a Nacre member what is remembered of empty ones.
pub fn get_datums(api: &Api, call: &V1Call) -> Outcome {
    check_own_host(call.peer)?;
    let dialect = dialect(api, call);
    let mut data = Vec::new();
    api.registry.for_each(|service| {
        let state = service.state();
        if !state.ephemeral.is_empty() || dialect == Dialect::Nacre && !state.gone.is_empty() {
            data.push(whole(service, state));
        }
    });
    Ok(octets(api, &data, dialect))
}

/// Stamps and tombstones are for members of a cluster that show that they are Nacre.
fn dialect(api: &Api, call: &V1Call) -> Dialect {
    match api.registry.is_shared() && call.head.headers.contains_key("x-nacre-peer") {
        true => Dialect::Nacre,
        false => Dialect::Legacy,
    }
}

fn whole(service: &Service, state: Arc<State>) -> Outgoing {
    Outgoing { service: service.key.clone(), state: Some(state), newer_than: None }
}

fn octets(api: &Api, data: &[Outgoing], dialect: Dialect) -> Reply {
    let json = json::to_bytes(&ShownData { data, dialect, at: api.clock.reading() });
    let media_type = HeaderValue::from_static("application/octet-stream");
    Reply::Whole(Box::new(reply::typed_response(StatusCode::OK, media_type, V1Body::sized(json))))
}

/// PUT checksum: a peer says what it is responsible for; without peers there is nothing to compare or remove.
pub fn put_checksum(_: &Api, call: &V1Call) -> Outcome {
    check_own_host(call.peer)?;
    Params::of(call).typed("source", "String")?;
    let checksums: BTreeMap<String, Value> = body::json(call)?;
    if let Some((key, _)) = checksums.iter().find(|(_, checksum)| checksum.is_array() || checksum.is_object())
    {
        return Err(Refusal::failed(format_args!("JSON parse error: the checksum of {key} is not a text")));
    }
    Ok(Reply::OK)
}
