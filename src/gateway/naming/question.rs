//! What naming requests want of a legacy cluster, and what becomes of them.
//!
//! Pure.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};

use super::{
    callers::Caller,
    kept::{Effect, Which},
    stale::{Host, HostKey, Last, ListKey},
};
use crate::model::{ServiceKey, instance::BEAT_INTERVAL_MS};

/// A client's request, as it goes on.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Path and query for the server; headers as the client sent them.
    pub request: Request<Bytes>,
    /// Who opened the connection.
    pub peer: SocketAddr,
}

impl Sent {
    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let headers = self.request.headers().iter();
        let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + 64).sum();
        let target = self.request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        512 + headers + target + self.request.body().len()
    }

    /// Makes a short beat one that the instance can be made of.
    pub(super) fn tell_all(&mut self, service: &ServiceKey, host: &HostKey, known: &Host) {
        let HostKey { ip, port, cluster } = host;
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let (ip, cluster, name) = (text(ip), text(cluster), text(&service.name));
        let period_ms = known.beats_every().map_or(BEAT_INTERVAL_MS.into(), |every| every.as_millis());
        let beat = format!(
            r#"{{"cluster":{cluster},"ip":{ip},"metadata":{},"period":{period_ms},"port":{port},"scheduled":false,"serviceName":{name},"weight":{}}}"#,
            known.metadata, known.weight,
        );
        let encoded = percent_encoding::utf8_percent_encode(&beat, percent_encoding::NON_ALPHANUMERIC);
        *self.request.body_mut() = format!("beat={encoded}").into();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded;charset=UTF-8");
        self.request.headers_mut().insert(header::CONTENT_TYPE, form);
    }
}

/// What a request is about.
#[derive(Clone, Debug)]
pub struct Question {
    /// The service, where it names one.
    pub service: Option<ServiceKey>,
    /// Who asks.
    pub caller: Caller,
    /// What it wants.
    pub what: What,
}

/// What a request wants.
#[derive(Clone, Debug)]
pub enum What {
    /// A list.
    List(ListKey),
    /// An instance lives.
    Beat {
        /// Of which service.
        service: ServiceKey,
        /// Which.
        host: HostKey,
        /// It says nothing of the instance but where it is.
        is_light: bool,
    },
    /// An instance comes or goes.
    Write(Which, Effect),
    /// An instance is changed, if it is there.
    Change {
        /// Of which service.
        service: ServiceKey,
        /// Which.
        host: HostKey,
    },
    /// Something else.
    Other,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answered {
    /// What a server says.
    Registry(Response<Bytes>),
    /// What one has said before.
    Stale(Last),
    /// The instance is known; with its metadata as JSON where a list has told them.
    Known(Option<Box<str>>),
    /// The instance isn't known.
    Unknown,
    /// The write is kept.
    Kept,
    /// Not now.
    Refused(Refused),
}

/// Why a request isn't answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No server can be reached.
    Away,
    /// Too many requests are under way.
    Full,
    /// No server says anything.
    TimedOut,
    /// It may have been done, or not: whoever asked decides whether to ask again.
    Doubtful,
    /// What they say is no answer.
    Strange,
    /// Too many writes are kept.
    NoRoom,
    /// The registry hasn't answered this caller before, and can't be asked now.
    Stranger,
}
