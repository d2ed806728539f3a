//! `/v1/console`: the namespaces that have names, the state of the server, its liveness.
//!
//! Source: Nacos 1.4.8 console module; compat file `core-console`.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    Api, V1Call,
    params::Params,
    reply::{Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    cluster::member::VERSION,
    cp::{Change, Scope},
    model::{
        name::DEFAULT_NAMESPACE,
        namespaces::{Namespace, Namespaces},
    },
};

/// What the reference shows as the number of configurations that a namespace may have.
const QUOTA: u32 = 200;
/// Longest id, in bytes.
const MAX_ID_BYTES: usize = 128;
/// Longest name and description, in characters: what the reference's tables hold.
const MAX_NAME_CHARS: usize = 128;
const MAX_DESCRIPTION_CHARS: usize = 256;

/// A namespace as the list shows it, fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NamespaceRow<'a> {
    namespace: &'a str,
    namespace_show_name: &'a str,
    quota: u32,
    config_count: u32,
    #[serde(rename = "type")]
    kind: u8,
    /// Shown for one namespace, not in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace_desc: Option<&'a str>,
}

impl<'a> NamespaceRow<'a> {
    fn public() -> Self {
        Self::new("", DEFAULT_NAMESPACE, 0)
    }

    fn made(namespace: &'a Namespace) -> Self {
        Self::new(&namespace.id, &namespace.name, 2)
    }

    fn new(namespace: &'a str, namespace_show_name: &'a str, kind: u8) -> Self {
        Self { namespace, namespace_show_name, quota: QUOTA, config_count: 0, kind, namespace_desc: None }
    }
}

#[derive(Serialize)]
struct List<'a> {
    code: u16,
    message: Option<&'a str>,
    data: Vec<NamespaceRow<'a>>,
}

/// GET namespaces: all of them, or with `show=all` one with its description, or with `checkNamespaceIdExist=true`
/// whether an id is taken.
pub fn namespaces(api: &Api, call: &V1Call) -> Outcome {
    let params = Params::of(call);
    if params.get("show") == Some("all") {
        return namespace(&api.namespaces, params.typed("namespaceId", "String")?);
    }
    if params.get("checkNamespaceIdExist") == Some("true") {
        return Ok(Reply::json(&exists(&api.namespaces, params.typed("customNamespaceId", "String")?)));
    }
    let made = api.namespaces.list();
    let data = std::iter::once(NamespaceRow::public()).chain(made.iter().map(NamespaceRow::made)).collect();
    Ok(Reply::json(&List { code: 200, message: None, data }))
}

fn namespace(namespaces: &Namespaces, id: &str) -> Outcome {
    if id.trim().is_empty() {
        return Ok(Reply::json(&NamespaceRow {
            namespace_desc: Some("Public Namespace"),
            ..NamespaceRow::public()
        }));
    }
    let made = namespaces.list();
    let found = made.iter().find(|namespace| namespace.id == id);
    let found = found.ok_or_else(|| Refusal::failed(format_args!("namespace {id} is not found")))?;
    Ok(Reply::json(&NamespaceRow { namespace_desc: Some(&found.description), ..NamespaceRow::made(found) }))
}

fn exists(namespaces: &Namespaces, id: &str) -> bool {
    namespaces.list().iter().any(|namespace| namespace.id == id)
}

/// Letters, digits, `_` and `-`, and no more of them than the reference stores.
fn is_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    id.len() <= MAX_ID_BYTES && id.bytes().all(allowed)
}

fn fits(namespace: &Namespace) -> bool {
    namespace.name.chars().count() <= MAX_NAME_CHARS
        && namespace.description.chars().count() <= MAX_DESCRIPTION_CHARS
}

/// POST namespaces: `true`, or `false` for an id that is taken or can't be one, or a text that is too long.
pub fn create(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let id = params.typed("customNamespaceId", "String")?.trim();
    let name = params.typed("namespaceName", "String")?.to_string();
    let description = params.get("namespaceDesc").unwrap_or_default().to_string();
    let id = if id.is_empty() { random_id()? } else { id.to_string() };
    let mut namespace = Namespace { id, name, description, place: 0 };
    if !is_id(&namespace.id) || namespace.id == DEFAULT_NAMESPACE || !fits(&namespace) {
        return Ok(Pending::Done(Reply::fixed("false")));
    }
    let stored = api.cp.submit(Scope::Everything, move |applied| {
        if exists(&applied.namespaces, &namespace.id) {
            return Ok::<_, Refusal>((vec![], false));
        }
        namespace.place = applied.namespaces.next_place();
        Ok((vec![Change::Namespace(namespace)], true))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|made| Reply::json(&made)) })))
}

/// PUT namespaces: gives a namespace another name and description; `true` even where there is none.
pub fn edit(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let params = Params::of(call);
    let id = params.typed("namespace", "String")?.to_string();
    let name = params.typed("namespaceShowName", "String")?.to_string();
    let description = params.get("namespaceDesc").unwrap_or_default().to_string();
    let mut namespace = Namespace { id, name, description, place: 0 };
    if !fits(&namespace) {
        return Ok(Pending::Done(Reply::fixed("false")));
    }
    let stored = api.cp.submit(Scope::Everything, move |applied| {
        let made = applied.namespaces.list();
        let Some(known) = made.iter().find(|known| known.id == namespace.id) else { return Ok((vec![], ())) };
        namespace.place = known.place;
        Ok::<_, Refusal>((vec![Change::Namespace(namespace)], ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::fixed("true")) })))
}

/// DELETE namespaces: `true` even where there is none; what is registered in it stays.
pub fn remove(api: &Api, call: &V1Call) -> Result<Pending, Refusal> {
    let id = Params::of(call).typed("namespaceId", "String")?.to_string();
    let stored = api.cp.submit(Scope::Everything, move |applied| {
        let known = exists(&applied.namespaces, &id);
        Ok::<_, Refusal>((if known { vec![Change::NoNamespace(id)] } else { vec![] }, ()))
    });
    Ok(Pending::Later(Box::pin(async move { stored.await.map(|()| Reply::fixed("true")) })))
}

/// A random UUID (version 4), for a namespace whose maker names no id.
fn random_id() -> Result<String, Refusal> {
    let mut bytes = [0_u8; 16];
    getrandom::getrandom(&mut bytes)
        .map_err(|error| Refusal::failed(format_args!("the system gives no random bytes: {error}")))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id)
}

/// What the server is, fields in wire order and as the reference spells them.
#[derive(Serialize)]
struct ServerState {
    version: &'static str,
    standalone_mode: &'static str,
    function_mode: Option<&'static str>,
}

/// GET server/state.
pub fn server_state(_: &Api, _: &V1Call) -> Outcome {
    Ok(Reply::json(&ServerState { version: VERSION, standalone_mode: "standalone", function_mode: None }))
}

/// GET health/liveness and health/readiness: whoever can ask finds a server that has loaded everything.
pub fn health(_: &Api, _: &V1Call) -> Outcome {
    Ok(Reply::Text("OK".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_words() {
        assert!(is_id("a-B_9") && is_id(&"a".repeat(128)));
        for wrong in ["a b", "a.b", "中", &"a".repeat(129)] {
            assert!(!is_id(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_random_id_is_a_uuid() {
        let (one, other) = (random_id().unwrap(), random_id().unwrap());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!((parts, &one[14..15], is_id(&one)), (vec![8, 4, 4, 4, 12], "4", true));
    }
}
