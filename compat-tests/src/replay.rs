//! Plays cases against a server, many at a time, since most of their time is waiting.

use std::cmp::Reverse;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;
use crate::compare::{Difference, compare};
use crate::golden::{Action, Expected, Scenario};
use crate::order::Case;
use crate::run::{Broke, Done, Got, Pauses, run};
use crate::shuffle::shuffle;
use crate::target::Target;

/// A scenario that waits longer than this is started before the others.
const LONG: Duration = Duration::from_secs(3);

/// How cases are played.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many at a time; at least one.
    pub jobs: usize,
    /// Whether the order of keys in objects counts.
    pub key_order: bool,
    /// What to do with recorded pauses.
    pub pauses: Pauses,
    /// Decides the order in which cases are started.
    pub seed: u64,
}

/// What came of a case.
#[derive(Debug)]
pub struct Outcome {
    /// Its suite.
    pub suite: String,
    /// Its scenario's name.
    pub scenario: String,
    /// From the scenario: why a difference isn't counted.
    pub fault: Option<String>,
    /// From the scenario: which improvement it states.
    pub improves: Option<String>,
    /// Same or not.
    pub verdict: Verdict,
    /// Whether time was lost that the scenario counts on, so that a difference may be nobody's fault.
    pub late: bool,
}

/// Whether the server behaved as expected.
#[derive(Debug)]
pub enum Verdict {
    /// As expected in every step.
    Same,
    /// Not in these.
    Differs(Vec<StepDifference>),
    /// It couldn't be played to its end: no answer. Counts even where a difference wouldn't.
    Broke {
        /// Index of the step.
        step: usize,
        /// What was sent.
        sent: String,
        /// Why, with causes.
        why: String,
        /// What differed in the steps before it.
        before: Vec<StepDifference>,
    },
}

/// A step whose answer was not as expected.
#[derive(Debug, Clone)]
pub struct StepDifference {
    /// Its index.
    pub step: usize,
    /// What was sent.
    pub sent: String,
    /// What differs.
    pub differences: Vec<Difference>,
    /// The whole text that was expected, where there was one.
    pub want: String,
    /// The whole text that came.
    pub got: String,
    /// Whether a refusal was expected, and one came.
    pub refused: bool,
}

impl Outcome {
    /// Whether this makes a server fail.
    pub fn counts(&self) -> bool {
        match self.verdict {
            Verdict::Same => false,
            Verdict::Differs(_) => self.fault.is_none(),
            Verdict::Broke { .. } => true,
        }
    }
}

/// Plays cases side by side, the long ones first, the rest in an order that the seed decides.
pub fn replay(target: &Target, cases: &[Case<'_>], options: &Options) -> Vec<Outcome> {
    let mut queue = cases.to_vec();
    shuffle(&mut queue, options.seed);
    queue.sort_by_key(|case| Reverse(Some(waits(case.scenario)).filter(|wait| *wait >= LONG)));
    let queue = Mutex::new(queue.into_iter());
    let outcomes = Mutex::new(Vec::with_capacity(cases.len()));
    thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, cases.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(case) = next else { break };
                    let outcome = play(target, case, options);
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Plays cases one after the other, as they stand.
pub fn replay_in_order(target: &Target, cases: &[Case<'_>], options: &Options) -> Vec<Outcome> {
    cases.iter().map(|case| play(target, *case, options)).collect()
}

/// Plays one case.
pub fn play(target: &Target, case: Case<'_>, options: &Options) -> Outcome {
    let scenario = case.scenario;
    let mut clock = Clock::default();
    let (done, broke) = run(target, scenario, options.pauses, &mut clock);
    let found = differing(done, scenario, options.key_order);
    let verdict = match broke {
        Some(Broke { step, sent, error }) => {
            Verdict::Broke { step, sent, why: format!("{error:#}"), before: found }
        }
        None if found.is_empty() => Verdict::Same,
        None => Verdict::Differs(found),
    };
    Outcome {
        suite: case.suite.to_owned(),
        scenario: scenario.name.clone(),
        fault: scenario.fault.clone(),
        improves: scenario.improves.clone(),
        verdict,
        late: clock.late() && !waits(scenario).is_zero(),
    }
}

/// The steps that were done and whose answers aren't as stated.
fn differing(done: Vec<Done>, scenario: &Scenario, key_order: bool) -> Vec<StepDifference> {
    let mut found = Vec::new();
    for (step, (done, stated)) in done.into_iter().zip(&scenario.steps).enumerate() {
        let Some(got) = done.got else { continue };
        let differences = compare(&stated.expected, &got, &stated.rules, key_order);
        if !differences.is_empty() {
            let refused = is_refused(&stated.expected, &got);
            let (want, got) = texts(stated.expected.first(), &got);
            found.push(StepDifference { step, sent: done.sent, differences, want, got, refused });
        }
    }
    found
}

/// Whether a refusal was expected, and one came.
fn is_refused(expected: &[Expected], got: &Got) -> bool {
    let wanted = |one: &Expected| matches!(one, Expected::Response(want) if want.status.refuses());
    matches!(got, Got::Response(got) if got.status >= 400) && expected.iter().all(wanted)
}

/// The whole texts of an answer: as it was expected and as it came.
fn texts(expected: Option<&Expected>, got: &Got) -> (String, String) {
    let want = match expected {
        Some(Expected::Response(want)) => want.body.clone(),
        Some(Expected::Datagram { body, .. }) => body.clone(),
        Some(Expected::Raw { responses, closed }) => format!("{responses:?}, closed: {closed}"),
        Some(Expected::Nothing | Expected::Reached) | None => String::new(),
    };
    let got = match got {
        Got::Response(response) => response.body.clone(),
        Got::Datagram(datagram, _) => datagram.as_ref().map(|got| got.body.clone()).unwrap_or_default(),
        Got::Until { last, .. } => last.clone(),
        Got::Raw(answer) => format!("{:?}, closed: {}", answer.items, answer.closed),
    };
    (want, got)
}

/// About how long a scenario waits for something other than an answer.
pub fn waits(scenario: &Scenario) -> Duration {
    let step = |step: &crate::golden::Step| match &step.action {
        Action::Sleep(wait) => *wait,
        Action::Until { timeout, .. } => step.rules.min.unwrap_or(*timeout / 2),
        Action::UdpRecv { timeout, drain, .. } => {
            let nothing = matches!(step.expected.first(), Some(Expected::Nothing));
            if *drain || nothing { *timeout } else { step.rules.min.unwrap_or_default() }
        }
        _ => Duration::ZERO,
    };
    scenario.steps.iter().map(step).sum()
}
