//! Makes the calls that the protocol asks for.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;

use super::{
    accept::{self, AcceptError, Part},
    batch,
    bodies::{BODY_BYTES, DatumToSend, Dialect, bodies},
    checksum,
    core::{Answer, Call},
    documents::{Ask, Heard, Hex, Keys, Named, Verified, Verify, Wanted, parted},
    handle::{Distro, REFUSED_DATA},
    key,
    lists::Lists,
    load::Loaded,
    outbox::{Item, Sent},
    pieces::{PieceError, Pieces},
    silence,
};
use crate::{
    base::{
        clock::{Millis, Reading},
        json,
    },
    cluster::{Address, Evidence, Peer, PeerError, Peers, View, peer::MOST_UNREACHED},
    model::{Registry, ServiceKey},
};

/// How long the question of a member waits for those that it can't ask itself. It waits for 3 s in all.
const HAND_ON: Duration = Duration::from_millis(1_500);

/// A call that came to nothing.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("the answer can't be read: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("the answer with all data can't be read: {0}")]
    Pieces(#[from] PieceError),
    #[error("its data are of more than a day ahead of this node's clock: set one of the two clocks right")]
    Clock,
}

/// Calls peers on behalf of the protocol; cheap to clone.
#[derive(Clone)]
pub struct Exchange {
    /// The protocol, which is told what data of peers did.
    pub distro: Distro,
    /// The calls.
    pub peers: Peers,
}

impl Exchange {
    /// Makes one call and tells how it ended.
    pub async fn make(&self, to: &Address, call: Call<Lists>) -> Answer<ServiceKey> {
        let answer = match call {
            Call::Load => return Answer::Load(self.load(to).await),
            Call::Push(items) => return Answer::Push(self.push(to, items).await),
            Call::Verify { view, root, beats } => {
                let asked =
                    Verify { source: self.own().to_owned(), ring: ring(&view), root: Hex(root), beats };
                let answer = self.verify(to, asked).await;
                self.distro.0.counts.note_comparison(answer.as_ref().unwrap_or(&Answer::Failed));
                answer
            }
            Call::Keys { view, page } => self.keys(to, Keys::new(self.own(), ring(&view), &page)).await,
            Call::Ask(keys) => self.ask(to, &keys).await,
            Call::Checksums(keys) => self.checksums(to, &keys).await,
            Call::Pull(keys) => self.pull(to, keys).await,
        };
        answer.unwrap_or_else(|error| {
            self.note(to, &error);
            Answer::Failed
        })
    }

    fn own(&self) -> &str {
        self.distro.0.own.as_str()
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.distro.0.lists.0
    }

    fn at(&self) -> Reading {
        self.distro.0.clock.reading()
    }

    /// Whether `to` has shown that it is Nacre.
    fn dialect(&self, to: &Address) -> Dialect {
        let view = self.distro.0.cluster.view();
        let nacre = view.peer(to).is_some_and(|peer| peer.nacre.is_some());
        if nacre { Dialect::Nacre } else { Dialect::Legacy }
    }

    fn note(&self, to: &Address, error: &ExchangeError) {
        if let ExchangeError::Peer(error) = error
            && error.evidence() == Evidence::Gone
        {
            self.distro.0.cluster.refused(to, self.distro.0.clock.now());
        }
        let kind = match error {
            ExchangeError::Peer(error) => error.kind(),
            ExchangeError::Answer(_) | ExchangeError::Pieces(_) => "unreadable answer",
            ExchangeError::Clock => "another time",
        };
        self.distro.note_failure(to, kind, &error.to_string());
    }

    async fn load(&self, to: &Address) -> Loaded {
        match self.load_all(to).await {
            Ok(()) => Loaded::Merged,
            Err(ExchangeError::Peer(PeerError::Starting)) => Loaded::Starting,
            Err(ExchangeError::Peer(PeerError::Forbidden(text))) => {
                self.distro.note_failure(to, "forbidden", &text);
                Loaded::Unknown
            }
            Err(ExchangeError::Peer(error)) if error.evidence() == Evidence::Gone => Loaded::Refused,
            Err(error) => {
                self.note(to, &error);
                Loaded::Failed
            }
        }
    }

    /// Loads all data of a peer, and takes them piece by piece as they come. What was taken of an answer that then breaks off
    /// is true all the same, and it is asked for again.
    async fn load_all(&self, to: &Address) -> Result<(), ExchangeError> {
        let asked = self.at();
        let mut all = self.peers.all_data(to).await?;
        if let Some(protocol) = all.nacre {
            self.distro.0.cluster.shown_nacre(to, protocol);
        }
        if let Some(called) = all.called.take().filter(|called| !called.is_spelling_of(to)) {
            self.distro.0.cluster.is_another(to, called);
        }
        let mut pieces = Pieces::new(self.peers.max_datum());
        let mut is_of_another_time = false;
        while let Some(part) = all.next().await? {
            for piece in pieces.push(&part)? {
                is_of_another_time |= self.take_some(to, &piece, asked)?;
            }
        }
        is_of_another_time |= self.take_some(to, &pieces.end()?, asked)?;
        if is_of_another_time { Err(ExchangeError::Clock) } else { Ok(()) }
    }

    /// Takes some of all data of a peer; tells whether some are of another time. Of a member of 1.x only what is new: another one
    /// may have told more of a list before.
    ///
    /// `asked`: when it was asked for, here and below.
    fn take_some(&self, from: &Address, body: &[u8], asked: Reading) -> Result<bool, ExchangeError> {
        let at = self.at();
        let batch = batch::read_answer(body, asked, at)?;
        let outcome = accept::take(self.registry(), batch, |_| Part::Follows, at.now);
        self.distro.taken(&outcome);
        self.distro.note_outcome(from, &outcome);
        Ok(outcome.faults().any(AcceptError::is_of_another_time))
    }

    async fn push(&self, to: &Address, items: Vec<Item<ServiceKey>>) -> Sent {
        let dialect = self.dialect(to);
        match self.send(to, &items, dialect).await {
            Ok(stamps) => Sent::Taken(stamps.into_iter().map(Some).collect()),
            Err(PeerError::Refused(StatusCode::BAD_REQUEST | StatusCode::INTERNAL_SERVER_ERROR, _)) => {
                self.push_each(to, items, dialect).await
            }
            Err(error) => {
                self.note(to, &error.into());
                Sent::Failed
            }
        }
    }

    /// Sends one by one what was refused together: what is refused alone is refused for good.
    async fn push_each(&self, to: &Address, items: Vec<Item<ServiceKey>>, dialect: Dialect) -> Sent {
        let mut stamps = Vec::with_capacity(items.len());
        for item in items {
            match self.send(to, std::slice::from_ref(&item), dialect).await {
                Ok(sent) => stamps.push(sent.first().copied()),
                Err(PeerError::Refused(
                    StatusCode::BAD_REQUEST | StatusCode::INTERNAL_SERVER_ERROR,
                    text,
                )) => {
                    let reason = format!("{}: {text}", item.key);
                    self.distro.note_failure(to, REFUSED_DATA, &reason);
                    stamps.push(None);
                }
                Err(error) => {
                    self.note(to, &error.into());
                    return Sent::Failed;
                }
            }
        }
        Sent::Taken(stamps)
    }

    /// Sends the newest of these; gives the highest stamp of each.
    async fn send(
        &self,
        to: &Address,
        items: &[Item<ServiceKey>],
        dialect: Dialect,
    ) -> Result<Vec<u64>, PeerError> {
        let (registry, view) = (self.registry(), self.distro.0.cluster.view());
        let unreached: Vec<Address> = match dialect {
            Dialect::Nacre => view.unreached().cloned().collect(),
            Dialect::Legacy => Vec::new(),
        };
        let outgoing = items.iter().map(|item| DatumToSend {
            service: item.key.clone(),
            state: registry.get(item.key.place()).map(|service| service.state()),
            newer_than: item.newer_than,
        });
        let mut stamps = Vec::with_capacity(items.len());
        let at = self.at();
        for body in bodies(outgoing, dialect, at, BODY_BYTES) {
            self.peers.put_data(to, body.bytes, &unreached, at.now.0).await?;
            stamps.extend(body.stamps);
        }
        Ok(stamps)
    }

    /// Brings what a member knows of one service; a failure is told, and nothing else follows from it.
    ///
    /// Whoever asks while it is being brought waits for the same answer, and for a second after it nobody asks again.
    pub async fn fetch(&self, from: &Address, service: ServiceKey) {
        let brought = self.distro.0.fetches.of(&service, self.at().now);
        let mut brought = brought.lock().await;
        if brought.is_some_and(|at| self.at().now.since(at) < Fetches::GOOD_MS) {
            return;
        }
        let asked = self.at();
        let outcome = match self.peers.data(from, &[key::of(service.place())]).await {
            Ok(body) => {
                let at = self.at();
                let batch = batch::read_answer(&body, asked, at);
                batch.map(|batch| self.distro.take(Some(from), batch, at.now)).map_err(Into::into)
            }
            Err(error) => Err(ExchangeError::from(error)),
        };
        *brought = Some(self.at().now);
        match outcome {
            Ok(outcome) => self.distro.note_outcome(from, &outcome),
            Err(error) => self.note(from, &error),
        }
    }

    async fn verify(&self, to: &Address, asked: Verify) -> Result<Answer<ServiceKey>, ExchangeError> {
        let verified: Verified = read(&self.peers.verify(to, body(&asked), self.at().now.0).await?)?;
        let (boot, buckets) = (verified.boot.0, verified.buckets());
        Ok(Answer::Verified { boot, missed: verified.missed, buckets })
    }

    async fn keys(&self, to: &Address, asked: Keys) -> Result<Answer<ServiceKey>, ExchangeError> {
        let wanted: Wanted = read(&self.peers.keys(to, body(&asked)).await?)?;
        Ok(Answer::Wanted(wanted.want.into_iter().map(|Named(key)| key).collect()))
    }

    async fn ask(&self, to: &Address, keys: &[ServiceKey]) -> Result<Answer<ServiceKey>, ExchangeError> {
        let services: Vec<_> = keys.iter().filter_map(|key| self.registry().get(key.place())).collect();
        let view = self.distro.0.cluster.view();
        let unreached: Vec<String> = view.unreached().take(MOST_UNREACHED).map(ToString::to_string).collect();
        let mut is_new = false;
        // Only the answers to all parts are one.
        for silent in parted(silence::silent_of(&services, self.at().now), BODY_BYTES) {
            let asked = Ask { source: self.own().to_owned(), silent, unreached: unreached.clone() };
            is_new |= self.ask_of(to, &asked).await?;
        }
        Ok(Answer::Heard { is_new })
    }

    /// Takes younger beats; tells whether the member has its data since a moment ago.
    async fn ask_of(&self, to: &Address, asked: &Ask) -> Result<bool, ExchangeError> {
        let now = self.at().now;
        let heard: Heard = read(&self.peers.ask(to, body(asked)).await?)?;
        silence::take(self.registry(), &heard.beats, now);
        Ok(heard.new)
    }

    /// An owner asks whether younger beats are known here, or to those that it can't reach and this node can: while one
    /// reaches another by one way only, both take themselves for the owner, and the beats come to either.
    pub async fn heard(&self, asked: &Ask) -> Heard {
        let view = self.distro.0.cluster.view();
        let unreached = asked.unreached.iter().take(MOST_UNREACHED).map(|address| Address::new(address));
        let reached = unreached.filter(|address| view.peer(address).is_some_and(Peer::is_nacre_at_work));
        let handed_on =
            Ask { source: self.own().to_owned(), silent: asked.silent.clone(), unreached: Vec::new() };
        let asking = reached.map(|to| {
            let handed_on = &handed_on;
            async move { tokio::time::timeout(HAND_ON, self.ask_of(&to, handed_on)).await }
        });
        // Who doesn't answer knows nothing.
        join_all(asking).await;
        self.distro.heard(asked)
    }

    async fn checksums(
        &self,
        to: &Address,
        keys: &[ServiceKey],
    ) -> Result<Answer<ServiceKey>, ExchangeError> {
        let mut map = serde_json::Map::with_capacity(keys.len());
        for key in keys {
            if let Some(service) = self.registry().get(key.place()) {
                map.insert(key::of(key.place()), checksum::of(&service.state()).into());
            }
        }
        self.peers.checksum(to, body(&map)).await?;
        Ok(Answer::Done)
    }

    /// Asks a member of 1.x for its lists; what it doesn't know any more has gone.
    async fn pull(&self, to: &Address, keys: Vec<ServiceKey>) -> Result<Answer<ServiceKey>, ExchangeError> {
        let texts: Vec<String> = keys.iter().map(|key| key::of(key.place())).collect();
        let asked = self.at();
        let (body, at) = (self.peers.data(to, &texts).await?, self.at());
        let outcome = self.distro.take(None, batch::read_answer(&body, asked, at)?, at.now);
        let known: BTreeSet<&ServiceKey> = outcome.taken.iter().map(|(key, _)| key).collect();
        for key in keys.iter().filter(|key| !known.contains(key)) {
            let refused = outcome.refused.iter().any(|(text, _)| *text == key::of(key.place()));
            if !refused && !self.distro.owns(key) && self.registry().get(key.place()).is_some() {
                // A name that is there can be made.
                let _ = self.registry().replace_by_legacy(key.place(), &[], false, at.now);
            }
        }
        self.distro.note_outcome(to, &outcome);
        Ok(Answer::Done)
    }
}

/// Services that are being fetched, or were a moment ago, and when their data came.
#[derive(Debug, Default)]
pub(super) struct Fetches(parking_lot::Mutex<HashMap<ServiceKey, Arc<Fetch>>>);

type Fetch = tokio::sync::Mutex<Option<Millis>>;

impl Fetches {
    /// How long fetched data are good enough, in milliseconds.
    const GOOD_MS: u64 = 1_000;
    /// Services that are remembered before those that nobody fetches are forgotten.
    const MANY: usize = 1_000;

    fn of(&self, service: &ServiceKey, now: Millis) -> Arc<Fetch> {
        let mut fetches = self.0.lock();
        if fetches.len() >= Self::MANY {
            let is_recent = |at: Option<Millis>| at.is_none_or(|at| now.since(at) < Self::GOOD_MS);
            fetches.retain(|_, fetch| fetch.try_lock().map_or(true, |at| is_recent(*at)));
        }
        Arc::clone(fetches.entry(service.clone()).or_default())
    }
}

fn ring(view: &View) -> Vec<String> {
    view.ring.iter().map(ToString::to_string).collect()
}

fn body(document: &impl serde::Serialize) -> Bytes {
    json::to_bytes(document).into()
}

fn read<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(body)
}
