//! The key of a datum: `com.alibaba.nacos.naming.iplist.ephemeral.NAMESPACE##GROUP@@SERVICE`.
//!
//! Pure. Source: Nacos 1.4.8 naming module, key builder.

use crate::model::registry::Place;

/// Begins the keys of ephemeral lists; other keys of the reference hold persistent data.
const PREFIX: &str = "com.alibaba.nacos.naming.iplist.ephemeral.";
/// Between namespace and service.
const SEPARATOR: &str = "##";

/// The key of the ephemeral list of a service.
#[must_use]
pub fn of(place: Place<'_>) -> String {
    [PREFIX, place.namespace, SEPARATOR, place.name].concat()
}

/// What a key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The ephemeral list of this service, whose name is unchecked.
    List(Place<'a>),
    /// Something that Distro doesn't carry.
    Other,
    /// It begins like the key of an ephemeral list, and names no service.
    Broken,
}

/// Reads a key. No service's name has a `#`, so the last separator is the one that was put in; a namespace that was stored before
/// such texts were refused may have more of them.
#[must_use]
pub fn read(key: &str) -> Key<'_> {
    let Some(rest) = key.strip_prefix(PREFIX) else { return Key::Other };
    match rest.rsplit_once(SEPARATOR) {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Key::List(Place { namespace, name })
        }
        _ => Key::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_as_its_place() {
        let place = Place { namespace: "public", name: "G@@s" };
        assert_eq!(of(place), "com.alibaba.nacos.naming.iplist.ephemeral.public##G@@s");
        assert_eq!(read(&of(place)), Key::List(place));
        for namespace in ["#", "a#", "a##b", "#a"] {
            let place = Place { namespace, ..place };
            assert_eq!(read(&of(place)), Key::List(place));
        }
    }

    #[test]
    fn other_keys_are_told_apart_from_broken_ones() {
        for other in ["", "abc", "com.alibaba.nacos.naming.iplist.public##G@@s"] {
            assert_eq!(read(other), Key::Other, "{other}");
        }
        for broken in ["", "public", "##G@@s", "public##"] {
            assert_eq!(read(&[PREFIX, broken].concat()), Key::Broken, "{broken}");
        }
    }
}
