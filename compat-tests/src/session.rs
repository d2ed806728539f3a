//! A run against one server: what can be played is played side by side, what needs the whole server alone, and
//! everything that was made is taken away again, however the run ends.

use std::cmp::Reverse;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cases::{Playable, Steps};
use crate::cleanup::{not_taken_away, take_away};
use crate::facts::Need;
use crate::finding::{Fate, Finding, without_time};
use crate::golden::HttpRequest;
use crate::greet::answers;
use crate::login::Login;
use crate::member::Member;
use crate::order::Case;
use crate::progress::Progress;
use crate::replay::{Options, play};
use crate::restore;
use crate::shuffle::{run_token, shuffle};
use crate::target::Target;
use crate::tries::settled;
use crate::written::Bench;

/// A case that waits longer than this is started before the others.
const LONG: Duration = Duration::from_secs(3);

/// What is said of one that wasn't played to its end since the run was over.
const THE_END: &str = "the run ended before";

/// One who answers no question for so long has died.
const PATIENCE: Duration = Duration::from_secs(5);

/// The real server checks a new instance within 7 s, and again within 7 s; this and some for a slow one. One check may come by
/// chance, from a server that checks once in a minute.
const TWO_CHECKS: Duration = Duration::from_secs(25);

/// How it is played, against whom.
pub struct Session<'a> {
    /// The server.
    pub target: Target,
    /// Other members of its cluster.
    pub peers: Vec<Target>,
    /// This program as a member of its cluster.
    pub member: Option<Member>,
    /// Who is asked to take away what was made, if not the server by the way that it is tried.
    pub back_door: Option<Target>,
    /// What of [`Need`] there is.
    pub has: Vec<Need>,
    /// Who is logged in, in place of whom the recordings have.
    pub login: Option<Login>,
    /// Whether needs are looked at: not for files of one's own.
    pub heeds_needs: bool,
    /// How cases are played.
    pub options: Options,
    /// Who watches.
    pub progress: &'a Progress,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One for each case.
    pub findings: Vec<Finding>,
    /// Why the run ended before its end.
    pub cut_off: Option<String>,
    /// What was made and couldn't be taken away.
    pub left_behind: Vec<String>,
}

impl Session<'_> {
    /// Plays the cases.
    pub fn run(&self, cases: Vec<Playable<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let (checks, rest): (Vec<_>, Vec<_>) = cases
            .into_iter()
            .partition(|case| self.heeds_needs && case.facts.needs.contains(&Need::HealthChecks));
        let (mut alone, shared): (Vec<_>, Vec<_>) = rest.into_iter().partition(|case| case.alone().is_some());
        let left = Mutex::new(Vec::new());
        thread::scope(|scope| {
            let checks = scope.spawn(|| self.health_checks(&checks, &left));
            outcome.findings = self.side_by_side(&shared, &left);
            outcome.findings.extend(checks.join().expect("what a case does is caught"));
        });
        alone.sort_by_key(Playable::alone);
        outcome.findings.extend(self.alone(&alone, &left));
        outcome.left_behind = left.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.findings.sort_by(|one, other| one.facts.id.cmp(&other.facts.id));
        outcome.cut_off = self.target.stop().reason().map(str::to_owned);
        outcome
    }

    /// Many at a time, the long ones first, the rest in an order that the seed decides.
    fn side_by_side(&self, cases: &[Playable<'_>], left: &Mutex<Vec<String>>) -> Vec<Finding> {
        let mut queue: Vec<&Playable<'_>> = cases.iter().collect();
        shuffle(&mut queue, self.options.seed);
        queue.sort_by_key(|case| Reverse(Some(case.waits()).filter(|wait| *wait >= LONG)));
        let queue = Mutex::new(queue.into_iter());
        let findings = Mutex::new(Vec::with_capacity(cases.len()));
        thread::scope(|scope| {
            for _ in 0..self.options.jobs.clamp(1, cases.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some(case) = next else { break };
                        let finding = self.one(case, left);
                        findings.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
                    }
                });
            }
        });
        findings.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// One after the other, then the switches and the status as they were, however that ended.
    fn alone(&self, cases: &[Playable<'_>], left: &Mutex<Vec<String>>) -> Vec<Finding> {
        if cases.is_empty() {
            return Vec::new();
        }
        let door = self.back_door.as_ref().unwrap_or(&self.target).for_tidying();
        let never_begun = self.target.stop().reason().is_some();
        let before = restore::switches(&door);
        let findings = cases.iter().map(|case| self.one(case, left)).collect();
        let after = match before {
            _ if never_begun => Ok(()),
            Ok(before) => restore::put_back(&door, &before),
            Err(unread) => restore::put_status_back(&door).and(Err(unread)),
        };
        if let Err(error) = after {
            let why = format!("the switches or the status, as a case left them: {error:#}");
            left.lock().unwrap_or_else(PoisonError::into_inner).push(why);
        }
        findings
    }

    /// The cases about checks by the server, as soon as it has shown that it checks at all.
    fn health_checks(&self, cases: &[Playable<'_>], left: &Mutex<Vec<String>>) -> Vec<Finding> {
        if cases.is_empty() {
            return Vec::new();
        }
        let checks = !self.has.contains(&Need::SameMachine) || self.checks_health(left).unwrap_or(true);
        if !checks && self.target.stop().reason().is_none() {
            let fate = || Fate::NotOffered("health checks of persistent instances: not two came within 25 s");
            return cases.iter().map(|case| self.finding(case, Duration::ZERO, fate())).collect();
        }
        self.side_by_side(cases, left)
    }

    /// Whether a persistent instance is asked for its health, and again.
    fn checks_health(&self, left: &Mutex<Vec<String>>) -> Result<bool> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let (run, port) = (run_token(), listener.local_addr()?.port());
        let target = self.target.for_case(run.clone());
        let path =
            format!("/nacos/v1/ns/instance?serviceName={run}&ip=127.0.0.1&port={port}&ephemeral=false");
        target.send(&HttpRequest::new("POST", &path, Duration::from_secs(10)))?;
        let end = Instant::now() + TWO_CHECKS;
        let mut came = 0;
        while came < 2 && Instant::now() < end && target.stop().wait(Duration::from_millis(100)).is_ok() {
            came += usize::from(listener.accept().is_ok());
        }
        self.clean(&target, &run, false, left);
        Ok(came == 2)
    }

    fn one(&self, case: &Playable<'_>, left: &Mutex<Vec<String>>) -> Finding {
        if let Some(fate) = self.hindrance(case) {
            return self.finding(case, Duration::ZERO, fate);
        }
        let begin = Instant::now();
        let tried = |steps| settled(|| self.attempt(case, steps, left));
        let fate = match (case.right, case.steps) {
            (Some(right), Steps::Recorded(Case { scenario, .. })) => {
                let right = Steps::Recorded(right);
                // What is right may leave room for what was recorded, so that comes first; but where the state of the whole server
                // is at stake, a fault may leave it in one in which only the fault itself can be shown before.
                let (as_right, as_recorded) = if case.alone().is_some() {
                    let as_recorded = tried(case.steps);
                    let door = self.back_door.as_ref().unwrap_or(&self.target).for_tidying();
                    let _ = restore::put_status_back(&door); // what is right tells whether it could be
                    (tried(right), Some(as_recorded))
                } else {
                    (tried(right), None)
                };
                match as_right {
                    Fate::Same => Fate::Better { why: scenario.fault.clone().unwrap_or_default() },
                    otherwise => match as_recorded.unwrap_or_else(|| tried(case.steps)) {
                        faulty @ Fate::Faulty { .. } => faulty,
                        _ => otherwise, // neither as recorded nor as is right
                    },
                }
            }
            _ => tried(case.steps),
        };
        self.finding(case, begin.elapsed(), fate)
    }

    /// Plays a case once, under a name of its own. Tells what came of it, and whether time was lost that it counts on.
    fn attempt(&self, case: &Playable<'_>, steps: Steps<'_>, left: &Mutex<Vec<String>>) -> (Fate, bool) {
        let run = run_token();
        let target = self.target.for_case(run.clone());
        let own_login = case.facts.family == "auth";
        let target = if own_login { target.with_token(None) } else { target };
        // Whatever goes wrong in a case, what it made is taken away.
        let played = catch_unwind(AssertUnwindSafe(|| self.play(steps, &target, own_login, &run)));
        let (mut fate, late) = played.unwrap_or_else(|_| {
            let why = "this program broke off, see above".to_owned();
            (Fate::Broke { step: 0, sent: "the case".to_owned(), why, before: Vec::new() }, false)
        });
        if matches!(fate, Fate::Broke { .. }) {
            self.look_whether_it_lives();
            self.look_whether_peers_live();
        }
        if let Fate::Broke { before, .. } = &fate
            && target.stop().reason().is_some()
        {
            // That it ended breaks a case, but makes no answer wrong that had come until then.
            let wrong = without_time(before);
            let over = Fate::NotPlayed(THE_END);
            fate = if wrong.is_empty() { over } else { Fate::Differs(wrong) };
        }
        let fixed = matches!(steps, Steps::Recorded(recorded) if recorded.scenario.fixed);
        self.clean(&target, &run, fixed, left);
        (fate, late)
    }

    fn play(&self, steps: Steps<'_>, target: &Target, own_login: bool, run: &str) -> (Fate, bool) {
        match steps {
            Steps::Recorded(recorded) => {
                let login = self.login.as_ref().filter(|_| own_login && self.heeds_needs);
                let own = login.map(|login| login.in_place_of_the_recorded(recorded.scenario));
                let scenario = own.as_ref().unwrap_or(recorded.scenario);
                let outcome = play(target, Case { scenario, ..recorded }, &self.options);
                (Fate::of(outcome.verdict, outcome.fault), outcome.late)
            }
            Steps::Written(written) => {
                let peers = self.peers.iter().map(|peer| peer.for_case(run.to_owned()));
                let peers: Vec<Target> = peers.collect();
                written.play(Bench::new(target, &peers, self.member.as_ref(), run))
            }
        }
    }

    /// Why a case isn't played.
    fn hindrance(&self, case: &Playable<'_>) -> Option<Fate> {
        if self.target.stop().reason().is_some() {
            return Some(Fate::NotPlayed(THE_END));
        }
        if !self.heeds_needs {
            return None;
        }
        let missing = case.facts.needs.iter().find(|need| !self.has.contains(need));
        missing.and_then(|need| match need {
            Need::HealthChecks => None, // found out apart
            Need::Auth if self.has.contains(&Need::AuthWhiteList) => {
                Some(Fate::NotPlayed("the white list of agents must be off"))
            }
            Need::Auth if self.login.as_ref().is_some_and(|login| !login.admin) => {
                Some(Fate::NotPlayed("the login of --auth must be a global administrator's"))
            }
            Need::Auth => Some(Fate::NotOffered("authentication: nothing asks for a login")),
            Need::Login => {
                Some(Fate::NotPlayed("needs --auth: nacos with the password nacos is no login there"))
            }
            Need::RecordedKey => Some(Fate::NotPlayed(
                "the server must have the secret key of the recordings, and --auth be a login of nacos",
            )),
            Need::RecordedIdentity => Some(Fate::NotPlayed(
                "the server must know its peers by the header that they have in the recordings",
            )),
            Need::Metrics => Some(Fate::NotOffered("metrics: the server exposes none")),
            Need::AuthWhiteList => Some(Fate::NotOffered(
                "authentication with a white list of agents: no agent is let in by one",
            )),
            Need::SameMachine => {
                Some(Fate::NotPlayed("the server must run on this machine, asked at 127.0.0.1"))
            }
            Need::Peers => {
                Some(Fate::NotPlayed("the other members of the cluster must be named by --peer URL"))
            }
            Need::Member => Some(Fate::NotPlayed(
                "this program must be a member: put an address of this machine into the server's list and give --member",
            )),
            Need::ContextPath => {
                Some(Fate::NotPlayed("the API stands at the root of the server, so nothing is outside of it"))
            }
            Need::OwnAddress => Some(Fate::NotPlayed(
                "the server must call itself by the address at which it is asked, 127.0.0.1",
            )),
        })
    }

    /// Ends the run if nobody answers any more. A server that hangs still takes connections, so it is asked something.
    fn look_whether_it_lives(&self) {
        let stop = self.target.stop();
        let begin = Instant::now();
        for _ in 0..4 {
            if begin.elapsed() > PATIENCE {
                break;
            }
            let lives = if self.heeds_needs { answers(&self.target) } else { self.target.probe().is_ok() };
            if lives {
                return;
            }
            if stop.wait(Duration::from_millis(500)).is_err() {
                return;
            }
        }
        stop.server_died();
    }

    /// Ends the run if a peer can't be reached any more: what members show together can't be shown without it.
    fn look_whether_peers_live(&self) {
        let stop = self.target.stop();
        for peer in &self.peers {
            let lives = |_| peer.probe().is_ok() || stop.wait(Duration::from_millis(500)).is_err();
            if !(0..4).any(lives) {
                stop.peer_died();
            }
        }
    }

    fn clean(&self, target: &Target, run: &str, fixed: bool, left: &Mutex<Vec<String>>) {
        if !self.heeds_needs {
            return;
        }
        if target.stop().has_died() || target.probe().is_err() {
            let remains = not_taken_away(&target.ledger(), run, fixed);
            left.lock().unwrap_or_else(PoisonError::into_inner).extend(remains);
            return;
        }
        if let Some(member) = &self.member {
            let members: Vec<Target> =
                std::iter::once(&self.target).chain(&self.peers).map(Target::for_tidying).collect();
            member.let_go(run, &members);
        }
        let door = self.back_door.as_ref().unwrap_or(target).for_tidying();
        let ours = door.with_token(self.target.token().map(str::to_owned));
        let remains = take_away(&ours, &target.ledger(), run, fixed);
        left.lock().unwrap_or_else(PoisonError::into_inner).extend(remains);
    }

    fn finding(&self, case: &Playable<'_>, took: Duration, fate: Fate) -> Finding {
        self.progress.done(fate.failed());
        Finding { facts: case.facts.clone(), took, fate }
    }
}
