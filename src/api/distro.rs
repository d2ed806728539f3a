//! `/v1/ns/distro`: ephemeral data as peers exchange it.
//!
//! Source: Nacos 1.4.8 naming module, distro controller; compat files
//! `distro-data`, `distro-wipe`.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderValue, StatusCode};
use nacre_middleware::{V1Body, loop_guard::PEER, refusal};
use serde_json::Value;

use super::{
    Api, V1Call, body,
    params::Params,
    peers,
    reply::{self, Refusal, Reply},
    routes::Outcome,
};
use crate::{
    base::json,
    cluster::{
        Address, Standing,
        peer::{self, unreached_of},
    },
    distro::{
        Distro,
        accept::{AcceptError, accept},
        bodies::{DatumToSend, Dialect, ShownData},
        codec::Data,
        key::{self, Key},
        receive::first_fault,
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

/// The protocol, where there are members and this node has its data.
///
/// # Errors
/// 503 with the state in a header while it hasn't, or is no member any more.
pub fn at_work(api: &Api) -> Result<Option<&Distro>, Refusal> {
    let standing = api.cluster.view_guard().standing;
    match standing {
        Standing::Alone => Ok(None),
        Standing::Serving | Standing::Leaving => Ok(api.distro.as_ref()),
        Standing::Starting | Standing::Comparing => Err(Refusal::standstill(refusal::State::Starting)),
        Standing::Removed => Err(Refusal::standstill(refusal::State::Removed)),
    }
}

/// PUT datum: a member's lists. Without members they replace what is there, as recorded.
pub fn put_datum(api: &Api, call: &V1Call) -> Outcome {
    let Some(distro) = at_work(api)? else {
        let data: Data<'_> = body::json(call)?;
        accept(&api.registry, data, api.clock.reading())?;
        return Ok(Reply::OK);
    };
    body::check_json(call).inspect_err(|refusal| peers::note_malformed(api, call, refusal))?;
    let sender = peers::sender(call);
    if let Some(sender) = &sender {
        peers::check_known(&api.cluster.view_guard(), &sender.address)?;
    }
    let nacre = sender.as_ref().filter(|sender| sender.is_nacre).map(|sender| &sender.address);
    let unreached = nacre.iter().flat_map(|_| unreached_of(&call.head.headers)).collect::<Vec<_>>();
    let written = peers::written(distro, nacre, call)?;
    let outcome = distro
        .receive(sender.as_ref(), &unreached, written, &call.body)
        .map_err(|error| Refusal::failed(format_args!("JSON parse error: {error}")))
        .inspect_err(|refusal| peers::note_malformed(api, call, refusal))?;
    let answer = match first_fault(&outcome) {
        None if outcome.taken.is_empty() => Err(AcceptError::Empty.into()),
        None => Ok(Reply::OK),
        // What is good of it counts; the member is told why it isn't all.
        Some(fault) => Err(Refusal::illegal(fault)),
    };
    answer.inspect_err(|refusal| peers::note_malformed(api, call, refusal))
}

/// Refuses to show data while they aren't loaded, and of a node that is no member: another would take the few for all.
/// A node that compares shows what it has, which may be more than others have.
fn check_loaded(api: &Api) -> Result<(), Refusal> {
    match api.cluster.view_guard().standing {
        Standing::Starting => Err(Refusal::standstill(refusal::State::Starting)),
        Standing::Removed => Err(Refusal::standstill(refusal::State::Removed)),
        Standing::Alone | Standing::Serving | Standing::Comparing | Standing::Leaving => Ok(()),
    }
}

/// GET datum: the ephemeral lists of the services whose keys the body names; unknown ones are left out.
pub fn get_datum(api: &Api, call: &V1Call) -> Outcome {
    check_loaded(api)?;
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
    check_loaded(api)?;
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
    match api.registry.is_shared() && call.head.headers.contains_key(&PEER) {
        true => Dialect::Nacre,
        false => Dialect::Legacy,
    }
}

fn whole(service: &Service, state: Arc<State>) -> DatumToSend {
    DatumToSend { service: service.key.clone(), state: Some(state), newer_than: None }
}

fn octets(api: &Api, data: &[DatumToSend], dialect: Dialect) -> Reply {
    let json = json::to_bytes(&ShownData { data, dialect, at: api.clock.reading() });
    let media_type = HeaderValue::from_static("application/octet-stream");
    let mut answer = reply::typed_response(StatusCode::OK, media_type, V1Body::sized(json));
    if dialect == Dialect::Nacre {
        peer::sign(answer.headers_mut(), &api.cluster.view_guard().own);
    }
    Reply::Whole(Box::new(answer))
}

/// PUT checksum: a member of 1.x says what it is responsible for. Without members there is nothing to compare.
pub fn put_checksum(api: &Api, call: &V1Call) -> Outcome {
    let (source, texts) =
        read_checksums(call).inspect_err(|refusal| peers::note_malformed(api, call, refusal))?;
    if let Some(distro) = at_work(api)? {
        distro.compare_legacy(&source, &texts);
    }
    Ok(Reply::OK)
}

/// Whose checksums they are, and the checksums by key.
fn read_checksums(call: &V1Call) -> Result<(Address, BTreeMap<String, String>), Refusal> {
    let params = Params::of(call);
    let source = Address::new(params.typed("source", "String")?);
    let checksums: BTreeMap<String, Value> = body::json(call)?;
    let mut texts = BTreeMap::new();
    for (key, checksum) in checksums {
        let text = match checksum {
            Value::String(text) => text,
            Value::Array(_) | Value::Object(_) => {
                let fault = format_args!("JSON parse error: the checksum of {key} is not a text");
                return Err(Refusal::failed(fault));
            }
            scalar => scalar.to_string(),
        };
        texts.insert(key, text);
    }
    Ok((source, texts))
}
