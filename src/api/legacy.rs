//! `/v1/ns/api`: entries of the oldest clients, beside those that `/v1/ns/instance` has as well.
//!
//! They name a service by `dom` alone and know no groups. Source: Nacos 1.4.8 naming module, API controller; compat
//! file `legacy`.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use super::{
    Api, Named, V1Call,
    agent::{Agent, Version},
    beat, list,
    params::Params,
    reply::{Refusal, Reply},
    routes::Outcome,
};
use crate::{
    base::java,
    model::{
        Registry,
        name::{DEFAULT_GROUP, DEFAULT_NAMESPACE, SEPARATOR, check_format, service_part},
    },
};

/// The service that `dom` names: always one of the default group, whatever `groupName` and `serviceName` say.
pub(super) fn named<'a>(params: &'a Params<'_>) -> Result<Named<'a>, Refusal> {
    let name = [DEFAULT_GROUP, SEPARATOR, &*params.required("dom")?].concat();
    check_format(&name)?;
    Ok(Named { namespace: params.namespace(), name: Cow::Owned(name) })
}

/// GET srvIPXT: the list of a service.
pub fn srv_ipxt(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    list::list_of(api, call, &params, &named(&params)?)
}

/// GET clientBeat: a beat.
pub fn client_beat(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    let named = named(&params)?;
    beat::renew(api, &params, Ok(named))
}

/// The last version of the DNS plug-in that knows one namespace only.
const LAST_SIMPLE_DNS: Version = Version(1, 0, 1);

/// GET allDomNames: the names of all services without their groups, by namespace.
///
/// `responsibleOnly` leaves out what other members are responsible for; nothing, on a node that serves alone.
pub fn all_dom_names(api: &Api, call: &V1Call) -> Outcome {
    let (agent, params) = (Agent::of(&call.head.headers), Params::of(call));
    // As a class of Java's reads it: nothing else is true, and nothing is wrong.
    let responsible_only =
        params.get("responsibleOnly").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let mut doms = Doms::of(&api.registry, api.shows(responsible_only));
    if agent.text.starts_with("Nacos-DNS") && agent.version()? <= LAST_SIMPLE_DNS {
        let doms = doms.take(DEFAULT_NAMESPACE);
        return Ok(Reply::json(&Counted { count: doms.len(), doms }));
    }
    Ok(Reply::json(&Counted { count: doms.count(), doms }))
}

/// Names and how many they are, fields in wire order.
#[derive(Serialize)]
struct Counted<T> {
    count: usize,
    doms: T,
}

/// The names of each namespace, both in the order of a Java hash map.
struct Doms(Vec<(String, Vec<String>)>);

impl Doms {
    /// The names that `shown` lets through; a namespace stands there even where it lets none through.
    fn of(registry: &Registry, shown: impl Fn(&str) -> bool) -> Self {
        let mut found = BTreeMap::<String, Vec<String>>::new();
        registry.for_each(|service| {
            let names = found.entry(service.key.namespace.to_string()).or_default();
            if shown(&service.key.name) {
                names.push(service_part(&service.key.name).to_string());
            }
        });
        for names in found.values_mut() {
            // Groups aren't told apart, so the same name may have come several times.
            names.sort_unstable();
            names.dedup();
            java::hash_map_order(names, |name| name);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        java::hash_map_order(&mut found, |(namespace, _)| namespace);
        Self(found)
    }

    fn count(&self) -> usize {
        self.0.iter().map(|(_, names)| names.len()).sum()
    }

    fn take(&mut self, namespace: &str) -> Vec<String> {
        let names = self.0.iter_mut().find(|(name, _)| name == namespace);
        names.map(|(_, names)| std::mem::take(names)).unwrap_or_default()
    }
}

impl Serialize for Doms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (namespace, names) in &self.0 {
            map.serialize_entry(namespace, names)?;
        }
        map.end()
    }
}
