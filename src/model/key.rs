//! What makes an instance the same instance, and the order of a service's instances.
//!
//! Both are those of the texts `ip:port:unknown:cluster` of v1, which are never made for it. Pure. Source: Nacos 1.4.8
//! naming module, datum key of an instance; compat files `instance-register`, `list-checksum`.

use std::{cmp::Ordering, sync::Arc};

use equivalent::Comparable;

use super::{Instance, Instances};
use crate::base::hash::fnv;

/// What makes two registrations the same instance, besides the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceKey<'a> {
    /// As given: an address, a host name, anything.
    pub ip: &'a str,
    /// Any 32-bit number; one that isn't above zero doesn't count as part of the identity.
    pub port: i32,
    /// Cluster name.
    pub cluster: &'a str,
}

impl InstanceKey<'_> {
    /// The key as v1 texts spell it: `ip:port:unknown:cluster`, or `ip:unknown:cluster` without a port.
    #[must_use]
    pub fn text(&self) -> String {
        if self.port > 0 {
            format!("{}:{}:unknown:{}", self.ip, self.port, self.cluster)
        } else {
            format!("{}:unknown:{}", self.ip, self.cluster)
        }
    }

    /// A hash of all three parts that every node computes alike.
    #[must_use]
    pub fn hash(&self) -> u64 {
        // No text has this byte, so where one ends is part of it.
        fnv(self.ip.bytes().chain([0xff]).chain(self.cluster.bytes()).chain(self.port.to_be_bytes()))
    }
}

impl<'i> InstanceKey<'_> {
    /// The instance with this key and this very port: those that aren't above zero have no part in keys.
    #[must_use]
    pub fn find_in(&self, instances: &'i Instances) -> Option<&'i Arc<Instance>> {
        // Texts may be the same where the parts are not: `a` with port 80 and `a:80` without one.
        instances.get(self).filter(|known| known.port == self.port && known.ip() == self.ip)
    }
}

impl Comparable<Arc<Instance>> for InstanceKey<'_> {
    fn compare(&self, instance: &Arc<Instance>) -> Ordering {
        compare(self, &instance.key())
    }
}

impl equivalent::Equivalent<Arc<Instance>> for InstanceKey<'_> {
    fn equivalent(&self, instance: &Arc<Instance>) -> bool {
        self.compare(instance) == Ordering::Equal
    }
}

/// All instances of one address begin here in their order, whatever their clusters.
#[derive(Clone, Copy, Debug)]
pub struct IpAndPort<'a> {
    /// As given.
    pub ip: &'a str,
    /// As given.
    pub port: i32,
}

impl IpAndPort<'_> {
    /// Whether `instances` has it, in any cluster; O(log n).
    #[must_use]
    pub fn is_in(self, instances: &Instances) -> bool {
        // What begins alike stands together. It may still be another address: `a:80` without a port reads like `a`
        // with port 80.
        let begins_alike = |known: &&Arc<Instance>| {
            let (mut own, mut other) = ([0; 12], [0; 12]);
            let mut text = text_of(&known.key(), &mut other);
            self.beginning(&mut own).all(|byte| text.next() == Some(byte))
        };
        let mut alike = instances.range(self..).take_while(begins_alike);
        alike.any(|known| known.ip() == self.ip && known.port == self.port)
    }

    /// `ip:port:unknown:`, or `ip:unknown:`.
    fn beginning<'b>(&'b self, buffer: &'b mut [u8; 12]) -> impl Iterator<Item = u8> + use<'b> {
        self.ip.bytes().chain(*b":").chain(port_text(self.port, buffer).iter().copied()).chain(*b"unknown:")
    }
}

/// The text by which keys are ordered.
fn text_of<'a>(key: &InstanceKey<'a>, buffer: &'a mut [u8; 12]) -> impl Iterator<Item = u8> + use<'a> {
    let port = port_text(key.port, buffer).iter().copied();
    key.ip.bytes().chain(*b":").chain(port).chain(*b"unknown:").chain(tail(key))
}

impl Comparable<Arc<Instance>> for IpAndPort<'_> {
    /// Before all instances whose texts begin with it.
    fn compare(&self, instance: &Arc<Instance>) -> Ordering {
        let (mut own, mut other) = ([0; 12], [0; 12]);
        self.beginning(&mut own).cmp(text_of(&instance.key(), &mut other))
    }
}

impl equivalent::Equivalent<Arc<Instance>> for IpAndPort<'_> {
    fn equivalent(&self, _: &Arc<Instance>) -> bool {
        false
    }
}

/// The order of the texts `ip:port:unknown:cluster_`, in which the checksum of a service wants its instances,
/// without making the texts.
pub(super) fn compare(one: &InstanceKey<'_>, other: &InstanceKey<'_>) -> Ordering {
    let common = one.ip.len().min(other.ip.len());
    let (left, right) = (one.ip.as_bytes(), other.ip.as_bytes());
    let start = left[..common].cmp(&right[..common]);
    if start != Ordering::Equal {
        return start;
    }
    let (mut left_port, mut right_port) = ([0; 12], [0; 12]);
    let (left_port, right_port) =
        (port_text(one.port, &mut left_port), port_text(other.port, &mut right_port));
    if left.len() == right.len() && !left_port.is_empty() && !right_port.is_empty() {
        // Both end in a colon, so neither is the beginning of the other.
        return left_port.cmp(right_port).then_with(|| tail(one).cmp(tail(other)));
    }
    let left = left[common..].iter().chain(b":").chain(left_port).copied().chain(b"unknown:".iter().copied());
    let right =
        right[common..].iter().chain(b":").chain(right_port).copied().chain(b"unknown:".iter().copied());
    left.chain(tail(one)).cmp(right.chain(tail(other)))
}

/// The cluster and the letter that follows it in the texts.
fn tail<'a>(key: &InstanceKey<'a>) -> impl Iterator<Item = u8> + use<'a> {
    key.cluster.bytes().chain(std::iter::once(b'_'))
}

/// `port` in digits with a colon behind, or nothing where it isn't above zero.
fn port_text(port: i32, buffer: &mut [u8; 12]) -> &[u8] {
    if port <= 0 {
        return &[];
    }
    let mut at = buffer.len() - 1;
    buffer[at] = b':';
    let mut rest = port.unsigned_abs();
    while rest > 0 {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
    }
    &buffer[at..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::clock::Millis,
        model::instance::{Description, InstanceId},
    };

    #[test]
    fn keys_sort_like_their_texts() {
        let keys =
            [("10.0.0.1", 80, "A"), ("10.0.0.1", 80, "A-b"), ("10.0.0.1", 0, "A"), ("10.0.0.1", 8080, "A")];
        let keys =
            keys.into_iter().chain([("10.0.0.10", 80, "A"), ("10.0.0.1", 9, "B"), ("10.0.0.1", -1, "A")]);
        let keys: Vec<_> = keys.map(|(ip, port, cluster)| InstanceKey { ip, port, cluster }).collect();
        for one in &keys {
            for other in &keys {
                let texts = (one.text() + "_").cmp(&(other.text() + "_"));
                assert_eq!(compare(one, other), texts, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn an_address_is_found_in_any_cluster() {
        let described = [
            ("10.0.0.1", 80, "z-9"),
            ("10.0.0.1", 81, "A"),
            ("a", 0, "zz"),
            ("a:unknown", 0, "X"),
            ("a:80", 0, "B"),
            ("b", -1, "A"),
            ("[::1]", 80, "A"),
        ];
        let instances = described.map(|(ip, port, cluster)| {
            Arc::new(Instance::new(Description::new(ip, port, cluster), InstanceId::Simple, Millis(1)))
        });
        let instances = instances.into_iter().collect();
        let known = |ip, port| IpAndPort { ip, port }.is_in(&instances);
        for (ip, port, _) in described {
            assert!(known(ip, port), "{ip} {port}");
        }
        for (ip, port) in
            [("10.0.0.1", 8), ("10.0.0.1", 0), ("a", 80), ("b", 0), ("b", 80), ("", 80), ("::1", 80)]
        {
            assert!(!known(ip, port), "{ip} {port}");
        }
    }
}
