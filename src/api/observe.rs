//! `/livez`, `/readyz`, `/metrics` and, where a setting asks for it, `/actuator/prometheus`: the server to whom runs it.
//!
//! All but the last lie outside the context path. Source: ours, but for the last: Nacos 1.4.8; compat files
//! `core-web`, `authwhite-metrics`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use futures_util::future::FutureExt as _;
use http::{HeaderValue, StatusCode};
use nacre_middleware::V1Body;
use prometheus_client::collector::Collector;
use tokio_util::sync::CancellationToken;

use super::{
    Api, V1Call,
    reply::{self, Refusal, Reply},
    routes::{Outcome, Pending},
};
use crate::{
    base::process::Usage,
    cluster::{Condition, MemberCounts, Standing},
    cp::{StoreHealth, WriterStats},
    distro::Distro,
    gateway::{self, ServerReadings},
    health::sweep::SweepStats,
    model::{Instance, Registry, status::NodeStatus},
    observe::{
        Meters,
        beats::Effect,
        logs::Logs,
        metrics,
        nacos_monitor::NacosMonitor,
        readings::{
            ClusterReadings, Kind, LegacyNamingReadings, LegacyReadings, PushEvents, PushReadings, Readings,
            Sizes, StoreReadings,
        },
        ready::{self, Line, Naming, Parts, State},
    },
    push::Push,
};

/// What is only there to be looked at.
pub struct Sight {
    /// Counters of the edges.
    pub meters: &'static Meters,
    /// Counts of expiry.
    pub sweeps: Arc<SweepStats>,
    /// Logging.
    pub logs: Arc<Logs>,
    /// Cancelled when the server begins to stop.
    pub stopped: CancellationToken,
    /// When the process started.
    pub started: SystemTime,
}

impl Sight {
    /// Sets the level of a logger; who asks isn't told whether there is such a logger, as in the reference.
    pub fn set_level(&self, name: &str, level: &str) {
        if let Err(error) = self.logs.set_level(name, level) {
            tracing::debug!(%error, "a level was not changed");
        }
    }
}

/// GET: the process answers.
pub fn livez(_: &Api, _: &V1Call) -> Outcome {
    Ok(plain(StatusCode::OK, "text/plain; charset=utf-8", "ok".into()))
}

/// GET: whether naming answers, and what else is out of order.
pub fn readyz(api: &Api, _: &V1Call) -> Outcome {
    let readiness = ready::judge(&parts(api));
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(plain(status, "text/plain; charset=utf-8", readiness.text))
}

/// GET: everything that is counted.
pub fn metrics(api: &Api, _: &V1Call) -> Result<Pending, Refusal> {
    let proxy = api.proxy.clone();
    Ok(page(api, metrics::CONTENT_TYPE, move |_| proxy.map(|proxy| proxy.collector())))
}

/// GET: the same with the gauges of 1.x beside it, under their media type.
pub fn prometheus(api: &Api, _: &V1Call) -> Result<Pending, Refusal> {
    Ok(page(api, "text/plain;version=0.0.4;charset=utf-8", |readings| {
        Some(Box::new(NacosMonitor { sizes: readings.sizes, push: readings.push }))
    }))
}

/// A page of metrics; whoever asks while another page is being made waits for it.
///
/// `more` gives what stands behind our own metrics. Counting what is registered looks at every instance, so it's done beside the threads that answer requests.
fn page<M>(api: &Api, media_type: &'static str, more: M) -> Pending
where
    M: FnOnce(&Readings) -> Option<Box<dyn Collector>> + Send + 'static,
{
    let (registry, readings, meters) = (Arc::clone(&api.registry), readings(api), api.sight.meters);
    let made = async move {
        let _alone = meters.reading.lock().await;
        let made = tokio::task::spawn_blocking(move || {
            let readings = Readings { sizes: sizes(&registry), usage: Usage::read(), ..readings };
            let more = more(&readings);
            metrics::text(readings, more)
        });
        let text = made.await.map_err(|_| Refusal::failed("the metrics can not be read"))?;
        Ok(plain(StatusCode::OK, media_type, text))
    };
    Pending::Later(made.boxed())
}

fn plain(status: StatusCode, media_type: &'static str, text: String) -> Reply {
    let media_type = HeaderValue::from_static(media_type);
    Reply::Whole(Box::new(reply::typed_response(status, media_type, V1Body::sized(text))))
}

fn parts(api: &Api) -> Parts {
    let naming = match (api.cluster.view_guard().standing, api.switches.load().status()) {
        _ if api.sight.stopped.is_cancelled() => Naming::Draining,
        (Standing::Leaving, _) => Naming::Draining,
        // Without warm-up clients are answered meanwhile.
        (Standing::Starting, _) if api.settings.naming.data_warmup => Naming::Loading,
        (Standing::Comparing, _) => Naming::Comparing,
        (Standing::Removed, _) if api.cluster.has_own_list() => Naming::Removed,
        (_, NodeStatus::Up) => Naming::Up,
        (_, status) => Naming::Status(status.word()),
    };
    let store = match api.cp.health() {
        StoreHealth::Ok => State::Up,
        StoreHealth::Failing { since, reason } => State::Failing { since, reason },
    };
    let conditions = api.cluster.conditions().into_iter();
    let mut others: Vec<Line> =
        conditions.map(|Condition { part, trouble }| Line { part, trouble }).collect();
    if let Some(gateway) = &api.gateway {
        others.push(Line { part: "legacy", trouble: gateway.trouble() });
    }
    if let Some(naming) = &api.legacy_naming {
        others.push(Line { part: "legacy-naming", trouble: naming.standing().trouble() });
    }
    Parts { naming, store, others }
}

/// All that is had without looking around: sizes and usage are still missing.
fn readings(api: &Api) -> Readings {
    let Sight { meters, sweeps, logs, started, .. } = &api.sight;
    let parts = parts(api);
    let WriterStats { jobs, commits, failures } = api.cp.stats();
    Readings {
        requests: meters.requests.read(),
        connections: meters.connections.open_now(),
        connections_accepted: meters.connections.accepted(),
        ready: ready::judge(&parts).ready,
        sizes: Sizes::default(),
        beats: Effect::ALL.map(|effect| (effect.label(), meters.beats.count(effect))),
        forwards: meters.forwards.read(),
        legacy: api.gateway.as_ref().map(|gateway| legacy_readings(&**gateway)).unwrap_or_default(),
        legacy_naming: api.legacy_naming.as_ref().map(legacy_naming_readings),
        limited: meters.limited.read(),
        cluster: api.distro.as_ref().map(|distro| cluster_readings(api, distro)),
        expired_unhealthy: sweeps.unhealthy.load(Relaxed),
        expired_removed: sweeps.removed.load(Relaxed),
        push: push_readings(&api.push),
        store: StoreReadings { up: parts.store == State::Up, writes: jobs, commits, failures },
        log_lines_dropped: logs.dropped(),
        started: *started,
        usage: Usage::default(),
    }
}

fn legacy_readings(gateway: &dyn gateway::Sight) -> Vec<LegacyReadings> {
    let shown = |server: ServerReadings| LegacyReadings {
        server: server.server,
        up: server.up,
        answers: server.answers,
        failures: server.failures,
        requests: [("in_flight", server.in_flight), ("waiting", server.waiting)],
        idle: server.idle,
        connected: server.connected,
    };
    gateway.read().into_iter().map(shown).collect()
}

fn legacy_naming_readings(naming: &gateway::Naming) -> LegacyNamingReadings {
    let (standing, counts) = (naming.standing(), naming.counts());
    let read = |count: &AtomicU64| count.load(Relaxed);
    LegacyNamingReadings {
        answers: counts.answers(),
        away: standing.away_for.is_some(),
        outages: read(&counts.outages),
        kept: standing.kept as u64,
        replayed: [("taken", read(&counts.replayed)), ("refused", read(&counts.rejected))],
        lists: standing.lists as u64,
        owners: standing.owners as u64,
    }
}

fn cluster_readings(api: &Api, distro: &Distro) -> ClusterReadings {
    let MemberCounts { up, suspicious, down, starting, leaving, nacre, ring, is_owner } =
        api.cluster.counts();
    let counts = distro.counts();
    let read = |count: &AtomicU64| count.load(Relaxed);
    let waiting = distro.waiting().into_iter();
    let waiting =
        waiting.map(|(member, count)| (member.to_string(), u64::try_from(count).unwrap_or(u64::MAX)));
    ClusterReadings {
        states: [("up", up), ("suspicious", suspicious), ("down", down)],
        marks: [("nacre", nacre), ("starting", starting), ("leaving", leaving)],
        ring,
        is_owner,
        waiting: waiting.collect(),
        comparisons: [
            ("same", read(&counts.same)),
            ("differing", read(&counts.differing)),
            ("unanswered", read(&counts.unanswered)),
        ],
        taken_over: read(&counts.taken_over),
        refuted: read(&counts.refuted),
        stamps_ahead_ms: api.registry.stamps_ahead_ms(api.clock.now()),
    }
}

fn push_readings(push: &Push) -> PushReadings {
    let stats = push.stats();
    PushReadings {
        subscribers: push.subscriber_count() as u64,
        waiting: push.waiting_count() as u64,
        events: PushEvents {
            sent: stats.sent.get(),
            resent: stats.resent.get(),
            acked: stats.acked.get(),
            failed: stats.failed.get(),
            unsendable: stats.unsendable.get(),
            sent_once: stats.sent_once.get(),
            too_large: stats.too_large.get(),
            strange_ack: stats.strange_acks.get(),
            refused: stats.refused.get(),
            unresolved: stats.unresolved.get(),
        },
        ack_time: Duration::from_millis(stats.acked_ms.get()),
        slowest_ack: Duration::from_millis(stats.slowest_ack_ms.get()),
    }
}

fn sizes(registry: &Registry) -> Sizes {
    let mut sizes = Sizes::default();
    let count = |kind: &mut Kind, instance: &Instance| {
        kind.instances += 1;
        kind.healthy += u64::from(instance.healthy());
    };
    registry.for_each(|service| {
        let state = service.state();
        sizes.services += 1;
        state.ephemeral.iter().for_each(|instance| count(&mut sizes.ephemeral, instance));
        state.persistent.iter().for_each(|instance| count(&mut sizes.persistent, instance));
    });
    sizes
}
