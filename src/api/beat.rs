//! `PUT /v1/ns/instance/beat`: renews an instance, or makes it from the beat's own description.
//!
//! The hottest write: for a known instance it stores a time and answers. Source: Nacos 1.4.8 naming module, beat of the
//! instance controller; compat files `beat`, `beat-timing`.

use nacre_middleware::V1Response;

use super::{
    Api, Named, V1Call, instance, legacy,
    params::{self, Params},
    reply::{Refusal, Reply},
    routes::{Outcome, Row},
};
use crate::{
    base::{
        clock::Millis,
        mutant::{self, Mutant},
    },
    health::beat::Beat,
    model::{
        InstanceKey, Registry, ServiceKey, instance::own_beat_interval_ms, name::DEFAULT_CLUSTER,
        service::Beaten,
    },
    observe::beats::Effect,
};

/// The entries that take beats, as the route table has them.
const BEAT: &str = "/v1/ns/instance/beat";
const CLIENT_BEAT: &str = "/v1/ns/api/clientBeat";
/// What an answer says where the instance of a beat isn't known.
const UNKNOWN: &[u8] = br#""code":20404"#;

/// PUT beat: renews an instance, or makes it from the beat's own description.
pub fn beat(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let named = Named::read(&params);
    renew(api, &params, named)
}

/// Takes a beat for the service that was named, by whatever parameter; a wrong name is the last thing to be refused.
pub(super) fn renew(api: &Api, params: &Params<'_>, named: Result<Named<'_>, Refusal>) -> Outcome {
    let text = params.optional("beat");
    let body = text.as_deref().map(Beat::read).transpose().map_err(Refusal::failed)?.flatten();
    let cluster = params.optional("clusterName");
    let port = params.optional("port").map_or(Ok(0), |port| params::integer(&port))?;
    let named = named?;
    let ip = params.optional("ip").unwrap_or_default();
    let key = key(body.as_ref(), &ip, port, cluster.as_deref());
    let (cluster, now) = (key.cluster, api.clock.now());
    let service = api.registry.get(named.place());
    match (service.as_ref().map_or(Beaten::Unknown, |service| service.beat(&key, now)), service, &body) {
        (Beaten::Ephemeral(instance), Some(service), _) => {
            // The health of a marked one is what a peer set.
            if !instance.healthy() && !instance.marked {
                api.registry.set_health_of(&service, &key, true, now);
            }
            Ok(known(api, Effect::Renewed, instance.own_beat_interval_ms()))
        }
        (Beaten::Persistent(instance), ..) => {
            Ok(known(api, Effect::Renewed, instance.own_beat_interval_ms()))
        }
        // It would come back by a beat that was under way when it left.
        (Beaten::JustLeft, _, Some(body)) if body.makes_an_instance() => {
            Ok(known(api, Effect::Unknown, None))
        }
        (Beaten::Unknown, _, Some(body)) if body.makes_an_instance() => make(api, &named, body, cluster),
        _ => Ok(unknown(api)),
    }
}

/// The service of a beat whose instance isn't known here; nothing where it is known, or the beat is wrong.
pub(super) fn unknown_here(registry: &Registry, call: &V1Call) -> Option<ServiceKey> {
    let is_unknown = |named: &Named<'_>, key: &InstanceKey<'_>| {
        let service = registry.get(named.place());
        let known = service.is_some_and(|service| instance::find(&service.state(), key).is_some());
        (!known).then(|| named.place().to_key())
    };
    with_instance(call, is_unknown).flatten()
}

/// Notes that the instance of a beat lives that came then and went on to its owner; nothing where the call is no beat, or a
/// wrong one, or the owner answered that it doesn't know the instance: it may have left.
///
/// The owner may not have got it, may never answer, or be gone before it has told of it. Members that are asked about silence know then.
pub(super) fn overhear(registry: &Registry, call: &V1Call, answer: Option<&V1Response>, came: Millis) {
    if !is_beat(call.facts) || mutant::is(Mutant::BeatsUnheard) {
        return;
    }
    let says_unknown =
        |answer: &V1Response| answer.body().bytes().windows(UNKNOWN.len()).any(|part| part == UNKNOWN);
    if !answer.is_some_and(says_unknown) {
        with_instance(call, |named, key| {
            if let Some(service) = registry.get(named.place()) {
                service.overhear(key, came);
            }
        });
    }
}

/// Whether a call is a beat, by whatever entry.
pub(super) fn is_beat(facts: Row) -> bool {
    matches!(facts.path, BEAT | CLIENT_BEAT)
}

/// What `take` makes of the instance that a beat is of; nothing where the call is no beat, or a wrong one.
pub(super) fn with_instance<T>(
    call: &V1Call,
    take: impl FnOnce(&Named<'_>, &InstanceKey<'_>) -> T,
) -> Option<T> {
    if !is_beat(call.facts) {
        return None;
    }
    let params = Params::of(call);
    let named = if call.facts.path == BEAT { Named::read(&params) } else { legacy::named(&params) }.ok()?;
    let text = params.optional("beat");
    let body = text.as_deref().map(Beat::read).transpose().ok()?.flatten();
    let cluster = params.optional("clusterName");
    let port = params.optional("port").map_or(Ok(0), |port| params::integer(&port)).ok()?;
    let ip = params.optional("ip").unwrap_or_default();
    Some(take(&named, &key(body.as_ref(), &ip, port, cluster.as_deref())))
}

/// Which instance a beat is of: what its description says goes before the parameters.
fn key<'a>(body: Option<&'a Beat<'_>>, ip: &'a str, port: i32, cluster: Option<&'a str>) -> InstanceKey<'a> {
    let cluster = body.and_then(Beat::cluster).or(cluster).unwrap_or(DEFAULT_CLUSTER);
    let (ip, port) = body.map_or((ip, port), |body| (&*body.ip, body.port));
    InstanceKey { ip, port, cluster }
}

/// Registers the instance that a beat describes.
fn make(api: &Api, named: &Named<'_>, body: &Beat<'_>, cluster: &str) -> Outcome {
    let description = body.describe(cluster).map_err(Refusal::failed)?;
    api.registry.register(named.place(), &description, api.clock.now())?;
    Ok(known(api, Effect::Registered, own_beat_interval_ms(&description.metadata)))
}

/// The answer to a beat of a known instance with this interval of its own, if it has one.
pub(super) fn known(api: &Api, effect: Effect, interval_ms: Option<u64>) -> Reply {
    api.sight.meters.beats.note(effect);
    let switches = api.switches.load();
    let (default, light) = (switches.client_beat_interval, switches.light_beat_enabled);
    let interval = interval_ms.map_or(i128::from(default), i128::from);
    if interval == 5000 && light {
        return Reply::fixed(r#"{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}"#);
    }
    let text = format!(r#"{{"clientBeatInterval":{interval},"code":10200,"lightBeatEnabled":{light}}}"#);
    Reply::Json(text.into())
}

/// The answer that lets a client register again.
pub(super) fn unknown(api: &Api) -> Reply {
    api.sight.meters.beats.note(Effect::Unknown);
    match api.switches.load().client_beat_interval {
        5000 => Reply::fixed(r#"{"clientBeatInterval":5000,"code":20404}"#),
        interval => Reply::Json(format!(r#"{{"clientBeatInterval":{interval},"code":20404}}"#).into()),
    }
}
