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
    accept::Outcome,
    batch,
    bodies::{BODY_BYTES, Body, DatumToSend, Dialect, bodies},
    calls::{Answer, Call},
    checksum,
    documents::{Ask, Heard, Hex, Keys, Named, Verified, Verify, Wanted, parted},
    handle::{ANOTHER_TIME, Distro, FAULTY_DATA, LEFT_OUT, REFUSED_DATA},
    key,
    lists::Lists,
    load::Loaded,
    mapper::{Owner, owner},
    outbox::{Item, Sent},
    pieces::{PieceError, Pieces},
    silence,
};
use crate::{
    base::{
        clock::{Millis, Reading},
        json,
    },
    cluster::{
        Address, Evidence, Peer, PeerError, Peers, View, behind_text,
        peer::{AllData, MOST_UNREACHED},
    },
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
    #[error("{}", behind_text(.0))]
    Clock(Duration),
    #[error("nothing of what it has can be used")]
    Nothing,
}

/// Bytes of what can't be read that a line shows.
const SHOWN_OF_UNREADABLE: usize = 200;

/// Whether it is the data that a member refuses, and not the call.
fn is_of_data(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::INTERNAL_SERVER_ERROR
    )
}

/// What has become of all data of a peer so far.
#[derive(Debug, Default)]
struct Loading {
    /// The key of a service that is longer than one may be, and how many more there are.
    too_long: Option<(String, usize)>,
    /// Something of a service was taken, or could have been.
    any_good: bool,
    /// The highest stamp that is too far ahead of this node's clock, and the first words about one.
    ahead: Option<(u64, String)>,
    /// What else was wrong, first.
    fault: Option<String>,
    /// Documents that couldn't be read.
    unreadable: usize,
    /// Those of them in which nobody looked for what is good.
    unsearched: usize,
}

/// Documents of one answer that can't be read and are looked at piece by piece for what is good in them; further ones are left
/// out as a whole.
const MOST_UNREADABLE: usize = 1_000;

impl Loading {
    /// Clocks of members that differ by more than this, in milliseconds, explain stamps that are a day ahead; and no less does, since
    /// stamps run ahead of their clocks by an hour at most.
    const FAR_MS: u64 = 12 * 60 * 60 * 1_000;

    fn skipped(&mut self, keys: Vec<String>) {
        for key in keys {
            match &mut self.too_long {
                Some((_, others)) => *others += 1,
                None => self.too_long = Some((key, 0)),
            }
        }
    }

    fn took(&mut self, outcome: &Outcome) {
        for fault in outcome.faults() {
            match fault.of_another_time() {
                Some(stamp) => {
                    let ahead = self.ahead.get_or_insert_with(|| (stamp, fault.to_string()));
                    ahead.0 = ahead.0.max(stamp);
                }
                None => _ = self.fault.get_or_insert_with(|| fault.to_string()),
            }
        }
        self.any_good |= outcome.read > 0 || outcome.taken.len() > outcome.halved.len();
    }

    /// There was something, and none of it could be taken.
    fn is_useless(&self) -> bool {
        !self.any_good && (self.fault.is_some() || self.too_long.is_some())
    }

    /// By how much this node's clock is behind that of the peer, where that makes its data useless: all of them that there are,
    /// or some of them by its clock, which it may show. Where both clocks agree, single stamps are wrong.
    fn behind(&self, theirs_ms: Option<u64>, own_ms: u64) -> Option<Duration> {
        let ahead_ms = self.ahead.as_ref()?.0.saturating_sub(own_ms);
        let by_clock_ms = theirs_ms.map(|theirs_ms| theirs_ms.saturating_sub(own_ms));
        match by_clock_ms.filter(|behind_ms| *behind_ms > Self::FAR_MS) {
            Some(behind_ms) => Some(Duration::from_millis(behind_ms)),
            None => (!self.any_good).then(|| Duration::from_millis(ahead_ms)),
        }
    }
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
            ExchangeError::Answer(_) | ExchangeError::Pieces(_) | ExchangeError::Nothing => {
                "unreadable answer"
            }
            ExchangeError::Clock(_) => ANOTHER_TIME,
        };
        self.distro.note_failure(to, kind, &error.to_string());
    }

    async fn load(&self, to: &Address) -> Loaded {
        match self.load_all(to).await {
            Ok(loaded) => loaded,
            Err(error @ ExchangeError::Clock(behind)) => {
                self.distro.0.cluster.is_behind(to, behind);
                self.note(to, &error);
                Loaded::OfAnotherTime
            }
            Err(ExchangeError::Peer(PeerError::Starting)) => Loaded::Starting,
            Err(ExchangeError::Peer(PeerError::Forbidden(text))) => {
                self.distro.0.cluster.forbidden(to);
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
    async fn load_all(&self, to: &Address) -> Result<Loaded, ExchangeError> {
        let asked = self.at();
        let mut all = self.peers.all_data(to).await?;
        if let Some(protocol) = all.nacre {
            self.distro.0.cluster.shown_nacre(to, protocol);
        }
        if let Some(called) = all.called.take().filter(|called| !called.is_spelling_of(to)) {
            self.distro.0.cluster.is_another(to, called);
        }
        if all.nacre.is_none() || self.is_beside_legacy() {
            self.ask_for_ring(to).await;
        }
        let mut loading = Loading::default();
        let end = self.take_all(to, &mut all, asked, &mut loading).await;
        let behind = loading.behind(all.wall_ms, self.at().wall_ms);
        if behind.is_none()
            && let Some((_, fault)) = loading.ahead.take()
        {
            loading.fault.get_or_insert(fault);
        }
        self.note_left_out(to, &loading);
        end?;
        match behind {
            Some(behind) => Err(ExchangeError::Clock(behind)),
            None if loading.is_useless() => Err(ExchangeError::Nothing),
            None if all.nacre.is_none() && !loading.any_good => Ok(Loaded::Empty),
            None => Ok(Loaded::Merged),
        }
    }

    fn is_beside_legacy(&self) -> bool {
        self.distro.0.cluster.view().peers.iter().any(|peer| peer.nacre.is_none())
    }

    /// Asks a member whom it takes for owners: the data of one of 1.x are whole where all take it for that.
    async fn ask_for_ring(&self, to: &Address) {
        let ring = self.peers.ring(to).await.inspect_err(|error| {
            self.distro.note_failure(to, error.kind(), &format!("it doesn't tell the members: {error}"));
        });
        Arc::make_mut(&mut *self.distro.0.rings.lock()).note(to, ring.ok());
    }

    /// The same, piece by piece.
    async fn take_all(
        &self,
        to: &Address,
        all: &mut AllData,
        asked: Reading,
        loading: &mut Loading,
    ) -> Result<(), ExchangeError> {
        let mut pieces = Pieces::new(self.peers.max_datum());
        while let Some(part) = all.next().await? {
            for piece in pieces.push(&part)? {
                self.take_some(to, &piece, asked, loading);
            }
            loading.skipped(pieces.take_skipped());
        }
        loading.skipped(pieces.take_skipped());
        self.take_some(to, &pieces.end()?, asked, loading);
        Ok(())
    }

    /// Takes some of all data of a peer, of a member of 1.x for what [`Distro::take_answer`] says.
    /// What comes when the node serves, from a peer that wasn't waited for any more, counts as what any member tells then: parts
    /// of it are here, and it may know of what nobody else does. What can't be read is left out, and costs nothing else up to
    /// a bound ([`MOST_UNREADABLE`]).
    ///
    /// `asked`: when it was asked for, here and below.
    fn take_some(&self, from: &Address, body: &[u8], asked: Reading, loading: &mut Loading) {
        let at = self.at();
        match batch::read_answer(body, asked, at) {
            Ok(batch) => {
                let outcome = self.distro.take_answer(from, batch, at.now);
                loading.took(&outcome);
                self.distro.send_better(from, &outcome);
            }
            Err(error) => {
                loading.unreadable += 1;
                let is_searched = loading.unreadable <= MOST_UNREADABLE;
                loading.unsearched += usize::from(!is_searched);
                let each = if is_searched { Pieces::each(body) } else { Vec::new() };
                if each.len() > 1 {
                    each.iter().for_each(|one| self.take_some(from, one, asked, loading));
                } else {
                    let begin = String::from_utf8_lossy(&body[..body.len().min(SHOWN_OF_UNREADABLE)]);
                    loading.fault.get_or_insert_with(|| format!("{begin}: {error}"));
                }
            }
        }
    }

    fn note_left_out(&self, from: &Address, loading: &Loading) {
        if let Some((first, others)) = &loading.too_long {
            let most = self.peers.max_datum();
            let more = if *others == 0 { String::new() } else { format!(" and {others} more") };
            let reason = format!(
                "{first}{more}: a single service has more than the {most} bytes that this node takes (nacre.peer.max-body-bytes)"
            );
            self.distro.note_failure(from, LEFT_OUT, &reason);
        }
        if let Some(fault) = &loading.fault {
            self.distro.note_failure(from, FAULTY_DATA, fault);
        }
        if loading.unsearched > 0 {
            let reason = format!(
                "{} parts of its data were left out as a whole, after {MOST_UNREADABLE} documents that can't be read",
                loading.unsearched
            );
            self.distro.note_failure(from, LEFT_OUT, &reason);
        }
    }

    async fn push(&self, to: &Address, items: Vec<Item<ServiceKey>>) -> Sent {
        let dialect = self.dialect(to);
        match self.send(to, &items, dialect).await {
            Ok(stamps) => Sent::Taken(stamps.into_iter().map(Some).collect()),
            Err(PeerError::Refused(status, _)) if is_of_data(status) => {
                self.push_each(to, items, dialect).await
            }
            Err(error) => {
                self.note(to, &error.into());
                Sent::Failed
            }
        }
    }

    /// Sends one by one what was refused together: what is refused alone is refused for good. Of what goes in parts the others
    /// are sent all the same.
    async fn push_each(&self, to: &Address, items: Vec<Item<ServiceKey>>, dialect: Dialect) -> Sent {
        let mut stamps = Vec::with_capacity(items.len());
        for item in items {
            let (mut stamp, mut is_refused) = (None, false);
            for body in self.bodies_of(std::slice::from_ref(&item), dialect) {
                stamp = body.stamps.last().copied();
                match self.send_body(to, body, dialect).await {
                    Ok(()) => {}
                    Err(PeerError::Refused(status, text)) if is_of_data(status) => {
                        let reason = format!("{}: {text}", item.key);
                        self.distro.note_failure(to, REFUSED_DATA, &reason);
                        is_refused = true;
                    }
                    Err(error) => {
                        self.note(to, &error.into());
                        return Sent::Failed;
                    }
                }
            }
            stamps.push(stamp.filter(|_| !is_refused));
        }
        Sent::Taken(stamps)
    }

    /// Sends the newest of these; gives the highest stamp of each when all of it is taken.
    async fn send(
        &self,
        to: &Address,
        items: &[Item<ServiceKey>],
        dialect: Dialect,
    ) -> Result<Vec<u64>, PeerError> {
        let mut stamps = Vec::with_capacity(items.len());
        for body in self.bodies_of(items, dialect) {
            stamps.extend(&body.stamps);
            self.send_body(to, body, dialect).await?;
        }
        Ok(stamps)
    }

    /// The newest of these.
    fn bodies_of(&self, items: &[Item<ServiceKey>], dialect: Dialect) -> impl Iterator<Item = Body> {
        let view = self.distro.0.cluster.view();
        let outgoing = items.iter().map(move |item| DatumToSend {
            service: item.key.clone(),
            state: self.registry().get(item.key.place()).map(|service| service.state()),
            newer_than: item.newer_than,
            is_copy: owner(&view, &item.key.name) != Owner::Here,
        });
        bodies(outgoing, dialect, || self.at(), BODY_BYTES)
    }

    async fn send_body(&self, to: &Address, body: Body, dialect: Dialect) -> Result<(), PeerError> {
        let view = self.distro.0.cluster.view();
        let unreached: Vec<Address> = match dialect {
            Dialect::Nacre => view.unreached().cloned().collect(),
            Dialect::Legacy => Vec::new(),
        };
        self.peers.put_data(to, body.bytes, &unreached, body.at.now.0).await.map(drop)
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
                batch.map(|batch| self.distro.take_answer(from, batch, at.now)).map_err(Into::into)
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

    /// Asks a member of 1.x for its lists; what it doesn't know any more is an empty one.
    async fn pull(&self, to: &Address, keys: Vec<ServiceKey>) -> Result<Answer<ServiceKey>, ExchangeError> {
        let texts: Vec<String> = keys.iter().map(|key| key::of(key.place())).collect();
        let asked = self.at();
        let (body, at) = (self.peers.data(to, &texts).await?, self.at());
        let outcome = self.distro.take_lists(to, batch::read_answer(&body, asked, at)?, at.now);
        let known: BTreeSet<&ServiceKey> = outcome.taken.iter().map(|(key, _)| key).collect();
        let view = self.distro.0.cluster.view();
        for key in keys.iter().filter(|key| !known.contains(key)) {
            let refused = outcome.refused.iter().any(|(text, _)| *text == key::of(key.place()));
            if !refused && self.registry().get(key.place()).is_some() {
                let list_for = self.distro.list_for_pulled(&view, to, key);
                // A name that is there can be made.
                let _ = self.registry().replace_by_legacy(key.place(), &[], list_for, at.now);
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
    /// Services that are remembered before those that nobody fetches are forgotten. Beyond it there are as many as are being
    /// fetched, which requests bound.
    const MANY: usize = 1_000;

    fn of(&self, service: &ServiceKey, now: Millis) -> Arc<Fetch> {
        let mut fetches = self.0.lock();
        if fetches.len() >= Self::MANY {
            // Whoever fetches holds it; where nothing came and nobody holds it, the request was given up.
            let is_recent = |at: Option<Millis>| at.is_some_and(|at| now.since(at) < Self::GOOD_MS);
            let is_wanted = |fetch: &Arc<Fetch>| {
                Arc::strong_count(fetch) > 1 || fetch.try_lock().is_ok_and(|at| is_recent(*at))
            };
            fetches.retain(|_, fetch| is_wanted(fetch));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        distro::accept::take,
        model::{
            Limits,
            merge::{Judge, ListFor},
        },
    };

    const DAY_MS: u64 = 86_400_000;
    const OWN_MS: u64 = 1_795_983_049_938;
    const AT: Reading = Reading { now: Millis(1 << 40), wall_ms: OWN_MS };

    #[tokio::test]
    async fn services_whose_fetching_was_given_up_are_forgotten() {
        let fetches = Fetches::default();
        let service = |number: usize| ServiceKey::new("public", &format!("G@@{number}"));
        let held = fetches.of(&service(0), Millis(1));
        for number in 1..3_000 {
            let fetch = fetches.of(&service(number), Millis(1));
            if number == 1 {
                *fetch.lock().await = Some(Millis(1));
            }
        }
        assert!(fetches.0.lock().len() <= Fetches::MANY);
        assert!(Arc::ptr_eq(&held, &fetches.of(&service(0), Millis(2))));
        assert!(fetches.of(&service(1), Millis(2)).lock().await.is_some(), "it came a moment ago");
    }

    /// What becomes of services with instances under these stamps, which are ahead of the own clock by so many days.
    fn loading(services: &[&[u64]]) -> Loading {
        let datum = |(number, days): (usize, &&[u64])| {
            let instances: Vec<String> = days
                .iter()
                .map(|days| {
                    let stamp = OWN_MS + days * DAY_MS;
                    format!(r#"{{"ip":"a{days}","port":1,"nacreStamp":{stamp},"nacreAge":1}}"#)
                })
                .collect();
            let key = key::of(ServiceKey::new("public", &format!("G@@s{number}")).place());
            let list = instances.join(",");
            format!(
                r#""{key}":{{"key":"{key}","value":{{"instanceList":[{list}]}},"nacre":{{"complete":true}}}}"#
            )
        };
        let data: Vec<String> = services.iter().enumerate().map(datum).collect();
        let registry = Registry::new(Arc::default(), Limits::default()).shared(AT);
        let batch = batch::read(format!("{{{}}}", data.join(",")).as_bytes(), AT).unwrap();
        let mut loading = Loading::default();
        loading.took(&take(&registry, batch, |_| Judge::Teller, |_| ListFor::Copy, AT.now));
        loading
    }

    #[test]
    fn an_answer_is_useless_where_there_was_something_and_nothing_of_it_could_be_taken() {
        let fault = || Some("wrong".to_owned());
        let too_long = || Some(("key".to_owned(), 0));
        let is_useless = |any_good, fault, too_long| {
            Loading { any_good, fault, too_long, ..Loading::default() }.is_useless()
        };
        assert!(!is_useless(false, None, None), "there was nothing");
        assert!(is_useless(false, fault(), None) && is_useless(false, None, too_long()));
        assert!(!is_useless(true, fault(), too_long()));
        assert!(loading(&[&[0]]).any_good && !loading(&[]).any_good);
    }

    #[test]
    fn data_are_of_another_time_where_none_can_be_taken_or_the_member_s_clock_says_so() {
        let behind = |services: &[&[u64]], theirs_days: Option<u64>| {
            let theirs_ms = theirs_days.map(|days| OWN_MS + days * DAY_MS);
            loading(services).behind(theirs_ms, OWN_MS).map(|behind| behind.as_secs() / 86_400)
        };
        assert_eq!(behind(&[], Some(9)), None, "there is nothing to be taken");
        assert_eq!(behind(&[&[0], &[1]], Some(9)), None, "all is taken");
        assert_eq!(behind(&[&[2], &[3, 2]], None), Some(3));
        assert_eq!(behind(&[&[2], &[3]], Some(9)), Some(9));
        assert_eq!(behind(&[&[2], &[3]], Some(0)), Some(3), "the clocks were set right, the stamps were not");
        assert_eq!(behind(&[&[2], &[0]], Some(2)), Some(2), "part of the list would be shown");
        assert_eq!(behind(&[&[2], &[0]], Some(0)), None, "a stamp is wrong");
        assert_eq!(behind(&[&[2, 0], &[0]], None), None);
        assert_eq!(behind(&[&[2, 0]], None), None, "one instance of a service that is taken");
        assert_eq!(behind(&[&[2, 0]], Some(2)), Some(2));
        assert_eq!(loading(&[&[2], &[0]]).fault, None, "it is told with the clocks, or by itself");
    }
}
