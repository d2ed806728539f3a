//! The checksum by which 1.x peers compare an ephemeral list: MD5 of one text per instance.
//!
//! Pure. The texts are sorted by one more text, `ip:port:unknown:cluster_weight_healthy_marked_cluster`, in the order of
//! UTF-16 units; where that is the same the reference keeps the order in which a list came. Instances here never have it
//! in common, since a service has one instance of an `ip:port:unknown:cluster`. Source: Nacos 1.4.8 naming module,
//! checksum of instances; vectors in `compat-tests/wire/distro-checksum.json`.

use std::{collections::BTreeMap, fmt::Write as _};

use md5::{Digest, Md5};

use crate::{
    base::{java, json},
    model::{Instance, InstanceKey, State},
};

/// The text is digested in pieces of about this size.
const PIECE_BYTES: usize = 8 << 10;

/// The checksum of the ephemeral list of `state`, as 32 hexadecimal digits; kept in it.
#[must_use]
pub fn of(state: &State) -> String {
    let digest = state.datum_checksum(|state| {
        let mut lines: Vec<Line<'_>> = state.ephemeral.iter().map(|instance| Line::of(instance)).collect();
        // They are in the order of UTF-8, which is another one for characters that UTF-16 writes as pairs.
        if lines.iter().any(|line| has_pairs(line.key.ip) || has_pairs(line.key.cluster)) {
            sort(&mut lines);
        }
        digest(&lines)
    });
    let mut hex = String::with_capacity(32);
    for byte in digest {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Whether UTF-16 writes a character of `text` as a pair: four bytes here.
fn has_pairs(text: &str) -> bool {
    text.bytes().any(|byte| byte >= 0xf0)
}

/// What the checksum shows of an instance.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    key: InstanceKey<'a>,
    weight: f64,
    healthy: bool,
    enabled: bool,
    marked: bool,
    /// A JSON object of scalars.
    metadata: &'a str,
}

impl<'a> Line<'a> {
    fn of(instance: &'a Instance) -> Self {
        Self {
            key: instance.key(),
            weight: instance.weight,
            healthy: instance.healthy(),
            enabled: instance.enabled,
            marked: instance.marked,
            metadata: instance.metadata.json(),
        }
    }

    /// What it is sorted by.
    fn place(&self) -> Vec<u16> {
        let Self { key, healthy, marked, .. } = self;
        let text =
            format!("{}_{}_{healthy}_{marked}_{}", key.text(), java::double_text(self.weight), key.cluster);
        text.encode_utf16().collect()
    }

    /// `ip:port_weight_healthy_enabled_cluster_`, `key:value,` for each pair of the metadata by its key, and `,`.
    fn push(&self, out: &mut Vec<u8>) {
        let Self { key, weight, healthy, enabled, .. } = self;
        out.extend_from_slice(key.ip.as_bytes());
        out.push(b':');
        json::push_number(out, key.port);
        out.push(b'_');
        out.extend_from_slice(java::double_text(*weight).as_bytes());
        out.extend_from_slice(format!("_{healthy}_{enabled}_{}_", key.cluster).as_bytes());
        if self.metadata != "{}" {
            for (key, value) in sorted_pairs(self.metadata).values() {
                out.extend_from_slice(format!("{key}:{value},").as_bytes());
            }
        }
        out.push(b',');
    }
}

/// The pairs of metadata by the UTF-16 units of their keys. Null is the word; of a repeated key the last value counts.
fn sorted_pairs(metadata: &str) -> BTreeMap<Vec<u16>, (String, String)> {
    let pairs = crate::model::metadata::read_object(metadata).unwrap_or_default();
    let value = |value: Option<String>| value.unwrap_or_else(|| "null".to_owned());
    pairs.into_iter().map(|(key, text)| (key.encode_utf16().collect(), (key, value(text)))).collect()
}

/// Sorts as the reference does: what has the same place keeps its order.
fn sort(lines: &mut [Line<'_>]) {
    lines.sort_by_cached_key(Line::place);
}

fn digest(lines: &[Line<'_>]) -> [u8; 16] {
    let mut digest = Md5::new();
    let mut text = Vec::with_capacity(PIECE_BYTES + 256);
    for line in lines {
        line.push(&mut text);
        if text.len() >= PIECE_BYTES {
            digest.update(&text);
            text.clear();
        }
    }
    digest.update(&text);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;
    use crate::{
        base::{
            clock::{Millis, Reading},
            jackson::{self, Scalar},
        },
        distro::{accept, batch, key},
        model::{
            Limits, Registry, ServiceKey,
            change::Changes,
            merge::{Judge, ListFor},
        },
    };

    #[derive(Deserialize)]
    struct Row {
        key: String,
        instances: Vec<Box<RawValue>>,
        text: String,
        checksum: String,
        name: Option<String>,
        note: Option<String>,
    }

    fn rows() -> Vec<Row> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/compat-tests/wire/distro-checksum.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }

    #[derive(Default)]
    struct Wire<'a>([Scalar<'a>; 8]);

    /// An instance as it came, before anything is clamped or refused.
    fn line(raw: &str) -> Line<'_> {
        let names = ["ip", "port", "weight", "healthy", "enabled", "clusterName", "metadata", "marked"];
        let wire = jackson::fields(raw, |wire: &mut Wire<'_>, name, value| {
            if let Some(index) = names.iter().position(|known| *known == name) {
                wire.0[index] = value;
            }
        });
        let [ip, port, weight, healthy, enabled, cluster, metadata, marked] = wire.unwrap().0;
        // Borrowed for as long as the test runs.
        let text = |field: Scalar<'_>| field.text().unwrap().map(|text| &*text.into_owned().leak());
        Line {
            key: InstanceKey {
                ip: text(ip).unwrap(),
                port: port.integer().unwrap().unwrap_or(0),
                // Until the list is applied.
                cluster: text(cluster).unwrap_or("null"),
            },
            weight: weight.double().unwrap().unwrap_or(1.0),
            healthy: healthy.boolean().unwrap().unwrap_or(true),
            enabled: enabled.boolean().unwrap().unwrap_or(true),
            marked: marked.boolean().unwrap().unwrap_or(false),
            metadata: metadata.raw().unwrap_or("{}"),
        }
    }

    #[test]
    fn every_recorded_list_has_its_text_and_checksum() {
        let rows = rows();
        assert_eq!(rows.len(), 147);
        for row in rows {
            let mut lines: Vec<Line<'_>> = row.instances.iter().map(|raw| line(raw.get())).collect();
            sort(&mut lines);
            let mut text = Vec::new();
            lines.iter().for_each(|line| line.push(&mut text));
            let name = row.name.unwrap_or(row.key);
            assert_eq!(String::from_utf8(text).unwrap(), row.text, "{name}");
            let hex: String = digest(&lines).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, row.checksum, "{name}");
        }
    }

    /// Rows that are another list once they are stored: two instances with one key, weights that no instance may have,
    /// names that are refused, null values, which are dropped, and a cluster that gets its name only then.
    const CHANGED_BY_STORING: [&str; 17] = [
        "cluster name repeated at the end of the sort key",
        "cluster non-ASCII",
        "cluster above the BMP",
        "weights as sort key",
        "weight -5",
        "weight -0.00001",
        "weight NaN",
        "healthy is part of the sort key",
        "marked is part of the sort key",
        "enabled is not part of the sort key",
        "enabled is not part of the sort key, other order",
        "metadata is not part of the sort key",
        "metadata is not part of the sort key, other order",
        "null value",
        "only ip and port",
        "two identical entries",
        "40 shuffled, wide",
    ];

    #[test]
    fn a_stored_list_has_the_checksum_that_its_sender_has() {
        let (mut same, mut changed) = (0, Vec::new());
        for row in rows() {
            if row.note.as_ref().is_some_and(|note| note.contains("only before the list is applied")) {
                continue;
            }
            let registry = Registry::new(Arc::new(Changes::default()), Limits::default());
            let list: Vec<&str> = row.instances.iter().map(|raw| raw.get()).collect();
            let (key, list) = (&row.key, list.join(","));
            let body = format!(r#"{{"{key}":{{"key":"{key}","value":{{"instanceList":[{list}]}}}}}}"#);
            let at = Reading { now: Millis(1 << 40), wall_ms: 1_795_982_100_000 };
            let outcome = accept::take(
                &registry,
                batch::read(body.as_bytes(), at).unwrap(),
                |_| Judge::Another,
                |_| ListFor::Whole,
                at.now,
            );
            assert_eq!(outcome.refused.len(), 0);
            let key::Key::List(place) = key::read(key) else { panic!("{key}") };
            let service = registry.get(place).unwrap();
            assert_eq!(service.key, ServiceKey::new(place.namespace, place.name));
            if of(&service.state()) == row.checksum {
                same += 1;
            } else {
                changed.push(row.name.unwrap_or(row.key));
            }
        }
        let expected: Vec<&str> = CHANGED_BY_STORING.into();
        assert_eq!(changed, expected);
        assert_eq!(same, 147 - 7 - expected.len());
    }

    #[test]
    fn an_empty_list_has_the_checksum_of_nothing() {
        let service =
            crate::model::Service::new(ServiceKey::new("public", "G@@s"), Default::default(), Millis(0));
        assert_eq!(of(&service.state()), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
