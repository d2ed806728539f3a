//! What Nacre members say to each other beside the wire of 1.x: comparing, and what is known of silence.
//!
//! Pure. JSON objects with texts for digests, since not every reader of JSON has 64-bit numbers; unknown fields are of no
//! account, so that a later version may say more.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::verify::{BUCKETS, Buckets, Page};
use crate::{
    base::json,
    model::{InstanceKey, ServiceKey},
};

/// Between namespace and service.
const SEPARATOR: &str = "##";

/// A service as `namespace##group@@service`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named(pub ServiceKey);

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}{SEPARATOR}{}", self.0.namespace, self.0.name))
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.rsplit_once(SEPARATOR) {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self(ServiceKey::new(namespace, name)))
            }
            _ => Err(D::Error::custom("a key without a namespace or a name")),
        }
    }
}

/// 64 bits as hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(|_| D::Error::custom("a digest isn't hexadecimal"))
    }
}

/// An instance and how long ago its last beat was, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silent(pub String, pub i32, pub String, pub u64);

impl Silent {
    /// Which instance.
    #[must_use]
    pub fn key(&self) -> InstanceKey<'_> {
        InstanceKey { ip: &self.0, port: self.1, cluster: &self.2 }
    }

    /// The instance with this key, silent for `age_ms`.
    #[must_use]
    pub fn new(key: &InstanceKey<'_>, age_ms: u64) -> Self {
        Self(key.ip.to_owned(), key.port, key.cluster.to_owned(), age_ms)
    }
}

/// Instances by service.
pub type Silences = Vec<(Named, Vec<Silent>)>;

/// What is left of the bytes of a document.
#[derive(Clone, Copy, Debug)]
pub struct Room(pub usize);

impl Room {
    /// What stands around the instances of a service, and behind each of them.
    const AROUND: usize = "[,[]],".len();
    const BEHIND: usize = ",".len();

    /// Adds an instance to a list, and tells whether there was room for it.
    pub fn add(&mut self, list: &mut Silences, service: &ServiceKey, silent: Silent) -> bool {
        let is_under_way = list.last().is_some_and(|(named, _)| named.0 == *service);
        let named = (!is_under_way).then(|| Named(service.clone()));
        let around = named.as_ref().map_or(0, |named| json::length(named) + Self::AROUND);
        let Some(left) = self.0.checked_sub(around + json::length(&silent) + Self::BEHIND) else {
            return false;
        };
        self.0 = left;
        list.extend(named.map(|named| (named, Vec::new())));
        list.last_mut().expect("added where there was none").1.push(silent);
        true
    }
}

/// The same in parts, each of so many bytes at most.
#[must_use]
pub fn parted(silences: Silences, most_bytes: usize) -> Vec<Silences> {
    let (mut parts, mut room) = (vec![Silences::new()], Room(most_bytes));
    for (Named(service), silent) in silences {
        for silent in silent {
            let part = parts.last_mut().expect("there is one from the beginning");
            if room.add(part, &service, silent.clone()) {
                continue;
            }
            if !part.is_empty() {
                parts.push(Silences::new());
            }
            let (part, mut all) = (parts.last_mut().expect("as above"), Room(usize::MAX));
            all.add(part, &service, silent);
            room = Room(most_bytes.saturating_sub(usize::MAX - all.0));
        }
    }
    parts
}

/// What an owner says of the silence of its instances: those that aren't named, and weren't before, are in time, if what
/// was said before is still known and no more is to come. Services fall into the same buckets as when data are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beats {
    /// All that are late are named; what was said before is of no account.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// The same for the services in these buckets, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anew_in: Vec<u8>,
    /// Of all that are late as far as was said: who knows others has missed something.
    #[serde(default)]
    pub lates: Hex,
    /// The same by buckets, where the receiver missed something lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<Hex>>,
    /// Not all has been said, the rest comes next time: of those that weren't named nothing is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Those that became late.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Silences,
    /// Those that were late and have beaten since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub back: Silences,
}

/// An owner compares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// Address of the owner.
    pub source: String,
    /// The ring as it sees it, sorted as text: that of the receiver may be another one, and then not all that the owner
    /// means would be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ring: Vec<String>,
    /// The digest of all that it owns.
    pub root: Hex,
    /// What it says of silence.
    #[serde(flatten)]
    pub beats: Beats,
}

/// The answer to [`Verify`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Tells one run of the answering node from another.
    pub boot: Hex,
    /// It doesn't know all that was said of silence before: what is in these buckets is to be said anew; none where it was
    /// given none to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Vec<u8>>,
    /// Its own digests of what the owner owns, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<Vec<Hex>>,
}

impl Verified {
    /// The buckets, where there are as many as there must be.
    #[must_use]
    pub fn buckets(&self) -> Option<Buckets> {
        read_buckets(self.buckets.as_deref()?)
    }

    /// An answer.
    #[must_use]
    pub fn new(boot: u64, missed: Option<Vec<u8>>, buckets: Option<&Buckets>) -> Self {
        Self { boot: Hex(boot), missed, buckets: buckets.map(write_buckets) }
    }
}

/// The buckets of a document, where there are as many as there must be.
#[must_use]
pub fn read_buckets(digests: &[Hex]) -> Option<Buckets> {
    let digests: Vec<u64> = digests.iter().map(|hex| hex.0).collect();
    let digests: Box<[u64; BUCKETS]> = digests.into_boxed_slice().try_into().ok()?;
    Some(Buckets(digests))
}

/// Buckets as they stand in a document.
#[must_use]
pub fn write_buckets(buckets: &Buckets) -> Vec<Hex> {
    buckets.0.iter().map(|digest| Hex(*digest)).collect()
}

/// An owner compares the keys of some buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Address of the owner.
    pub source: String,
    /// As in [`Verify`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ring: Vec<String>,
    /// Numbers of the buckets.
    pub buckets: Vec<u8>,
    /// All that it owns in them.
    pub keys: Vec<(Named, Hex)>,
    /// Other buckets differ, too, and come by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub part: bool,
}

impl Keys {
    /// The document of a page.
    #[must_use]
    pub fn new(source: &str, ring: Vec<String>, page: &Page<ServiceKey>) -> Self {
        let keys = page.keys.iter().map(|(key, digest)| (Named(key.clone()), Hex(*digest)));
        let (source, buckets) = (source.to_owned(), page.buckets.clone());
        Self { source, ring, buckets, keys: keys.collect(), part: page.is_part }
    }

    /// The page of a document.
    #[must_use]
    pub fn into_page(self) -> Page<ServiceKey> {
        let mut buckets = self.buckets;
        buckets.sort_unstable();
        let keys = self.keys.into_iter().map(|(Named(key), Hex(digest))| (key, digest));
        Page { buckets, keys: keys.collect(), is_part: self.part }
    }
}

/// The answer to [`Keys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// What the owner is to send whole.
    pub want: Vec<Named>,
}

/// An owner asks about silent instances before it judges them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Address of the owner.
    pub source: String,
    /// With the silence that it knows of.
    pub silent: Silences,
    /// Members that it can't ask itself: whoever reaches them asks them before it answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<String>,
}

/// The answer to [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// Those of which a younger beat is known.
    pub beats: Silences,
    /// The member serves since a moment ago: it may have known of beats, and does no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_look_like_this() {
        let named = || Named(ServiceKey::new("public", "G@@s"));
        let silent = || vec![(named(), vec![Silent("10.0.0.1".into(), 80, "DEFAULT".into(), 12_000)])];
        let verify = Verify {
            source: "10.0.0.1:8848".into(),
            ring: vec!["a:1".into()],
            root: Hex(255),
            beats: Beats { lates: Hex(31), late: silent(), ..Beats::default() },
        };
        let text = r#"{"source":"10.0.0.1:8848","ring":["a:1"],"root":"ff","lates":"1f","late":[["public##G@@s",[["10.0.0.1",80,"DEFAULT",12000]]]]}"#;
        assert_eq!(serde_json::to_string(&verify).unwrap(), text);
        assert_eq!(serde_json::from_str::<Verify>(text).unwrap(), verify);
        let keys = r#"{"source":"a","buckets":[7,3],"keys":[["public##G@@s","1f"]],"later":1}"#;
        let page = serde_json::from_str::<Keys>(keys).unwrap().into_page();
        assert_eq!(page, Page { buckets: vec![3, 7], keys: vec![(named().0, 31)], is_part: false });
        let text = r#"{"source":"a","silent":[["public##G@@s",[["10.0.0.1",80,"DEFAULT",12000]]]]}"#;
        let ask = Ask { source: "a".into(), silent: silent(), unreached: Vec::new() };
        assert_eq!(serde_json::to_string(&ask).unwrap(), text);
        let ask = Ask { unreached: vec!["b:1".into()], ..ask };
        let text = text.replace("]]]]", r#"]]]],"unreached":["b:1"]"#);
        assert_eq!((serde_json::to_string(&ask).unwrap(), serde_json::from_str(&text).unwrap()), (text, ask));
    }

    #[test]
    fn parts_of_a_list_have_the_bytes_that_they_may_have_and_lack_nothing() {
        let silent = |n: u64| Silent::new(&InstanceKey { ip: &n.to_string(), port: 80, cluster: "\"" }, n);
        let services = ["G@@s", "G@@\u{1}"].map(|name| ServiceKey::new("public", name));
        let all: Silences =
            services.iter().map(|key| (Named(key.clone()), (0..1_000).map(silent).collect())).collect();
        let flat = |lists: &[Silences]| -> Vec<(String, Silent)> {
            let lists = lists.iter().flatten();
            lists.flat_map(|(key, all)| all.iter().map(|one| (key.0.name.to_string(), one.clone()))).collect()
        };
        for (most, least) in [(1_000, 900), (100, 40), (10_000, 9_900)] {
            let parts = parted(all.clone(), most);
            assert_eq!(flat(&parts), flat(std::slice::from_ref(&all)));
            let bytes: Vec<usize> = parts.iter().map(json::length).collect();
            assert!(bytes.iter().all(|bytes| *bytes <= most + 2), "{most}: {bytes:?}");
            assert!(bytes[..bytes.len() - 1].iter().all(|bytes| *bytes >= least), "{most}: {bytes:?}");
        }
        assert_eq!(parted(all.clone(), 1).len(), 2_000, "one at a time where even one is too long");
        assert_eq!(parted(Vec::new(), 1), [Silences::new()]);
    }

    #[test]
    fn buckets_come_back_and_a_wrong_count_is_none() {
        let mut buckets = Buckets(Box::new([0; BUCKETS]));
        buckets.0[3] = u64::MAX;
        let text = serde_json::to_string(&Verified::new(1 << 63, None, Some(&buckets))).unwrap();
        let read: Verified = serde_json::from_str(&text).unwrap();
        assert_eq!((read.boot, read.buckets()), (Hex(1 << 63), Some(buckets)));
        let short: Verified = serde_json::from_str(r#"{"boot":"1","buckets":["0"]}"#).unwrap();
        assert_eq!(short.buckets(), None);
        let same: Verified = serde_json::from_str(r#"{"boot":"1"}"#).unwrap();
        assert_eq!(same.buckets(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["{}", "[]", r#"{"source":"a","root":"xyz"}"#, r#"{"source":"a","root":"1","late":[["x",[]]]}"#]
        {
            assert!(serde_json::from_str::<Verify>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Keys>(r#"{"source":"a","buckets":[256],"keys":[]}"#).is_err());
    }
}
