//! What is noted when a request has ended: counters, and a line of the access log.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, StatusCode};
use nacre_middleware::pass::Broken;

use super::{Proxy, routes::Route, table::Selection, upstream::Upstream};
use crate::{base::watched::UnderWay, config::ProxyLog};

/// Target of the access log's lines; the logs show them whatever the level is.
const TARGET: &str = "proxy_access";
/// Bytes of a target that a line shows.
const LONGEST_TARGET: usize = 2_048;

/// Which requests get a line.
#[derive(Debug)]
pub struct Sampler {
    log: ProxyLog,
    seen: AtomicU32,
}

impl Sampler {
    /// As the setting says.
    #[must_use]
    pub fn new(log: ProxyLog) -> Self {
        Self { log, seen: AtomicU32::new(0) }
    }

    /// Whether any request may get a line.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.log != ProxyLog::Off
    }

    fn takes(&self, status: StatusCode) -> bool {
        match self.log {
            ProxyLog::Off => false,
            ProxyLog::Full => true,
            ProxyLog::Sampled(one_of) => status.is_server_error() || self.takes_one_of(one_of),
        }
    }

    fn takes_one_of(&self, count: NonZeroU32) -> bool {
        self.seen.fetch_add(1, Relaxed).is_multiple_of(count.get())
    }
}

/// What a line says of a request.
#[derive(Debug)]
pub struct Asked {
    /// Who called.
    pub client: IpAddr,
    /// As it came.
    pub method: Method,
    /// As it came.
    pub host: Box<str>,
    /// Path and query as they came; queries may hold secrets, so what stands behind `=` isn't shown.
    pub target: Box<str>,
    /// The request's number.
    pub id: Option<HeaderValue>,
}

impl Asked {
    /// Path and query as a line shows them.
    #[must_use]
    pub fn shown(path: &str, query: Option<&str>) -> Box<str> {
        let mut text = String::with_capacity(path.len());
        text.push_str(path);
        for (at, pair) in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).enumerate() {
            text.push(if at == 0 { '?' } else { '&' });
            match pair.split_once('=') {
                Some((name, _)) => {
                    text.push_str(name);
                    text.push_str("=...");
                }
                None => text.push_str(pair),
            }
        }
        if text.len() > LONGEST_TARGET {
            let end = (0..=LONGEST_TARGET).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
        }
        text.into()
    }
}

/// What stands for the status where the client left before it was answered: nginx's number for it.
fn client_left() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}

/// A request that is being answered; what it was is noted when this is dropped.
#[derive(Debug)]
pub struct Finish {
    /// When its head had come.
    pub began: Instant,
    /// Of the answer.
    pub status: StatusCode,
    /// Its rule, if one was found.
    pub route: Option<Arc<Route>>,
    /// Who answered.
    pub upstream: Option<Arc<Upstream>>,
    /// Those that the one who answered was picked from, where the end of its answer tells whether it does well.
    pub judged: Option<Arc<Selection>>,
    /// In one word, where it failed.
    pub failure: Option<&'static str>,
    /// How often it was sent.
    pub attempts: u32,
    /// For the access log, where there is one.
    pub asked: Option<Box<Asked>>,
    /// Whose request it is.
    pub proxy: Arc<Proxy>,
    /// Its place on its connection.
    pub under_way: UnderWay,
    bytes: u64,
    is_whole: bool,
}

impl Finish {
    /// A request whose head has come.
    #[must_use]
    pub fn new(proxy: &Arc<Proxy>, under_way: UnderWay) -> Self {
        Self {
            began: Instant::now(),
            status: client_left(),
            route: None,
            upstream: None,
            judged: None,
            failure: None,
            attempts: 0,
            asked: None,
            proxy: Arc::clone(proxy),
            under_way,
            bytes: 0,
            is_whole: false,
        }
    }

    /// The client was given so many bytes more.
    pub fn took(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// It was answered to the end.
    pub fn is_whole(&mut self) {
        self.is_whole = true;
        self.does_well();
    }

    fn does_well(&mut self) {
        if self.judged.take().is_some()
            && let Some(upstream) = &self.upstream
        {
            upstream.succeeded(self.proxy.clock.now());
        }
    }

    /// The instance's answer ended before its end.
    pub fn broke_off(&mut self, broken: &Broken, is_instances: bool) {
        let kind = match broken {
            Broken::Cut(_) => "answer_cut",
            Broken::Stopped => "answer_stopped",
        };
        self.failure = Some(kind);
        let judged = self.judged.take();
        let (Some(upstream), Some(route)) = (&self.upstream, &self.route) else { return };
        if is_instances && let Some(selection) = judged {
            let ejection = &route.rule.policy.ejection;
            upstream.failed(self.proxy.clock.now(), kind, ejection, selection.usable());
            self.proxy.tell_of(upstream, route, kind, &broken.to_string());
        } else {
            tracing::debug!(instance = %upstream, rule = &*route.rule.name, %broken, "an answer broke off");
        }
    }

    fn log(&self, asked: &Asked, took: Duration) {
        let failure = self.failure.or_else(|| (!self.is_whole).then_some("client_left"));
        tracing::info!(
            target: TARGET,
            client = %asked.client,
            method = %asked.method,
            host = &*asked.host,
            uri = &*asked.target,
            status = self.status.as_u16(),
            bytes = self.bytes,
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            rule = self.route.as_ref().map_or("-", |route| &*route.rule.name),
            instance = self.upstream.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            attempts = self.attempts,
            failure = failure.unwrap_or("-"),
            request_id = asked.id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or("-"),
        );
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        if let Some(route) = &self.route {
            route.counts.answered(self.status.as_u16(), took);
        }
        if self.bytes > 0 {
            // Its client had enough of an answer that went well.
            self.does_well();
        }
        if let Some(asked) = &self.asked
            && self.proxy.sampler.takes(self.status)
        {
            self.log(asked, took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_is_taken_and_each_that_failed() {
        let sampler = Sampler::new(ProxyLog::Sampled(NonZeroU32::new(10).unwrap()));
        let taken = |status| (0..100).filter(|_| sampler.takes(status)).count();
        assert_eq!((taken(StatusCode::OK), taken(StatusCode::BAD_GATEWAY)), (10, 100));
        assert!(!Sampler::new(ProxyLog::Off).is_on() && Sampler::new(ProxyLog::Full).takes(StatusCode::OK));
    }

    #[test]
    fn values_of_a_query_are_not_shown() {
        assert_eq!(&*Asked::shown("/a", Some("token=x&b&c=")), "/a?token=...&b&c=...");
        assert_eq!(&*Asked::shown("/a", None), "/a");
        // Not within a letter.
        assert_eq!(Asked::shown(&"/é".repeat(2_000), None).len(), 2_047);
    }
}
