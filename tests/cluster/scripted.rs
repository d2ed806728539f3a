//! One long run: a fleet of beating clients and readers of every list of every node, through all that can happen to a
//! cluster. Prints what was wrong, step by step.
//!
//! `cargo test --test cluster -- --ignored --nocapture scripted`; `STEPS=kill,freeze` runs a part of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::DropGuard;

use crate::support::{
    cluster::{Cluster, Place},
    fleet::{Failure, Fleet, Why},
    node::PATIENCE,
    poller::{Episode, Pollers, Wrong},
    relay::Passage,
    table::Table,
    truth::{CALM, FAULTY, Truth},
};

const SERVICES: usize = 100;
const EACH: usize = 20;
/// All lists of a node are read once in this time.
const ROUND: Duration = Duration::from_millis(200);
/// Clients that come and go, a second.
const CHANGES: f64 = 4.0;
/// The same while the cluster is scaled.
const MANY_CHANGES: f64 = 40.0;
/// Details of wrong lists that are printed of a step.
const MOST_DETAILS: usize = 12;
/// What no list may ever be.
const ZERO: [Wrong; 3] = [Wrong::Empty, Wrong::Shrunken, Wrong::Risen];
/// Calls of a node that fail for want of an answer of a hanging one.
const MOST_SLOW: usize = 3;
const THREE: [Place; 3] = [0, 1, 2];
const FIVE: [Place; 5] = [0, 1, 2, 3, 4];

#[tokio::test]
#[ignore = "takes six minutes"]
async fn scripted() {
    let mut run = Run::start().await;
    let chosen = env::var("STEPS").unwrap_or_default();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.split(',').any(|step| step == name);
    if is_chosen("calm") {
        run.begin("calm", &[], CALM);
        run.pause(15).await;
    }
    if is_chosen("kill") {
        run.kill_and_return().await;
    }
    if is_chosen("freeze") {
        run.freeze().await;
    }
    if is_chosen("remove") {
        run.remove_and_add_again().await;
    }
    if is_chosen("oneway") {
        run.one_way().await;
    }
    if is_chosen("rolling") {
        run.rolling_restart().await;
    }
    if is_chosen("together") {
        run.start_together().await;
    }
    if is_chosen("scale") {
        run.scale().await;
    }
    run.finish().await;
}

/// A part of the run, from its beginning to that of the next.
struct Step {
    name: &'static str,
    from: Instant,
    lists: u64,
    calls: u64,
    unknown: u64,
}

struct Run {
    cluster: Cluster,
    truth: Arc<Mutex<Truth>>,
    fleet: Fleet,
    pollers: Pollers,
    start: Instant,
    steps: Vec<Step>,
    _changing: DropGuard,
}

impl Run {
    async fn start() -> Self {
        let mut cluster = Cluster::relayed(5, &[]).await;
        let truth = Arc::new(Mutex::new(Truth::new(SERVICES, 5)));
        let at: Vec<_> = FIVE.map(|place| cluster.at(place)).to_vec();
        cluster.list_everywhere(&THREE);
        for place in THREE {
            cluster.start(place).await;
        }
        cluster.agreed(&THREE, PATIENCE).await;
        let fleet = Fleet::new(cluster.http.clone(), at.clone(), Arc::clone(&truth));
        fleet.spread_over(&THREE);
        fleet.join(SERVICES, EACH).await;
        let pollers = Pollers::start(&cluster.http, &at, &truth, SERVICES, ROUND);
        pollers.read(&THREE);
        let _changing = fleet.change(CHANGES);
        Self { cluster, truth, fleet, pollers, start: Instant::now(), steps: Vec::new(), _changing }
    }

    /// Begins a step in which these nodes have a fault, and new data may take `grace`.
    fn begin(&mut self, name: &'static str, faulty: &[Place], grace: Duration) {
        println!("{:7.1} {name}", self.start.elapsed().as_secs_f64());
        self.truth.lock().set_grace(grace);
        *self.fleet.calls().faulty.lock() = faulty.iter().copied().collect();
        let calls = self.fleet.calls();
        self.steps.push(Step {
            name,
            from: Instant::now(),
            lists: self.pollers.seen.lock().lists,
            calls: calls.done.load(Relaxed),
            unknown: calls.unknown.load(Relaxed),
        });
    }

    async fn pause(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    /// Starts a node that had been ended, and waits until all agree on these.
    async fn start_again(&mut self, place: Place, ring: &[Place]) {
        self.cluster.start(place).await;
        self.cluster.ready(place).await;
        self.truth.lock().restarted(place, Instant::now());
        let took = self.cluster.agreed(ring, PATIENCE).await;
        println!("{:7.1}   agreed after {:.2} s", self.start.elapsed().as_secs_f64(), took.as_secs_f64());
    }

    /// Everything is in order again.
    async fn healed(&self) {
        self.cluster.agreed(&THREE, PATIENCE).await;
        self.fleet.spread_over(&THREE);
        self.pause(10).await;
    }

    async fn kill_and_return(&mut self) {
        self.begin("kill -9", &[2], FAULTY);
        self.truth.lock().kill(Instant::now());
        self.cluster.kill(2);
        self.cluster.agreed(&[0, 1], PATIENCE).await;
        self.pause(20).await;
        self.begin("return", &[2], FAULTY);
        self.start_again(2, &THREE).await;
        self.healed().await;
    }

    async fn freeze(&mut self) {
        self.begin("SIGSTOP 27 s", &[1], FAULTY);
        self.cluster.node(1).freeze();
        self.pause(27).await;
        self.begin("SIGCONT", &[1], FAULTY);
        self.truth.lock().reachable(1, Instant::now());
        self.cluster.node(1).thaw();
        self.healed().await;
        self.pause(10).await;
    }

    async fn remove_and_add_again(&mut self) {
        self.begin("removed, sending", &[1], FAULTY);
        self.pollers.read(&[0, 2]);
        self.fleet.may_call(&[0, 2]);
        for place in [0, 2] {
            self.cluster.list(place, &[0, 2]);
        }
        self.pause(40).await;
        self.begin("stale, added", &[1], FAULTY);
        self.truth.lock().reachable(1, Instant::now());
        for place in [0, 2] {
            self.cluster.list(place, &THREE);
        }
        self.pollers.read(&THREE);
        self.healed().await;
        self.pause(10).await;
    }

    async fn one_way(&mut self) {
        for (name, passage) in
            [("one-way, refused", Passage::Refused), ("one-way, hanging", Passage::Hanging)]
        {
            self.begin(name, &[], FAULTY);
            self.cluster.link(0, 1, passage);
            self.pause(25).await;
            self.cluster.link(0, 1, Passage::Open);
            self.healed().await;
        }
    }

    async fn rolling_restart(&mut self) {
        self.begin("rolling restart", &[], FAULTY);
        for place in THREE {
            *self.fleet.calls().faulty.lock() = BTreeSet::from([place]);
            // Too fast for those that look at the rings.
            self.truth.lock().moved(Instant::now());
            self.cluster.stop(place).await;
            self.start_again(place, &THREE).await;
            self.truth.lock().moved(Instant::now());
            self.fleet.spread_over(&THREE);
            self.pause(5).await;
        }
        self.healed().await;
    }

    async fn start_together(&mut self) {
        self.begin("all at once", &THREE, FAULTY);
        for place in THREE {
            self.cluster.kill(place);
        }
        self.truth.lock().all_stopped();
        for place in THREE {
            self.cluster.start(place).await;
        }
        for place in THREE {
            self.cluster.ready(place).await;
            self.truth.lock().reachable(place, Instant::now());
        }
        self.healed().await;
        self.pause(5).await;
    }

    async fn scale(&mut self) {
        self.begin("3 to 5", &[], FAULTY);
        let changing = self.fleet.change(MANY_CHANGES);
        self.cluster.list_everywhere(&FIVE);
        for place in [3, 4] {
            self.cluster.start(place).await;
        }
        for place in [3, 4] {
            self.cluster.ready(place).await;
            self.truth.lock().restarted(place, Instant::now());
        }
        self.cluster.agreed(&FIVE, PATIENCE).await;
        self.pollers.read(&FIVE);
        self.fleet.spread_over(&FIVE);
        self.pause(15).await;
        self.begin("5 to 2", &[0, 2, 3], FAULTY);
        self.pollers.read(&[1, 4]);
        self.cluster.list_everywhere(&[1, 4]);
        self.cluster.agreed(&[1, 4], PATIENCE).await;
        self.pause(6).await;
        self.fleet.may_call(&[1, 4]);
        for place in [0, 2, 3] {
            self.cluster.stop(place).await;
        }
        self.pause(15).await;
        drop(changing);
        self.pause(10).await;
    }

    async fn finish(mut self) {
        self.begin("end", &[], FAULTY);
        self.fleet.stop().await;
        let report = self.report();
        println!("{report}");
        let seen = self.pollers.seen.lock();
        let wrong = seen.episodes.iter().filter(|episode| ZERO.contains(&episode.wrong)).count();
        assert_eq!(wrong, 0, "lists were wrongly empty, shrunken or risen");
        let failed = self.fleet.calls().failed.lock();
        for step in self.steps.iter().filter(|step| step.name == "kill -9") {
            let failures = self.of_step(step, &failed);
            assert_eq!(failures.iter().filter(|failure| !failure.at_the_faulty).count(), 0);
            assert!(most_of_one_client(&failures) <= 1);
        }
        // Of the writes for one that hangs three of each node wait for it in vain; the client then asks another node.
        for step in self.steps.iter().filter(|step| step.name == "SIGSTOP 27 s") {
            let failures = self.of_step(step, &failed);
            let at = |node: Place| failures.iter().filter(|failure| failure.node == node).count();
            assert!([0, 2].into_iter().all(|sound| at(sound) <= MOST_SLOW));
        }
    }

    fn end_of(&self, step: &Step) -> Instant {
        let next = self.steps.iter().find(|other| other.from > step.from);
        next.map_or_else(Instant::now, |next| next.from)
    }

    fn of_step<'a>(&self, step: &Step, failed: &'a [Failure]) -> Vec<&'a Failure> {
        let end = self.end_of(step);
        failed.iter().filter(|failure| failure.at >= step.from && failure.at < end).collect()
    }

    fn report(&self) -> String {
        let (seen, failed) = (self.pollers.seen.lock(), self.fleet.calls().failed.lock());
        let mut headings = vec!["", "s", "lists"];
        let names: Vec<String> = Wrong::ALL.iter().map(|wrong| format!("{wrong:?}").to_lowercase()).collect();
        headings.extend(names.iter().map(String::as_str));
        headings.extend(["longest s", "calls", "failed there", "most of one", "elsewhere", "20404"]);
        let mut table = Table::new(&headings);
        let mut details = String::new();
        for pair in self.steps.windows(2) {
            let (step, next) = (&pair[0], &pair[1]);
            let within = |episode: &&Episode| episode.from >= step.from && episode.from < next.from;
            let episodes: Vec<&Episode> = seen.episodes.iter().filter(within).collect();
            let count = |wrong: Wrong| episodes.iter().filter(|episode| episode.wrong == wrong).count();
            let longest = episodes.iter().map(|episode| episode.to - episode.from).max().unwrap_or_default();
            let failures = self.of_step(step, &failed);
            let there: Vec<&Failure> =
                failures.iter().copied().filter(|failure| failure.at_the_faulty).collect();
            let mut cells = vec![
                step.name.to_owned(),
                format!("{:.0}", (next.from - step.from).as_secs_f64()),
                (next.lists - step.lists).to_string(),
            ];
            cells.extend(Wrong::ALL.map(|wrong| count(wrong).to_string()));
            cells.extend([
                format!("{:.2}", longest.as_secs_f64()),
                (next.calls - step.calls).to_string(),
                there.len().to_string(),
                most_of_one_client(&there).to_string(),
                (failures.len() - there.len()).to_string(),
                (next.unknown - step.unknown).to_string(),
            ]);
            table.row(cells);
            details += &self.details(step, next, &episodes, &failures, &seen.rings);
        }
        let other = &seen.other;
        let truth = self.truth.lock();
        format!(
            "\n{details}\n{table}\n{} polls unanswered; answers that were no list, by (node, status): {other:?}; {} clients live, the longest without an answer for {:.1} s",
            seen.unanswered,
            truth.alive(),
            truth.longest_silence(Instant::now()).as_secs_f64(),
        )
    }

    fn details(
        &self,
        step: &Step,
        next: &Step,
        episodes: &[&Episode],
        failures: &[&Failure],
        rings: &[(Instant, Place, BTreeSet<String>)],
    ) -> String {
        let mut text = format!("== {}\n", step.name);
        let at = |instant: Instant| (instant - step.from).as_secs_f64();
        for (when, node, ring) in rings.iter().filter(|ring| ring.0 >= step.from && ring.0 < next.from) {
            let name = |place: &Place| ring.contains(&self.cluster.at(*place).to_string());
            let up: Vec<Place> = FIVE.into_iter().filter(name).collect();
            text += &format!("  {:6.2} s  node {node} holds {up:?} for up\n", at(*when));
        }
        let truth = self.truth.lock();
        let mut worst = episodes.to_vec();
        worst.sort_by_key(|episode| (!ZERO.contains(&episode.wrong), episode.from));
        for episode in worst.into_iter().take(MOST_DETAILS) {
            let first = *episode.ids.first().expect("one at least");
            text += &format!(
                "  {:6.2} s  {:?} at node {}, service {}, for {:.2} s: {} instances; {}\n",
                at(episode.from),
                episode.wrong,
                episode.node,
                episode.service,
                (episode.to - episode.from).as_secs_f64(),
                episode.ids.len(),
                truth.story(first, episode.from),
            );
        }
        if episodes.len() > MOST_DETAILS {
            text += &format!("  ... and {} more\n", episodes.len() - MOST_DETAILS);
        }
        for ((node, there, why), (count, first, last, said)) in kinds(failures) {
            let place = if there { "the faulty" } else { "the sound" };
            text += &format!(
                "  {count} calls failed at {place} node {node}, {:.2} to {:.2} s: {why:?} {said}\n",
                at(first),
                at(last)
            );
        }
        text
    }
}

type Kinds = BTreeMap<(Place, bool, Why), (usize, Instant, Instant, String)>;

fn kinds(failures: &[&Failure]) -> Kinds {
    let mut kinds = Kinds::new();
    for failure in failures {
        let key = (failure.node, failure.at_the_faulty, failure.why);
        let said: String = failure.text.chars().take(120).collect();
        let kind = kinds.entry(key).or_insert((0, failure.at, failure.at, said));
        kind.0 += 1;
        kind.2 = failure.at;
    }
    kinds
}

/// How many of these calls the client with the most of them made.
fn most_of_one_client(failures: &[&Failure]) -> usize {
    let mut counts = BTreeMap::<_, usize>::new();
    for failure in failures {
        *counts.entry(failure.client).or_default() += 1;
    }
    counts.into_values().max().unwrap_or(0)
}
