//! Names of namespaces, services and clusters: how they are read and what they may be.
//!
//! Pure. Source: Nacos 1.4.8 naming module, the filter that groups names and the checks at creation; compat files
//! `instance-register`, `service-names-format`.

use std::{fmt, sync::Arc};

use super::limits::{Limits, TooLong};

/// Stands between the group and the service in a grouped name.
pub const SEPARATOR: &str = "@@";
/// The group of a service whose caller named none.
pub const DEFAULT_GROUP: &str = "DEFAULT_GROUP";
/// The namespace of a request that named none.
pub const DEFAULT_NAMESPACE: &str = "public";
/// The cluster of an instance that named none.
pub const DEFAULT_CLUSTER: &str = "DEFAULT";

/// Where a service lives: its namespace and its grouped name (`group@@service`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Namespace id; any text but one with `##` in it, or `#` at its end.
    pub namespace: Arc<str>,
    /// `group@@service`.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// A key of these two texts, unchecked.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for ServiceKey {
    /// For people and logs: a namespace may hold any character, and one that ends a line must not begin another.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for letter in self.namespace.chars().chain("##".chars()).chain(self.name.chars()) {
            if letter.is_control() {
                write!(out, "{}", letter.escape_default())?;
            } else {
                out.write_char(letter)?;
            }
        }
        Ok(())
    }
}

/// Why a name can't be used; the texts are those of the v1 answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Fewer than two parts around `@@`.
    #[error("Param 'serviceName' is illegal, it should be format as 'groupName@@serviceName'")]
    Format,
    /// Nothing before the first `@@`.
    #[error("Param 'serviceName' is illegal, groupName can't be empty")]
    EmptyGroup,
    /// A character that no service may have.
    #[error("dom name can only have these characters: 0-9a-zA-Z-._:, current: {0}")]
    Characters(String),
    /// A character that no cluster may have.
    #[error("cluster name can only have these characters: 0-9a-zA-Z-, current: {0}")]
    ClusterCharacters(String),
    /// An empty part between two separators.
    #[error("Param 'serviceName' is illegal, no part of it may be empty, current: {0}")]
    EmptyPart(String),
    /// More bytes than a setting allows, of a name or of what comes with it.
    #[error(transparent)]
    Limit(#[from] TooLong),
    /// As many clusters as the setting `nacre.naming.max-clusters` allows are there.
    #[error(
        "Param 'clusterName' is illegal, the service has {limit} clusters, which is the most it may have"
    )]
    TooManyClusters {
        /// The limit.
        limit: usize,
    },
    /// `##` in a namespace id, or `#` at its end: keys of the peer protocol are cut at their first `##`.
    #[error("Param 'namespaceId' is illegal, it can't contain '##' or end with '#', current: {0}")]
    Namespace(String),
}

/// What stands before and behind the first `@@`.
fn split_at_separator(name: &str) -> Option<(&str, &str)> {
    let at = memchr::memmem::find(name.as_bytes(), SEPARATOR.as_bytes())?;
    Some((&name[..at], &name[at + SEPARATOR.len()..]))
}

/// Checks that `name` reads as `group@@service`; what it names need not exist.
///
/// # Errors
/// [`NameError::Format`] or [`NameError::EmptyGroup`].
pub fn check_format(name: &str) -> Result<(), NameError> {
    match split_at_separator(name) {
        Some((_, rest)) if rest.chars().all(|letter| letter == '@') && rest.len() % 2 == 0 => {
            Err(NameError::Format)
        }
        None => Err(NameError::Format),
        Some(("", _)) => Err(NameError::EmptyGroup),
        Some(_) => Ok(()),
    }
}

/// Checks what a service must fulfil before it is made or changed: form, no empty part, characters, length.
///
/// # Errors
/// The first rule of [`NameError`] that `key` breaks.
///
/// # Source
/// Characters: Nacos 1.4.8 naming module, service validation. Empty parts, length and `##` are refused here and
/// accepted there; compat cases marked imp-8.
pub fn check_creatable(namespace: &str, name: &str, limits: &Limits) -> Result<(), NameError> {
    check_format(name)?;
    if name.split(SEPARATOR).any(str::is_empty) {
        return Err(NameError::EmptyPart(name.into()));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'@' | b'.' | b':' | b'_' | b'-');
    if !name.bytes().all(allowed) {
        return Err(NameError::Characters(name.into()));
    }
    limits.check_name("serviceName", name)?;
    if namespace.contains("##") || namespace.ends_with('#') {
        return Err(NameError::Namespace(namespace.into()));
    }
    Ok(limits.check_name("namespaceId", namespace)?)
}

/// Checks the characters of a cluster's name; see also [`Limits::check_new_cluster`].
///
/// # Errors
/// [`NameError::ClusterCharacters`].
pub fn check_cluster(name: &str) -> Result<(), NameError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.is_empty() && name.bytes().all(allowed) {
        Ok(())
    } else {
        Err(NameError::ClusterCharacters(name.into()))
    }
}

/// The service without its group: what stands between the first and the second `@@`.
#[must_use]
pub fn service_part(name: &str) -> &str {
    name.split(SEPARATOR).nth(1).unwrap_or(name)
}

/// What stands before the first `@@`.
#[must_use]
pub fn group_part(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(DEFAULT_GROUP, |(group, _)| group)
}

/// Whether `name` is of this very group.
#[must_use]
pub fn is_in_group(name: &str, group: &str) -> bool {
    name.strip_prefix(group).is_some_and(|rest| rest.starts_with(SEPARATOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_a_group_and_a_service() {
        assert_eq!(check_format("g@@s"), Ok(()));
        assert_eq!(check_format("g@@a@@x"), Ok(()));
        assert_eq!(check_format("g@@@@x"), Ok(()));
        assert_eq!(check_format("g@@"), Err(NameError::Format));
        assert_eq!(check_format("g@@@@"), Err(NameError::Format));
        assert_eq!(check_format("s"), Err(NameError::Format));
        assert_eq!(check_format("@@"), Err(NameError::Format));
        assert_eq!(check_format("@@x"), Err(NameError::EmptyGroup));
    }

    #[test]
    fn what_is_made_has_no_empty_part_and_a_bounded_length() {
        let limits = &Limits { name_bytes: 512, ..Limits::default() };
        assert_eq!(check_creatable("public", "g@@@@x", limits), Err(NameError::EmptyPart("g@@@@x".into())));
        for namespace in ["a##b", "a#", "#"] {
            let refused = Err(NameError::Namespace(namespace.into()));
            assert_eq!(check_creatable(namespace, "g@@x", limits), refused);
        }
        assert_eq!(check_creatable("#a#b", "g@@x", limits), Ok(()));
        let too_long = |what, bytes| Err(TooLong { what, limit: 512, bytes }.into());
        let long = format!("g@@{}", "a".repeat(600));
        assert_eq!(check_creatable("public", &long, limits), too_long("serviceName", 603));
        assert_eq!(check_creatable(&long, "g@@x", limits), too_long("namespaceId", 603));
        assert_eq!(check_creatable("public", "g@@中", limits), Err(NameError::Characters("g@@中".into())));
        assert_eq!(check_creatable("public", "g@@a@b:c.d_e-f", limits), Ok(()));
    }

    #[test]
    fn a_key_in_a_log_stays_on_its_line() {
        let key = ServiceKey::new("a\n2026 ERROR forged\r\u{1b}[31m", "G@@中");
        assert_eq!(key.to_string(), "a\\n2026 ERROR forged\\r\\u{1b}[31m##G@@中");
    }

    #[test]
    fn the_parts_of_a_name() {
        assert_eq!(service_part("G@@a@@x"), "a");
        assert_eq!(group_part("G@@a@@x"), "G");
        assert_eq!(service_part("plain"), "plain");
        assert!(is_in_group("G1@@a", "G1"));
        assert!(!is_in_group("G12@@a", "G1") && !is_in_group("G1@@a", "G"));
    }
}
