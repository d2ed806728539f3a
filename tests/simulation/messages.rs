//! What Nacre nodes say to each other in the simulation: the contents of their documents, typed.
//!
//! As on the wire, no clock of another machine is believed: times go as ages.

use std::sync::{Arc, OnceLock};

use nacre::{
    base::clock::Millis,
    cluster::{Address, MemberReport},
    distro::{
        documents::{Beats, Silences},
        load::Loaded,
        verify::{Buckets, Page},
    },
    model::{
        Entry, Extent, Instance, ServiceKey, State,
        extent::{Range, Slice},
        gone::{Cause, Gone},
    },
};
use nacre_middleware::{lateness::Sent, refusal};

use super::{
    runs::number,
    seam::{ClientAnswer, ClientRequest},
};

/// What is told of one instance.
#[derive(Debug)]
enum Told {
    Alive { instance: Instance, age_ms: u64 },
    Gone { gone: Gone, age_ms: u64, silent_ms: u64 },
}

/// A datum, whole or in part.
#[derive(Clone, Debug)]
pub struct Datum {
    /// Of which service.
    pub key: ServiceKey,
    told: Arc<Vec<Told>>,
    /// Of which instances it is all that the sender knows.
    pub extent: Extent,
}

impl Datum {
    /// What is newer than `newer_than` in `state`, or all of it.
    pub fn of(key: &ServiceKey, state: &State, newer_than: Option<u64>, now: Millis) -> Self {
        Self::cut(key, state, newer_than, usize::MAX, now).remove(0)
    }

    /// The same in parts, where the environment says how many entries one may have (`PART`).
    pub fn parts(key: &ServiceKey, state: &State, newer_than: Option<u64>, now: Millis) -> Vec<Self> {
        static PART: OnceLock<usize> = OnceLock::new();
        let most = *PART
            .get_or_init(|| number("PART").and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX));
        Self::cut(key, state, newer_than, most, now)
    }

    fn cut(key: &ServiceKey, state: &State, newer_than: Option<u64>, most: usize, now: Millis) -> Vec<Self> {
        let slices = state.cut(newer_than, most, |_| 1).into_iter();
        slices.map(|slice| Self::part(key, slice, newer_than.is_none(), now)).collect()
    }

    fn part(key: &ServiceKey, slice: Slice, is_all: bool, now: Millis) -> Self {
        let alive = slice.alive().map(|(instance, mark)| {
            let mut copy = instance.copy();
            copy.set_stamp(mark.stamp);
            copy.set_written(instance.written_under(mark));
            copy.set_healthy(mark.healthy);
            Told::Alive { instance: copy, age_ms: now.since(instance.last_beat()) }
        });
        let gone = slice.gone().map(|gone| {
            let silent_ms = match gone.cause {
                Cause::Left | Cause::Missing => 0,
                Cause::Silent { last_beat } => gone.at.since(last_beat),
            };
            Told::Gone { gone: gone.clone(), age_ms: now.since(gone.at), silent_ms }
        });
        let told = Arc::new(alive.chain(gone).collect());
        let extent = match slice.range {
            _ if !is_all => Extent::News,
            range if range == Range::default() => Extent::Whole,
            range => Extent::Within(range),
        };
        Self { key: key.clone(), told, extent }
    }

    /// The same on the receiver's clock; ages of beats, and of what is gone, count from these moments.
    pub fn entries(&self, (beat_from, gone_from): (Millis, Millis)) -> Vec<Entry> {
        let entry = |told: &Told| match told {
            Told::Alive { instance, age_ms } => {
                let copy = instance.copy();
                copy.beat(beat_from.minus(*age_ms));
                Entry::Alive(copy)
            }
            Told::Gone { gone, age_ms, silent_ms } => {
                let at = gone_from.minus(*age_ms);
                let cause = match gone.cause {
                    Cause::Left | Cause::Missing => Cause::Left,
                    Cause::Silent { .. } => Cause::Silent { last_beat: at.minus(*silent_ms) },
                };
                Entry::Gone(Gone { at, cause, ..gone.clone() })
            }
        };
        self.told.iter().map(entry).collect()
    }

    /// Its contents in a few words.
    pub fn describe(&self) -> String {
        let word = |told: &Told| match told {
            Told::Alive { instance, age_ms } => {
                format!(" {}@{}+{age_ms}", instance.port - 1_000, instance.stamp() % 10_000_000)
            }
            Told::Gone { gone, .. } => {
                let cause = if gone.has_left() { "left" } else { "silent" };
                format!(" -{}@{}{cause}", gone.port - 1_000, gone.stamp % 10_000_000)
            }
        };
        let told: String = self.told.iter().map(word).collect();
        format!("{}{told}", if self.extent == Extent::Whole { "whole" } else { "part" })
    }
}

/// A call to another node.
#[derive(Clone, Debug)]
pub enum Call {
    /// POST report.
    Report(Box<MemberReport>),
    /// GET livez, with which an open breaker is probed.
    Probe,
    /// A client's request, passed on.
    Forward { request: ClientRequest, hops: u8, sent: Sent },
    /// GET datums.
    Load,
    /// GET datum, of a beat that was passed on for what isn't known.
    Fetch(ServiceKey),
    /// PUT datum; and the members that the sender can't reach.
    Push { data: Vec<Datum>, unreached: Vec<Address>, sent: Sent },
    /// PUT verify.
    Verify { ring: Vec<String>, root: u64, beats: Arc<Beats>, sent: Sent },
    /// PUT keys.
    Keys { ring: Vec<String>, page: Page<ServiceKey> },
    /// PUT ask; and the members that the sender can't reach.
    Ask { silent: Silences, unreached: Vec<Address> },
}

/// What a call is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a report: whether its sender is listed.
    Reported { known: bool },
    /// To any: 404 or 503 with `X-Nacre-State`.
    NotNow(refusal::State),
    /// To any: the caller is no member.
    Forbidden,
    /// To a probe.
    Alive,
    /// To a request that was passed on.
    Told(ClientAnswer),
    /// To a load.
    All(Vec<Datum>),
    /// To a fetch.
    Fetched(Option<Datum>),
    /// To a push.
    Taken,
    /// To a verify.
    Verified { boot: u64, missed: Option<Vec<u8>>, buckets: Option<Buckets> },
    /// To keys.
    Wanted(Vec<ServiceKey>),
    /// To a question about silence.
    Heard(Silences, bool),
}

/// What an answer to a load means.
pub fn loaded(answer: &Answer) -> Loaded {
    match answer {
        Answer::All(_) => Loaded::Merged,
        Answer::NotNow(refusal::State::Starting) => Loaded::Starting,
        Answer::Forbidden => Loaded::Unknown,
        _ => Loaded::Failed,
    }
}
