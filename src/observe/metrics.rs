//! The text of `GET /metrics`, in Prometheus' text format 0.0.4.
//!
//! Pure: what was read from the parts of the server goes in, a text comes out. Counters run from the start of the
//! process. `endpoint` is the path of a route without the context path, so there are as many as routes; those that
//! answered nothing yet are left out. What never becomes a request, a head that can't be read for one, isn't counted.
//!
//! | name | type | labels | what it says |
//! | --- | --- | --- | --- |
//! | `nacre_requests_total` | counter | `method`, `endpoint`, `status` | answers, by class of status (`2xx`) |
//! | `nacre_request_duration_seconds` | histogram | `method`, `endpoint` | from the read head to the answer |
//! | `nacre_connections` | gauge | | open connections |
//! | `nacre_connections_accepted_total` | counter | | connections so far |
//! | `nacre_ready` | gauge | | 1 while naming answers: what `/readyz` says |
//! | `nacre_services` | gauge | | services, empty ones too |
//! | `nacre_instances` | gauge | `kind` | registered instances: `ephemeral` or `persistent` |
//! | `nacre_healthy_instances` | gauge | `kind` | those that are healthy |
//! | `nacre_beats_total` | counter | `result` | beats: `renewed` an instance, `registered` one, met an `unknown` one |
//! | `nacre_forwards_total` | counter | `result` | writes of other members' services, by what became of them: `relayed` the owner's answer, done by this node as its `deputy` and others, see [`nacre_middleware::forwarder::Outcome`] |
//! | `nacre_forward_refusals_total` | counter | `reason` | requests that members passed on and this node refused: a `redirect` of 1.x, too many `hops`, too `late` |
//! | `nacre_forward_openings_total` | counter | | how often a member stopped answering |
//! | `nacre_members` | gauge | `state` | other members that are `up`, `suspicious`, `down`; this and the next seven are there on a node with members only |
//! | `nacre_members_marked` | gauge | `mark` | other members that have shown that they are `nacre` nodes, say that they are `starting`, are `leaving` |
//! | `nacre_ring_size` | gauge | | members that own services, this one among them while it does |
//! | `nacre_ring_owner` | gauge | | 1 while this node owns services |
//! | `nacre_distro_waiting` | gauge | `member` | services whose changes a listed member hasn't got yet |
//! | `nacre_distro_comparisons_total` | counter | `result` | comparisons of what this node owns with the copies of a Nacre member: `same`, `differing` (what differs is sent), `unanswered` |
//! | `nacre_distro_taken_over_total` | counter | | services that this node became the owner of |
//! | `nacre_distro_refuted_total` | counter | | news that instances are silent, of which this node knew a younger beat |
//! | `nacre_distro_stamps_ahead_milliseconds` | gauge | | by how much the stamps of writes run ahead of this node's clock, since a member's clock is ahead or very many writes came at once; at most an hour |
//! | `nacre_legacy_up` | gauge | `server` | 1 while a legacy server gets requests; this and the next five are there where legacy servers are set |
//! | `nacre_legacy_answers_total` | counter | `server`, `status` | answers of a legacy server, by class of status |
//! | `nacre_legacy_failures_total` | counter | `server`, `kind` | requests that a legacy server gave no answer to, and answers that broke off (`cut`, `stopped`); see [`nacre_middleware::pass::Fault::kind`] |
//! | `nacre_legacy_requests` | gauge | `server`, `state` | requests that are `in_flight` to a legacy server, or are `waiting` |
//! | `nacre_legacy_idle_connections` | gauge | `server` | unused connections that are kept |
//! | `nacre_legacy_connections_total` | counter | `server` | connections to a legacy server so far |
//! | `nacre_legacy_naming_answers_total` | counter | `by` | naming requests by who answered them: the `registry`, or this node by the last list (`stale`), as a beat of a `known` or an `unknown` instance, as a write that is `kept`, or not at all (`refused`); this and the next six are there where legacy servers answer naming |
//! | `nacre_legacy_naming_away` | gauge | | 1 while no legacy server answers |
//! | `nacre_legacy_naming_outages_total` | counter | | how often that began |
//! | `nacre_legacy_naming_kept` | gauge | | registrations and deregistrations that wait for a legacy server |
//! | `nacre_legacy_naming_replayed_total` | counter | `result` | kept writes that were sent: `taken`, `refused` |
//! | `nacre_legacy_naming_lists` | gauge | | lists that are remembered |
//! | `nacre_legacy_naming_owners` | gauge | | members of the legacy cluster that own services; 0 where they aren't known or not of 1.x |
//! | `nacre_limited_requests_total` | counter | `class` | requests that were refused since their address makes too many: `beat`, `read`, `write` |
//! | `nacre_expired_instances_total` | counter | `step` | for want of beats turned `unhealthy`, were `removed` |
//! | `nacre_push_subscribers` | gauge | | clients that get pushes |
//! | `nacre_push_waiting` | gauge | | packets that wait for their acknowledgement |
//! | `nacre_push_events_total` | counter | `event` | what happened to pushes: `sent`, `acked` and others, see [`super::readings::PushEvents`] |
//! | `nacre_push_ack_seconds_total` | counter | | from sending to acknowledgement, of all acknowledged packets together |
//! | `nacre_push_slowest_ack_seconds` | gauge | | the longest of these |
//! | `nacre_store_up` | gauge | | 1 while persistent data can be written, 0 while writes fail |
//! | `nacre_store_writes_total` | counter | | changes of persistent data that became durable |
//! | `nacre_store_commits_total` | counter | | transactions of the store, one or more changes each |
//! | `nacre_store_failures_total` | counter | | transactions that failed |
//! | `nacre_log_lines_dropped_total` | counter | | log lines that nobody read fast enough |
//! | `nacre_build_info` | gauge | `version` | always 1 |
//! | `process_start_time_seconds` | gauge | | when the process started, in seconds since 1970 |
//! | `process_cpu_seconds_total` | counter | | time on processors, of all threads |
//! | `process_resident_memory_bytes` | gauge | | memory in use that isn't swapped out |
//! | `process_open_fds` | gauge | | open files, connections included |

use std::{fmt, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, prometheus_text,
    },
    metrics::MetricType,
    registry::Registry,
};

use super::{
    forwards::ForwardReadings,
    readings::{
        ClusterReadings, LegacyNamingReadings, LegacyReadings, PushReadings, Readings, Sizes, StoreReadings,
    },
    requests::{Answered, BOUNDS, CLASSES},
};
use crate::base::process::Usage;

/// `Content-Type` of the text.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// The text for these readings, and for what else a collector has to say.
#[must_use]
pub fn text(readings: Readings, more: Option<Box<dyn Collector>>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(readings));
    if let Some(more) = more {
        registry.register_collector(more);
    }
    let mut text = String::with_capacity(16 << 10);
    prometheus_text::encode(&mut text, &registry).expect("writing into memory can't fail");
    text
}

/// Labels of one line.
type Labels<'a> = &'a [(&'a str, &'a str)];

impl Collector for Readings {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.encode_edges(&mut page)?;
        self.encode_naming(&mut page)?;
        self.encode_push(&mut page)?;
        self.encode_store(&mut page)?;
        page.counter("nacre_log_lines_dropped", "Log lines nobody read fast enough", self.log_lines_dropped)?;
        let version: Labels<'_> = &[("version", env!("CARGO_PKG_VERSION"))];
        page.gauges("nacre_build_info", "Always 1", &[(version, 1)])?;
        self.encode_process(&mut page)
    }
}

impl Readings {
    fn encode_edges(&self, page: &mut Page<'_>) -> fmt::Result {
        page.requests(&self.requests)?;
        page.durations(&self.requests)?;
        page.gauge("nacre_connections", "Open connections", self.connections)?;
        page.counter("nacre_connections_accepted", "Connections so far", self.connections_accepted)?;
        page.gauge("nacre_ready", "1 while naming answers", u64::from(self.ready))
    }

    fn encode_naming(&self, page: &mut Page<'_>) -> fmt::Result {
        let Sizes { services, ephemeral, persistent } = self.sizes;
        page.gauge("nacre_services", "Services, empty ones too", services)?;
        let kinds: [Labels<'_>; 2] = [&[("kind", "ephemeral")], &[("kind", "persistent")]];
        let both = |ephemeral: u64, persistent: u64| [(kinds[0], ephemeral), (kinds[1], persistent)];
        let instances = both(ephemeral.instances, persistent.instances);
        page.gauges("nacre_instances", "Registered instances", &instances)?;
        let healthy = both(ephemeral.healthy, persistent.healthy);
        page.gauges("nacre_healthy_instances", "Instances that are healthy", &healthy)?;
        page.counters_by("nacre_beats", "Beats by what they did", "result", &self.beats)?;
        self.encode_forwards(page)?;
        self.cluster.as_ref().map_or(Ok(()), |cluster| cluster.encode(page))?;
        encode_legacy(&self.legacy, page)?;
        self.legacy_naming.as_ref().map_or(Ok(()), |naming| naming.encode(page))?;
        let help = "Requests refused for their number";
        page.counters_by("nacre_limited_requests", help, "class", &self.limited)?;
        let expired = [("unhealthy", self.expired_unhealthy), ("removed", self.expired_removed)];
        page.counters_by("nacre_expired_instances", "Instances whose beats stayed out", "step", &expired)
    }

    fn encode_forwards(&self, page: &mut Page<'_>) -> fmt::Result {
        let ForwardReadings { outcomes, refused, opened } = &self.forwards;
        page.counters_by("nacre_forwards", "Writes of other members' services", "result", outcomes)?;
        let help = "Requests that members passed on in vain";
        page.counters_by("nacre_forward_refusals", help, "reason", refused)?;
        page.counter("nacre_forward_openings", "How often a member stopped answering", *opened)
    }

    fn encode_push(&self, page: &mut Page<'_>) -> fmt::Result {
        let PushReadings { subscribers, waiting, events, ack_time, slowest_ack } = self.push;
        page.gauge("nacre_push_subscribers", "Clients that get pushes", subscribers)?;
        page.gauge("nacre_push_waiting", "Packets that wait for their acknowledgement", waiting)?;
        page.counters_by("nacre_push_events", "What happened to pushes", "event", &events.by_label())?;
        let help = "From sending to acknowledgement, summed";
        page.counter("nacre_push_ack_seconds", help, ack_time.as_secs_f64())?;
        page.gauge("nacre_push_slowest_ack_seconds", "The longest of these", slowest_ack.as_secs_f64())
    }

    fn encode_process(&self, page: &mut Page<'_>) -> fmt::Result {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        page.gauge("process_start_time_seconds", "Seconds since 1970", since.as_secs())?;
        let Usage { resident_bytes, open_files, processor_time } = self.usage;
        if let Some(time) = processor_time {
            page.counter("process_cpu_seconds", "Time on processors", time.as_secs_f64())?;
        }
        if let Some(bytes) = resident_bytes {
            page.gauge("process_resident_memory_bytes", "Memory that isn't swapped out", bytes)?;
        }
        open_files.map_or(Ok(()), |files| page.gauge("process_open_fds", "Open files", files))
    }

    fn encode_store(&self, page: &mut Page<'_>) -> fmt::Result {
        let StoreReadings { up, writes, commits, failures } = self.store;
        page.gauge("nacre_store_up", "1 while persistent data can be written", u64::from(up))?;
        page.counter("nacre_store_writes", "Changes that became durable", writes)?;
        page.counter("nacre_store_commits", "Transactions of the store", commits)?;
        page.counter("nacre_store_failures", "Transactions that failed", failures)
    }
}

fn encode_legacy(servers: &[LegacyReadings], page: &mut Page<'_>) -> fmt::Result {
    if servers.is_empty() {
        return Ok(());
    }
    let each = |value: fn(&LegacyReadings) -> u64| -> Vec<(&str, u64)> {
        servers.iter().map(|server| (server.server.as_str(), value(server))).collect()
    };
    let help = "1 while a legacy server gets requests";
    page.gauges_by("nacre_legacy_up", help, "server", &each(|server| u64::from(server.up)))?;
    let help = "Answers of a legacy server by class of status";
    page.counters_of("nacre_legacy_answers", help, "status", servers, |server| &server.answers)?;
    let help = "Requests without a whole answer of a legacy server";
    page.counters_of("nacre_legacy_failures", help, "kind", servers, |server| &server.failures)?;
    let requests: Vec<_> = servers
        .iter()
        .flat_map(|server| {
            server
                .requests
                .map(|(state, count)| ([("server", server.server.as_str()), ("state", state)], count))
        })
        .collect();
    let requests: Vec<(Labels<'_>, u64)> =
        requests.iter().map(|(labels, count)| (&labels[..], *count)).collect();
    page.gauges("nacre_legacy_requests", "Requests under way to a legacy server, or waiting", &requests)?;
    let help = "Unused connections that are kept";
    page.gauges_by("nacre_legacy_idle_connections", help, "server", &each(|server| server.idle))?;
    let help = "Connections to a legacy server so far";
    page.counters_by("nacre_legacy_connections", help, "server", &each(|server| server.connected))
}

impl LegacyNamingReadings {
    fn encode(&self, page: &mut Page<'_>) -> fmt::Result {
        let Self { answers, away, outages, kept, replayed, lists, owners } = self;
        let help = "Naming requests by who answered them";
        page.counters_by("nacre_legacy_naming_answers", help, "by", answers)?;
        page.gauge("nacre_legacy_naming_away", "1 while no legacy server answers", u64::from(*away))?;
        page.counter("nacre_legacy_naming_outages", "How often that began", *outages)?;
        page.gauge("nacre_legacy_naming_kept", "Writes that wait for a legacy server", *kept)?;
        page.counters_by("nacre_legacy_naming_replayed", "Kept writes that were sent", "result", replayed)?;
        page.gauge("nacre_legacy_naming_lists", "Lists that are remembered", *lists)?;
        page.gauge("nacre_legacy_naming_owners", "Members that own services there", *owners)
    }
}

impl ClusterReadings {
    fn encode(&self, page: &mut Page<'_>) -> fmt::Result {
        let Self {
            states,
            marks,
            ring,
            is_owner,
            waiting,
            comparisons,
            taken_over,
            refuted,
            stamps_ahead_ms,
        } = self;
        page.gauges_by("nacre_members", "Other members by state", "state", states)?;
        page.gauges_by("nacre_members_marked", "Other members by what they say", "mark", marks)?;
        page.gauge("nacre_ring_size", "Members that own services", *ring)?;
        page.gauge("nacre_ring_owner", "1 while this node owns services", u64::from(*is_owner))?;
        let waiting: Vec<(&str, u64)> =
            waiting.iter().map(|(member, count)| (member.as_str(), *count)).collect();
        page.gauges_by("nacre_distro_waiting", "Services that wait for a member", "member", &waiting)?;
        let help = "Comparisons with members by how they ended";
        page.counters_by("nacre_distro_comparisons", help, "result", comparisons)?;
        page.counter("nacre_distro_taken_over", "Services this node became the owner of", *taken_over)?;
        page.counter("nacre_distro_refuted", "News of silence that were known better", *refuted)?;
        let help = "By how much stamps run ahead of the clock";
        page.gauge("nacre_distro_stamps_ahead_milliseconds", help, *stamps_ahead_ms)
    }
}

/// A text that is being written. Names of counters are given without their ending `_total`.
struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn family(&mut self, name: &str, help: &str, kind: MetricType, write: Write<'_>) -> fmt::Result {
        write(&mut self.0.encode_descriptor(name, help, None, kind)?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, &mut |metric| metric.encode_gauge(&value))
    }

    fn gauges(&mut self, name: &str, help: &str, values: &[(Labels<'_>, u64)]) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, &mut |metric| {
            values.iter().try_for_each(|(labels, value)| metric.encode_family(labels)?.encode_gauge(value))
        })
    }

    /// A gauge for each value of one label.
    fn gauges_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, &mut |metric| {
            values
                .iter()
                .try_for_each(|(word, value)| metric.encode_family(&[(label, *word)])?.encode_gauge(value))
        })
    }

    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue + Copy) -> fmt::Result {
        self.family(name, help, MetricType::Counter, &mut |metric| count(metric, &value))
    }

    /// A counter for each value of one label.
    fn counters_by(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        self.family(name, help, MetricType::Counter, &mut |metric| {
            values
                .iter()
                .try_for_each(|(word, value)| count(&mut metric.encode_family(&[(label, *word)])?, value))
        })
    }

    /// A counter for each value of one label that is above nothing, of each legacy server.
    fn counters_of(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        servers: &[LegacyReadings],
        values: fn(&LegacyReadings) -> &[(&'static str, u64)],
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, &mut |metric| {
            for server in servers {
                for (word, value) in values(server).iter().filter(|(_, value)| *value > 0) {
                    let labels: Labels<'_> = &[("server", &server.server), (label, word)];
                    count(&mut metric.encode_family(&labels)?, value)?;
                }
            }
            Ok(())
        })
    }

    fn requests(&mut self, requests: &[Answered]) -> fmt::Result {
        self.family("nacre_requests", "Answers by class of status", MetricType::Counter, &mut |metric| {
            for Answered { label, by_class, .. } in requests {
                for (class, answers) in CLASSES.iter().zip(by_class).filter(|(_, answers)| **answers > 0) {
                    let labels: Labels<'_> =
                        &[("method", label.method), ("endpoint", label.endpoint), ("status", class)];
                    count(&mut metric.encode_family(&labels)?, answers)?;
                }
            }
            Ok(())
        })
    }

    fn durations(&mut self, requests: &[Answered]) -> fmt::Result {
        // The encoder would add the last one, as another, behind any number.
        let bounds: Vec<f64> = BOUNDS.iter().copied().chain([f64::INFINITY]).collect();
        let name = "nacre_request_duration_seconds";
        self.family(name, "From the read head to the answer", MetricType::Histogram, &mut |metric| {
            for Answered { label, by_bucket, took, .. } in requests {
                let labels: Labels<'_> = &[("method", label.method), ("endpoint", label.endpoint)];
                let buckets: Vec<_> = bounds.iter().copied().zip(by_bucket.iter().copied()).collect();
                let answers = by_bucket.iter().sum();
                let mut line = metric.encode_family(&labels)?;
                line.encode_histogram::<NoLabelSet>(took.as_secs_f64(), answers, &buckets, None)?;
            }
            Ok(())
        })
    }
}

type Write<'a> = &'a mut dyn FnMut(&mut MetricEncoder<'_>) -> fmt::Result;

fn count(metric: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, _, u64>(value, None)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use nacre_middleware::{
        forwarder::{Note, Outcome},
        loop_guard::Refused,
    };

    use super::*;
    use crate::observe::forwards::Forwards;
    use crate::observe::{
        readings::{Kind, PushEvents},
        requests::Label,
    };

    fn readings() -> Readings {
        let list = Answered {
            label: Label { method: "GET", endpoint: "/list" },
            by_class: [0, 5, 0, 1, 0],
            by_bucket: [3, 2, 0, 0, 0, 0, 0, 0, 1],
            took: Duration::from_millis(4_500),
        };
        let forwards = Forwards::default();
        forwards.note(Note::Outcome(Outcome::Relayed));
        forwards.note(Note::Opened("a"));
        forwards.note_refusal(Refused::Late, [127, 0, 0, 1].into(), "/");
        Readings {
            requests: vec![list],
            connections: 1,
            connections_accepted: 2,
            ready: true,
            sizes: Sizes { services: 3, ephemeral: Kind { instances: 4, healthy: 2 }, ..Sizes::default() },
            beats: [("renewed", 7), ("registered", 8), ("unknown", 9)],
            forwards: forwards.read(),
            legacy: vec![LegacyReadings {
                server: "10.0.0.9:8848".into(),
                up: true,
                answers: vec![("2xx", 41), ("5xx", 0)],
                failures: vec![("timeout", 42)],
                requests: [("in_flight", 43), ("waiting", 44)],
                idle: 45,
                connected: 46,
            }],
            legacy_naming: Some(LegacyNamingReadings {
                answers: [
                    ("registry", 51),
                    ("stale", 52),
                    ("known", 53),
                    ("unknown", 54),
                    ("kept", 55),
                    ("refused", 56),
                ],
                away: true,
                outages: 57,
                kept: 58,
                replayed: [("taken", 59), ("refused", 60)],
                lists: 61,
                owners: 62,
            }),
            limited: [("beat", 63), ("read", 64), ("write", 65)],
            cluster: Some(ClusterReadings {
                states: [("up", 21), ("suspicious", 22), ("down", 23)],
                marks: [("nacre", 24), ("starting", 25), ("leaving", 26)],
                ring: 27,
                is_owner: true,
                waiting: vec![("10.0.0.2:8848".into(), 28)],
                comparisons: [("same", 29), ("differing", 30), ("unanswered", 31)],
                taken_over: 32,
                refuted: 33,
                stamps_ahead_ms: 34,
            }),
            expired_unhealthy: 10,
            expired_removed: 11,
            push: PushReadings {
                subscribers: 17,
                waiting: 18,
                events: PushEvents { sent: 100, resent: 101, ..PushEvents::default() },
                ack_time: Duration::from_millis(1_500),
                slowest_ack: Duration::from_millis(250),
            },
            store: StoreReadings { up: false, writes: 12, commits: 13, failures: 14 },
            log_lines_dropped: 15,
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(16),
            usage: Usage {
                resident_bytes: Some(19),
                open_files: Some(20),
                processor_time: Some(Duration::from_millis(2_100)),
            },
        }
    }

    #[test]
    fn the_table_above_names_what_is_served() {
        let source = include_str!("metrics.rs");
        let documented: BTreeSet<(&str, &str)> = source
            .lines()
            .filter_map(|line| line.strip_prefix("//! | `"))
            .filter_map(|row| {
                let (name, rest) = row.split_once("` | ")?;
                Some((name, rest.split_once(" |")?.0))
            })
            .collect();
        let text = text(readings(), None);
        let served: BTreeSet<(&str, &str)> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        assert!(served.len() > 10);
        assert_eq!(documented, served);
    }

    #[test]
    fn values_stand_behind_their_labels() {
        let text = text(readings(), None);
        for line in [
            r#"nacre_requests_total{method="GET",endpoint="/list",status="2xx"} 5"#,
            r#"nacre_requests_total{method="GET",endpoint="/list",status="4xx"} 1"#,
            r#"nacre_request_duration_seconds_sum{method="GET",endpoint="/list"} 4.5"#,
            r#"nacre_request_duration_seconds_count{method="GET",endpoint="/list"} 6"#,
            r#"nacre_request_duration_seconds_bucket{method="GET",endpoint="/list",le="0.0005"} 5"#,
            r#"nacre_request_duration_seconds_bucket{method="GET",endpoint="/list",le="+Inf"} 6"#,
            "nacre_connections 1",
            "nacre_connections_accepted_total 2",
            "nacre_ready 1",
            "nacre_services 3",
            r#"nacre_instances{kind="ephemeral"} 4"#,
            r#"nacre_instances{kind="persistent"} 0"#,
            r#"nacre_healthy_instances{kind="ephemeral"} 2"#,
            r#"nacre_beats_total{result="registered"} 8"#,
            r#"nacre_forwards_total{result="relayed"} 1"#,
            r#"nacre_forwards_total{result="deputy"} 0"#,
            r#"nacre_forward_refusals_total{reason="late"} 1"#,
            "nacre_forward_openings_total 1",
            r#"nacre_members{state="suspicious"} 22"#,
            r#"nacre_members_marked{mark="leaving"} 26"#,
            "nacre_ring_size 27",
            "nacre_ring_owner 1",
            r#"nacre_distro_waiting{member="10.0.0.2:8848"} 28"#,
            r#"nacre_distro_comparisons_total{result="differing"} 30"#,
            "nacre_distro_taken_over_total 32",
            "nacre_distro_refuted_total 33",
            "nacre_distro_stamps_ahead_milliseconds 34",
            r#"nacre_legacy_up{server="10.0.0.9:8848"} 1"#,
            r#"nacre_legacy_answers_total{server="10.0.0.9:8848",status="2xx"} 41"#,
            r#"nacre_legacy_failures_total{server="10.0.0.9:8848",kind="timeout"} 42"#,
            r#"nacre_legacy_requests{server="10.0.0.9:8848",state="waiting"} 44"#,
            r#"nacre_legacy_idle_connections{server="10.0.0.9:8848"} 45"#,
            r#"nacre_legacy_connections_total{server="10.0.0.9:8848"} 46"#,
            r#"nacre_legacy_naming_answers_total{by="stale"} 52"#,
            "nacre_legacy_naming_away 1",
            "nacre_legacy_naming_outages_total 57",
            "nacre_legacy_naming_kept 58",
            r#"nacre_legacy_naming_replayed_total{result="refused"} 60"#,
            "nacre_legacy_naming_lists 61",
            "nacre_legacy_naming_owners 62",
            r#"nacre_limited_requests_total{class="write"} 65"#,
            r#"nacre_expired_instances_total{step="unhealthy"} 10"#,
            r#"nacre_expired_instances_total{step="removed"} 11"#,
            "nacre_push_subscribers 17",
            "nacre_push_waiting 18",
            r#"nacre_push_events_total{event="resent"} 101"#,
            "nacre_push_ack_seconds_total 1.5",
            "nacre_push_slowest_ack_seconds 0.25",
            "nacre_store_up 0",
            "nacre_store_writes_total 12",
            "nacre_store_commits_total 13",
            "nacre_store_failures_total 14",
            "nacre_log_lines_dropped_total 15",
            concat!("nacre_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "process_start_time_seconds 16",
            "process_resident_memory_bytes 19",
            "process_open_fds 20",
            "process_cpu_seconds_total 2.1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_node_that_serves_alone_shows_no_members() {
        let text = text(Readings { cluster: None, ..readings() }, None);
        assert!(!text.contains("nacre_members") && !text.contains("nacre_ring"), "{text}");
    }

    #[test]
    fn a_histogram_ends_with_the_bucket_of_all() {
        let text = text(readings(), None);
        let bounds = text.lines().filter_map(|line| line.split_once("le=\"")?.1.split_once('"'));
        let bounds: Vec<&str> = bounds.map(|(bound, _)| bound).collect();
        assert_eq!(bounds, ["0.0001", "0.0005", "0.001", "0.005", "0.025", "0.1", "0.5", "2.5", "+Inf"]);
    }

    #[test]
    fn no_series_stands_twice() {
        let text = text(readings(), None);
        let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' '));
        let mut seen = BTreeSet::new();
        for name in series.map(|series| series.unwrap().0) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
