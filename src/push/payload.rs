//! What a packet holds: a list answer as a text inside a JSON object, compressed when it isn't small.
//!
//! Built once for all who get the same list. A datagram has an end, and what doesn't fit is given up as soon as that
//! is certain, so the largest service costs no more than a full packet. Pure.
//! Source: Nacos 1.4.8 naming module, push service; compat file `push`.

use std::{
    fmt,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use flate2::{Compression, write::GzEncoder};

use crate::model::{
    Service, State,
    list::{self, Echo, Shape},
};

/// Most bytes of a datagram over IPv4.
pub const MOST_DATAGRAM_BYTES: usize = 65_507;
/// A packet of this many bytes or more is compressed as a whole.
pub const GZIP_FROM_BYTES: usize = 1_024;
/// A packet that would have more bytes than this before compression counts as too large, however small it got: it
/// would cost both sides too much.
pub const MOST_PLAIN_BYTES: usize = 8 << 20;

/// Up to this many instances the answer is taken from (and left in) the answers that are kept for queries.
const FEW_INSTANCES: usize = 256;
/// What has gathered before it goes through the compressor, in bytes.
const PIECE_BYTES: usize = 16 << 10;

/// Counts the bytes of all packets that are kept somewhere.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicUsize>);

/// A packet, ready to be sent.
pub struct Packet {
    bytes: Vec<u8>,
    number: u64,
    gauge: Gauge,
}

impl fmt::Debug for Packet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "packet {} of {} bytes", self.number, self.bytes.len())
    }
}

impl Packet {
    /// A packet of these bytes, counted by `gauge` for as long as it exists.
    #[must_use]
    pub fn new(bytes: Vec<u8>, number: u64, gauge: &Gauge) -> Arc<Self> {
        gauge.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Arc::new(Self { bytes, number, gauge: gauge.clone() })
    }

    /// What goes over the wire.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its outer `lastRefTime`, by which it is acknowledged.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The bytes of all packets that exist.
    #[must_use]
    pub fn bytes_of_all(&self) -> usize {
        self.gauge.0.load(Ordering::Relaxed)
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        self.gauge.0.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The list doesn't fit into a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the list doesn't fit into a datagram")]
pub struct TooLarge;

/// What a packet shows of a service.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// This state of it.
    State(&'a State),
    /// That it is gone: its last definition without a single instance.
    Gone(&'a State),
}

/// The bytes of the packet with this `number` that shows `service` in this `shape`.
///
/// # Errors
/// [`TooLarge`], found with bounded work whatever the size of the service.
pub fn build(
    service: &Service,
    shown: Content<'_>,
    shape: Shape<'_>,
    echo: Echo<'_>,
    number: u64,
) -> Result<Vec<u8>, TooLarge> {
    let mut writer = Writer::new();
    match shown {
        Content::Gone(state) => writer.data(&list::emptiness(service, state, shape).to_bytes(echo))?,
        Content::State(state) if state.len() <= FEW_INSTANCES => {
            writer.data(&list::answer(service, state, shape).to_bytes(echo))?;
        }
        Content::State(state) => {
            let mut fits = Ok(());
            let rest = list::answer_in_pieces(service, state, shape, &mut |piece| {
                if piece.len() >= PIECE_BYTES {
                    fits = writer.data(piece);
                    piece.clear();
                }
                fits.is_ok()
            });
            fits?;
            writer.data(&rest.ok_or(TooLarge)?.to_bytes(echo))?;
        }
    }
    writer.finish(number)
}

/// Puts a packet together, compressing it on the way when it isn't small.
struct Writer {
    plain: Vec<u8>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    total: usize,
}

impl Writer {
    fn new() -> Self {
        let mut plain = Vec::with_capacity(2 * GZIP_FROM_BYTES);
        plain.extend_from_slice(br#"{"type":"dom","data":""#);
        Self { plain, encoder: None, total: 0 }
    }

    /// Appends a part of the list's JSON text.
    fn data(&mut self, json: &[u8]) -> Result<(), TooLarge> {
        for piece in json.chunks(PIECE_BYTES) {
            push_quoted(&mut self.plain, piece);
            if self.plain.len() >= PIECE_BYTES {
                self.compress()?;
            }
        }
        Ok(())
    }

    /// Moves what has gathered through the compressor.
    fn compress(&mut self) -> Result<(), TooLarge> {
        let encoder = self.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::default()));
        encoder.write_all(&self.plain).expect("writing into memory can't fail");
        self.total += self.plain.len();
        self.plain.clear();
        // What the encoder has put out is out for good, so there is no way back below the limit.
        let is_full = encoder.get_ref().len() > MOST_DATAGRAM_BYTES || self.total > MOST_PLAIN_BYTES;
        if is_full { Err(TooLarge) } else { Ok(()) }
    }

    fn finish(mut self, number: u64) -> Result<Vec<u8>, TooLarge> {
        let _ = write!(self.plain, r#"","lastRefTime":{number}}}"#);
        if self.encoder.is_none() && self.plain.len() < GZIP_FROM_BYTES {
            return Ok(self.plain);
        }
        self.compress()?;
        let bytes = self.encoder.map(GzEncoder::finish).transpose().expect("writing into memory can't fail");
        bytes.filter(|bytes| bytes.len() <= MOST_DATAGRAM_BYTES).ok_or(TooLarge)
    }
}

/// Appends a part of a JSON text as it stands inside a JSON string. Such a text holds no control characters.
fn push_quoted(out: &mut Vec<u8>, mut json: &[u8]) {
    out.reserve(json.len() + json.len() / 4);
    while let Some(at) = memchr::memchr2(b'"', b'\\', json) {
        out.extend_from_slice(&json[..at]);
        out.extend_from_slice(&[b'\\', json[at]]);
        json = &json[at + 1..];
    }
    out.extend_from_slice(json);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::{
        base::clock::Millis,
        model::{
            Definition, InstanceKey, Limits, Metadata, Registry, ServiceKey, change::Changes,
            instance::Description, registry::Place,
        },
    };

    const PLACE: Place<'static> = Place { namespace: "public", name: "G@@a" };

    fn register(registry: &Registry, ip: &str, cluster: &str, metadata: &str) {
        let described = Description {
            key: InstanceKey { ip, port: 80, cluster },
            weight: 1.0,
            enabled: true,
            healthy: true,
            ephemeral: true,
            metadata: metadata.parse::<Metadata>().unwrap(),
            app: None,
        };
        registry.register(PLACE, &described, Millis(0)).unwrap();
    }

    fn registry(count: u32, metadata: impl Fn(u32) -> String) -> Registry {
        let registry = Registry::new(Arc::new(Changes::default()), Limits::default());
        for index in 0..count {
            let ip = std::net::Ipv4Addr::from(0x0a00_0000 + index).to_string();
            register(&registry, &ip, "DEFAULT", &metadata(index));
        }
        registry
    }

    fn packet(registry: &Registry, clusters: &str) -> Result<Vec<u8>, TooLarge> {
        let service = registry.get(PLACE).unwrap();
        let shape = Shape { clusters, healthy_only: false, grouped: true };
        let echo = Echo { cache_millis: 10_000, wall_ms: 17, env: "" };
        build(&service, Content::State(&service.state()), shape, echo, 42)
    }

    fn unzipped(packet: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(packet).read_to_string(&mut text).unwrap();
        text
    }

    /// The inner list, after a look at the outer object.
    fn data(text: &str) -> serde_json::Value {
        let outer: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!((&outer["type"], &outer["lastRefTime"]), (&"dom".into(), &42.into()));
        serde_json::from_str(outer["data"].as_str().unwrap()).unwrap()
    }

    #[test]
    fn a_small_packet_is_plain_and_its_keys_stand_in_order() {
        let registry = registry(1, |_| r#"{"q":"a\"b\\中"}"#.into());
        let text = String::from_utf8(packet(&registry, "").unwrap()).unwrap();
        assert!(
            text.starts_with(r#"{"type":"dom","data":"{\"hosts\":[{\"ip\":\"10.0.0.0\",\"port\":80,"#),
            "{text}"
        );
        assert!(text.ends_with(r#"\"env\":\"\",\"metadata\":{}}","lastRefTime":42}"#), "{text}");
        assert_eq!(data(&text)["hosts"][0]["metadata"]["q"], "a\"b\\中");
        assert_eq!(data(&text)["cacheMillis"], 10_000);
    }

    #[test]
    fn a_packet_is_compressed_from_1024_bytes_on() {
        let size = |length: usize| {
            let registry = registry(1, |_| format!("k={}", "v".repeat(length)));
            packet(&registry, "").unwrap()
        };
        let base = size(1).len() - 1;
        let plain = size(GZIP_FROM_BYTES - 1 - base);
        assert_eq!((plain.len(), plain[0]), (1_023, b'{'));
        let compressed = size(GZIP_FROM_BYTES - base);
        assert_eq!(compressed[..2], [0x1f, 0x8b]);
        assert_eq!(unzipped(&compressed).len(), 1_024);
    }

    #[test]
    fn a_list_in_pieces_is_the_same_list() {
        let count = u32::try_from(FEW_INSTANCES).unwrap() + 700;
        let registry = registry(count, |index| format!("index={index}"));
        let list = data(&unzipped(&packet(&registry, "").unwrap()));
        let service = registry.get(PLACE).unwrap();
        let shape = Shape { clusters: "", healthy_only: false, grouped: true };
        let echo = Echo { cache_millis: 10_000, wall_ms: 17, env: "" };
        let answer = list::answer(&service, &service.state(), shape).to_bytes(echo);
        assert_eq!(list, serde_json::from_slice::<serde_json::Value>(&answer).unwrap());
        assert_eq!(list["hosts"].as_array().map(Vec::len), Some(count as usize));
    }

    #[test]
    fn what_can_not_fit_is_too_large() {
        // What doesn't repeat can't be compressed.
        let noise = |index: u32| {
            let mut state = u64::from(index) + 1;
            let mut digit = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + u8::try_from((state >> 40) % 26).unwrap())
            };
            format!("k={}", (0..1_000).map(|_| digit()).collect::<String>())
        };
        assert_eq!(packet(&registry(200, noise), ""), Err(TooLarge));
        assert_eq!(packet(&registry(400, noise), ""), Err(TooLarge));
    }

    #[test]
    fn a_huge_service_is_given_up_early() {
        let registry = registry(50_000, |_| String::new());
        let service = registry.get(PLACE).unwrap();
        let shape = Shape { clusters: "", healthy_only: false, grouped: true };
        let mut seen = 0;
        let mut writer = Writer::new();
        let rest = list::answer_in_pieces(&service, &service.state(), shape, &mut |piece| {
            seen += piece.len();
            let fits = writer.data(piece);
            piece.clear();
            fits.is_ok()
        });
        assert!(rest.is_none());
        assert!(seen < 4 << 20, "{seen} bytes were looked at");
        assert_eq!(packet(&registry, ""), Err(TooLarge));
    }

    #[test]
    fn clusters_that_nothing_is_in_and_services_that_are_gone_show_emptiness() {
        let registry = registry(1, |_| String::new());
        let text = String::from_utf8(packet(&registry, "B").unwrap()).unwrap();
        assert_eq!(data(&text)["hosts"].as_array().map(Vec::len), Some(0));
        let service = Service::new(ServiceKey::new("public", "G@@a"), Definition::default(), Millis(0));
        let shape = Shape { clusters: "A", healthy_only: false, grouped: false };
        let echo = Echo { cache_millis: 10_000, wall_ms: 17, env: "" };
        let bytes = build(&service, Content::Gone(&service.state()), shape, echo, 42).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.starts_with(
                r#"{"type":"dom","data":"{\"dom\":\"a\",\"name\":\"G@@a\",\"cacheMillis\":10000"#
            ),
            "{text}"
        );
        assert!(text.contains(r#"\"clusters\":\"A\",\"env\":\"\",\"hosts\":[],\"metadata\":{}}""#), "{text}");
    }

    #[test]
    fn the_gauge_follows_what_exists() {
        let gauge = Gauge::default();
        let packet = Packet::new(vec![0; 10], 1, &gauge);
        let other = Packet::new(vec![0; 5], 2, &gauge);
        assert_eq!(packet.bytes_of_all(), 15);
        drop(packet);
        assert_eq!(other.bytes_of_all(), 5);
    }
}
