//! What a written case works with: the server, its peers, names of its own; and a list of what isn't as it should be.

use std::time::Duration;

use anyhow::Result;

use crate::compare::Difference;
use crate::golden::HttpRequest;
use crate::json::{Json, parse};
use crate::member::{Member, as_member};
use crate::replay::StepDifference;
use crate::target::{Response, Target};

/// How long a single answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One for each case that is played.
pub struct Bench<'a> {
    /// The server.
    pub target: &'a Target,
    /// Other members of its cluster.
    pub peers: &'a [Target],
    /// This program as a member of its cluster, if it is one.
    pub member: Option<&'a Member>,
    /// What every name begins with.
    pub run: &'a str,
    step: usize,
    sent: String,
    found: Vec<StepDifference>,
    late: bool,
}

impl<'a> Bench<'a> {
    /// Nothing is done yet.
    pub fn new(target: &'a Target, peers: &'a [Target], member: Option<&'a Member>, run: &'a str) -> Self {
        Self { target, peers, member, run, step: 0, sent: String::new(), found: Vec::new(), late: false }
    }

    /// Sends `METHOD PATH` below the naming API.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn ask(&mut self, method: &str, path: &str) -> Result<Response> {
        self.ask_of(&self.target.clone(), method, path, &[])
    }

    /// Sends it to that server with these headers.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn ask_of(
        &mut self,
        target: &Target,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
        let request =
            HttpRequest { headers, ..HttpRequest::new(method, &format!("/nacos/v1/ns/{path}"), PATIENCE) };
        self.step(&format!("{method} {path} of {}", target.authority()));
        target.send(&request)
    }

    /// Sends it with a body of JSON, also where a method has none elsewhere.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn ask_with(&mut self, method: &str, path: &str, body: Option<String>) -> Result<Response> {
        self.step(&format!("{method} {path} with {}", body.as_deref().unwrap_or("no body")));
        self.target.send(&as_member(method, &format!("/nacos/v1/ns/{path}"), body))
    }

    /// Asks an entry about the cluster.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn ask_core(&mut self, entry: &str) -> Result<Response> {
        self.step(&format!("GET core/cluster/{entry} of {}", self.target.authority()));
        self.target.send(&HttpRequest::new("GET", &format!("/nacos/v1/core/cluster/{entry}"), PATIENCE))
    }

    /// Registers `ip` (port 80) in the service of this case's name, `more` being further parameters.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn register(&mut self, ip: &str, more: &str) -> Result<()> {
        let path = format!("instance?serviceName={}&ip={ip}&port=80{more}", self.run);
        let answer = self.ask("POST", &path)?;
        self.same("body", &"ok", &answer.body);
        Ok(())
    }

    /// The hosts that a list gives.
    pub fn hosts(list: &str) -> Vec<Json> {
        match parse(list).ok().as_ref().and_then(|list| list.get("hosts")) {
            Some(Json::List(hosts)) => hosts.clone(),
            _ => Vec::new(),
        }
    }

    /// Begins a step: what differs from here on is named with it.
    pub fn step(&mut self, sent: &str) {
        self.step += 1;
        sent.clone_into(&mut self.sent);
    }

    /// Notes a difference unless both are the same.
    pub fn same(&mut self, place: &str, want: &impl ToString, got: &impl ToString) {
        let (want, got) = (want.to_string(), got.to_string());
        if want != got {
            self.wrong(place, &want, &got);
        }
    }

    /// Notes a difference unless it is so.
    pub fn holds(&mut self, is_so: bool, place: &str, want: &str, got: &impl ToString) {
        if !is_so {
            self.wrong(place, want, &got.to_string());
        }
    }

    /// Notes a difference unless it is so; one that hangs on time, so that it says nothing where [`lost_time`](Self::lost_time)
    /// was said.
    pub fn holds_in_time(&mut self, is_so: bool, place: &str, want: &str, got: &impl ToString) {
        if !is_so {
            self.note(Difference::new(place, &want, got).of_time());
        }
    }

    fn wrong(&mut self, place: &str, want: &str, got: &str) {
        self.note(Difference::new(place, &want, &got));
    }

    fn note(&mut self, difference: Difference) {
        let (want, got) = (difference.want.clone(), difference.got.clone());
        self.found.push(StepDifference {
            step: self.step,
            sent: self.sent.clone(),
            differences: vec![difference],
            want,
            got,
            refused: false,
        });
    }

    /// Notes that time was lost that the case counts on: a difference may then be nobody's fault.
    pub fn lost_time(&mut self) {
        self.late = true;
    }

    /// Whether that was noted.
    pub fn is_late(&self) -> bool {
        self.late
    }

    /// Where it is, and all that was noted.
    pub fn end(self) -> (usize, String, Vec<StepDifference>) {
        (self.step, self.sent, self.found)
    }
}
