//! What a query sees of a service: the answer of `GET /instance/list` and the content of a push.
//!
//! Pure. The hottest read: the bytes of an answer are kept in the [`State`] that they show, per shape of the
//! question, and only the times and the echoed parameters are written in.
//! Source: Nacos 1.4.8 naming module, list of a service; compat files `list`, `instance-agents`, `push`.

use std::{
    collections::HashMap,
    io::Write as _,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use super::{Instance, Service, State, name::service_part};
use crate::base::{java, json};

/// How many shapes of questions are kept for one revision; further ones are answered anew each time.
const KEPT_SHAPES: usize = 8;
/// The same for a service of more than [`LARGE`] instances, whose answers take megabytes: those of the two kinds of
/// clients.
const KEPT_SHAPES_OF_LARGE: usize = 2;
/// Above so many instances a service is large.
const LARGE: usize = 2_000;
/// How often a question may name the same cluster.
const MOST_REPEATS: usize = 2;

/// From this size on sharing costs less than copying.
const SHARED_FROM_BYTES: usize = 16 << 10;

/// What decides the cached part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape<'a> {
    /// Names separated by commas, or empty for all clusters.
    pub clusters: &'a str,
    /// Leaves out what isn't healthy (after protection).
    pub healthy_only: bool,
    /// `dom` and `serviceName` carry the group, as Java clients from 1.0.0 on expect.
    pub grouped: bool,
}

impl Shape<'_> {
    /// What `dom` and `serviceName` show of a grouped name.
    fn shown<'n>(&self, name: &'n str) -> &'n str {
        if self.grouped { name } else { service_part(name) }
    }
}

/// What else an answer contains.
#[derive(Clone, Copy, Debug)]
pub struct Echo<'a> {
    /// How long the asker may keep the answer, in milliseconds.
    pub cache_millis: i64,
    /// The time of the answer, in milliseconds since 1970.
    pub wall_ms: u64,
    /// The parameter of that name.
    pub env: &'a str,
}

/// An answer but for its times and echoes.
#[derive(Debug)]
pub struct Answer {
    /// Up to the value of `cacheMillis`.
    head: Vec<u8>,
    /// Behind `lastRefTime`, up to the content of `env`.
    middle: Vec<u8>,
    /// From behind the content of `env`.
    tail: Vec<u8>,
    /// Instances were there before disabled and unhealthy ones were left out.
    pub any_instance: bool,
}

impl Answer {
    /// The answer's JSON text.
    #[must_use]
    pub fn to_bytes(&self, echo: Echo<'_>) -> Bytes {
        let mut out = Vec::with_capacity(self.head.len() + self.rest_size(echo));
        out.extend_from_slice(&self.head);
        self.push_rest(&mut out, echo);
        out.into()
    }

    /// The answer's JSON text in two pieces: a long list is not copied, its bytes are shared by all answers of this
    /// revision; a short one is the first piece as a whole.
    #[must_use]
    pub fn to_pieces(self: &Arc<Self>, echo: Echo<'_>) -> (Bytes, Bytes) {
        if self.head.len() < SHARED_FROM_BYTES {
            return (self.to_bytes(echo), Bytes::new());
        }
        let mut rest = Vec::with_capacity(self.rest_size(echo));
        self.push_rest(&mut rest, echo);
        (Bytes::from_owner(Head(Arc::clone(self))), rest.into())
    }

    fn push_rest(&self, out: &mut Vec<u8>, echo: Echo<'_>) {
        let _ = write!(out, "{},\"lastRefTime\":{}", echo.cache_millis, echo.wall_ms);
        out.extend_from_slice(&self.middle);
        json::push_escaped(out, echo.env);
        out.extend_from_slice(&self.tail);
    }

    /// Exactly, but for an `env` with escapes: bytes with room to spare would cost another allocation.
    fn rest_size(&self, echo: Echo<'_>) -> usize {
        let numbers =
            json::digits(echo.cache_millis) + ",\"lastRefTime\":".len() + json::digits(echo.wall_ms);
        numbers + self.middle.len() + echo.env.len() + self.tail.len()
    }
}

/// The first piece of an answer.
struct Head(Arc<Answer>);

impl AsRef<[u8]> for Head {
    fn as_ref(&self) -> &[u8] {
        &self.0.head
    }
}

/// Answers that were made for one revision: a chain that only grows, read without a lock.
#[derive(Debug, Default)]
pub struct Answers(OnceLock<Box<Kept>>);

#[derive(Debug)]
struct Kept {
    clusters: Box<str>,
    healthy_only: bool,
    grouped: bool,
    answer: Arc<Answer>,
    next: Answers,
}

impl Kept {
    fn shape(&self) -> Shape<'_> {
        Shape { clusters: &self.clusters, healthy_only: self.healthy_only, grouped: self.grouped }
    }
}

impl Answers {
    fn get(&self, shape: Shape<'_>, kept: usize, make: impl FnOnce() -> Answer) -> Arc<Answer> {
        let mut make = Some(make);
        let mut slot = self;
        for _ in 0..kept {
            // Readers that come meanwhile wait: making the same long list many times over would take longer.
            let kept = slot.0.get_or_init(|| {
                let answer = make.take().map(|make| Arc::new(make())).expect("a slot is filled only once");
                Box::new(Kept {
                    clusters: shape.clusters.into(),
                    healthy_only: shape.healthy_only,
                    grouped: shape.grouped,
                    answer,
                    next: Self::default(),
                })
            });
            if kept.shape() == shape {
                return Arc::clone(&kept.answer);
            }
            slot = &kept.next;
        }
        let make = make.expect("what was made here has been returned");
        Arc::new(make())
    }
}

/// The answer of `state` of `service` to a question of this shape.
#[must_use]
pub fn answer(service: &Service, state: &State, shape: Shape<'_>) -> Arc<Answer> {
    let kept = if state.len() > LARGE { KEPT_SHAPES_OF_LARGE } else { KEPT_SHAPES };
    state.answers.get(shape, kept, || make_whole(service, state, shape, &chosen(state, shape.clusters)))
}

/// The same answer, made anew, not kept, and in pieces: for what may be too much to hold.
///
/// After each host `flush` sees what is ready; it may take that away, and end it all by giving false. What is given
/// back belongs behind what was taken away; it is nothing where `flush` ended it.
#[must_use]
pub fn answer_in_pieces(
    service: &Service,
    state: &State,
    shape: Shape<'_>,
    flush: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> Option<Answer> {
    let chosen = chosen(state, shape.clusters);
    let mut head = Vec::new();
    push_head(&mut head, service, state, shape, &chosen, flush)
        .then(|| finish(head, service, state, shape, &chosen))
}

/// The answer for a service that is gone: as [`answer`], without a single instance.
#[must_use]
pub fn emptiness(service: &Service, state: &State, shape: Shape<'_>) -> Answer {
    make_whole(service, state, shape, &[])
}

/// The answer for a service that isn't there.
#[must_use]
pub fn unknown(name: &str, clusters: &str, cache_millis: i64) -> Bytes {
    let mut out = Vec::with_capacity(96 + name.len());
    out.extend_from_slice(b"{\"name\":");
    json::push_string(&mut out, name);
    out.extend_from_slice(b",\"clusters\":");
    json::push_string(&mut out, clusters);
    let _ = write!(out, ",\"cacheMillis\":{cache_millis},\"hosts\":[]}}");
    out.into()
}

/// A question names a cluster more often than it may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Param 'clusters' is illegal, it names a cluster more than {MOST_REPEATS} times")]
pub struct TooOften;

/// Checks a list of clusters before a question is answered: each repetition lists the cluster's hosts once more, so a
/// text of some kilobytes could otherwise ask for gigabytes.
///
/// # Errors
/// [`TooOften`] where a name stands there more than twice. Twice is recorded (compat case `list/cluster-twice`).
pub fn check_clusters(clusters: &str) -> Result<(), TooOften> {
    if !clusters.contains(',') {
        return Ok(());
    }
    let mut names: Vec<&str> = clusters.split(',').filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    let repeated = names.windows(MOST_REPEATS + 1).any(|window| window[0] == window[MOST_REPEATS]);
    if repeated { Err(TooOften) } else { Ok(()) }
}

/// The instances of the named clusters; a cluster that is named twice comes twice.
fn chosen<'a>(state: &'a State, clusters: &str) -> Vec<&'a Instance> {
    let mut names = clusters.split(',').filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return state.instances().map(|instance| &**instance).collect();
    }
    let first = names.next().unwrap_or_default();
    if names.peek().is_none() {
        let of_cluster = state.instances().filter(|instance| instance.cluster() == first);
        return of_cluster.map(|instance| &**instance).collect();
    }
    let mut by_cluster: HashMap<&str, Vec<&Instance>> = HashMap::new();
    for instance in state.instances() {
        by_cluster.entry(instance.cluster()).or_default().push(instance);
    }
    let of_names = std::iter::once(first).chain(names).filter_map(|name| by_cluster.get(name));
    of_names.flatten().copied().collect()
}

fn make_whole(service: &Service, state: &State, shape: Shape<'_>, chosen: &[&Instance]) -> Answer {
    let mut head = Vec::with_capacity(128 + chosen.len() * 384);
    push_head(&mut head, service, state, shape, chosen, &mut |_| true);
    finish(head, service, state, shape, chosen)
}

/// Appends what comes before `dom`; false where `flush` ended it.
fn push_head(
    head: &mut Vec<u8>,
    service: &Service,
    state: &State,
    shape: Shape<'_>,
    chosen: &[&Instance],
    flush: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> bool {
    if chosen.is_empty() {
        head.push(b'{');
        return true;
    }
    head.extend_from_slice(b"{\"hosts\":[");
    let go_on = push_hosts(head, &service.key.name, state, shape, chosen, flush);
    head.extend_from_slice(b"],");
    go_on
}

/// The answer whose hosts stand in `head`.
fn finish(
    mut head: Vec<u8>,
    service: &Service,
    state: &State,
    shape: Shape<'_>,
    chosen: &[&Instance],
) -> Answer {
    let name = &*service.key.name;
    head.extend_from_slice(b"\"dom\":");
    json::push_string(&mut head, shape.shown(name));
    head.extend_from_slice(b",\"name\":");
    json::push_string(&mut head, name);
    head.extend_from_slice(b",\"cacheMillis\":");
    head.shrink_to_fit();
    let mut middle = Vec::with_capacity(128);
    let checksum = state.checksum(name);
    let _ = write!(middle, ",\"checksum\":\"{checksum}\",\"useSpecifiedURL\":false,\"clusters\":");
    json::push_string(&mut middle, shape.clusters);
    middle.extend_from_slice(b",\"env\":\"");
    let mut tail = Vec::with_capacity(64);
    tail.extend_from_slice(if chosen.is_empty() {
        b"\",\"hosts\":[],\"metadata\":"
    } else {
        b"\",\"metadata\":"
    });
    tail.extend_from_slice(state.definition.metadata.json().as_bytes());
    tail.push(b'}');
    Answer { head, middle, tail, any_instance: !chosen.is_empty() }
}

/// Whether so few are healthy that all must be shown as healthy.
///
/// # Source
/// Nacos 1.4.8 naming module: 32-bit arithmetic, at the threshold counts as below; compat cases `list/threshold-*`.
#[must_use]
pub fn is_protected(healthy: usize, all: usize, threshold: f32) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "the reference divides 32-bit floats as well")]
    let share = healthy as f32 / all as f32;
    share <= threshold
}

/// Appends the hosts with commas between; false where `flush` ended it.
fn push_hosts(
    out: &mut Vec<u8>,
    name: &str,
    state: &State,
    shape: Shape<'_>,
    chosen: &[&Instance],
    flush: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> bool {
    // Each health is read once: one that changes meanwhile would let its instance be missed, or come twice.
    let (healthy, unhealthy): (Vec<&Instance>, Vec<&Instance>) =
        chosen.iter().partition(|instance| instance.healthy());
    let protected = is_protected(healthy.len(), chosen.len(), state.definition.protect_threshold);
    let mut shown = Vec::with_capacity(name.len() + 2);
    json::push_string(&mut shown, shape.shown(name));
    let mut is_first = true;
    let mut push = |instance: &Instance, healthy: bool| {
        if !instance.enabled {
            return true;
        }
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        push_host(out, instance, healthy, name, &shown);
        flush(out)
    };
    if protected {
        return chosen.iter().all(|instance| push(instance, true));
    }
    if !shape.healthy_only && !unhealthy.iter().all(|instance| push(instance, false)) {
        return false;
    }
    healthy.iter().all(|instance| push(instance, true))
}

fn push_host(out: &mut Vec<u8>, instance: &Instance, healthy: bool, name: &str, shown: &[u8]) {
    out.extend_from_slice(b"{\"ip\":");
    json::push_string(out, instance.ip());
    out.extend_from_slice(b",\"port\":");
    json::push_number(out, instance.port);
    out.extend_from_slice(if healthy {
        b",\"valid\":true,\"healthy\":true,\"marked\":"
    } else {
        b",\"valid\":false,\"healthy\":false,\"marked\":"
    });
    json::push_truth(out, instance.marked);
    out.extend_from_slice(b",\"instanceId\":");
    push_id(out, instance, name);
    out.extend_from_slice(b",\"metadata\":");
    out.extend_from_slice(instance.metadata.json().as_bytes());
    out.extend_from_slice(b",\"enabled\":true,\"weight\":");
    push_weight(out, instance.weight);
    out.extend_from_slice(b",\"clusterName\":");
    json::push_string(out, instance.cluster());
    out.extend_from_slice(b",\"serviceName\":");
    out.extend_from_slice(shown);
    out.extend_from_slice(b",\"ephemeral\":");
    json::push_truth(out, instance.ephemeral);
    out.push(b'}');
}

/// The id as a JSON text, or null where a peer sent none.
pub fn push_id(out: &mut Vec<u8>, instance: &Instance, name: &str) {
    match &instance.id {
        super::instance::InstanceId::Simple => {
            out.push(b'"');
            json::push_escaped(out, instance.ip());
            out.push(b'#');
            json::push_number(out, instance.port);
            out.push(b'#');
            json::push_escaped(out, instance.cluster());
            out.push(b'#');
            json::push_escaped(out, name);
            out.push(b'"');
        }
        super::instance::InstanceId::Given(id) => json::push_string(out, id),
        super::instance::InstanceId::Missing => out.extend_from_slice(b"null"),
    }
}

/// A weight as a Java double.
pub fn push_weight(out: &mut Vec<u8>, weight: f64) {
    if weight.to_bits() == 1.0_f64.to_bits() {
        return out.extend_from_slice(b"1.0");
    }
    out.extend_from_slice(java::double_text(weight).as_bytes());
}
