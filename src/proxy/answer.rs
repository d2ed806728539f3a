//! What a client gets: an instance's answer as it comes, or a text of the proxy's own.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use nacre_middleware::pass::{self, Broken};

use super::{
    client_stream::Giving,
    finish::Finish,
    outbound::Connector,
    upload::Upload,
    upstream::{ServiceSlot, Slot},
};

/// The number of a request, for whoever looks for it in several logs.
pub static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// An instance's answer.
pub type Answer = pass::Answer<Connector, Upload>;

/// The body of an answer.
pub struct ProxyBody {
    kind: Kind,
    /// The places that its request has; free when the instance has said all, however slowly the client takes it.
    places: Option<(Slot, ServiceSlot)>,
    /// Notes the end.
    finish: Option<Box<Finish>>,
    /// Notes whether the client takes it.
    giving: Option<Giving>,
}

enum Kind {
    Whole(Option<Bytes>),
    Streamed(Box<Answer>),
}

impl ProxyBody {
    /// These bytes.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        Self {
            kind: Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            places: None,
            finish: None,
            giving: None,
        }
    }

    /// An answer that comes bit by bit.
    #[must_use]
    pub fn streamed(answer: Box<Answer>, places: (Slot, ServiceSlot)) -> Self {
        Self { kind: Kind::Streamed(answer), places: Some(places), finish: None, giving: None }
    }

    /// The same, whose end is noted.
    #[must_use]
    pub fn with(mut self, finish: Box<Finish>) -> Self {
        if !self.is_end_stream() {
            self.giving = Some(finish.under_way.body());
        }
        self.finish = Some(finish);
        self
    }

    fn note_end(&mut self) {
        self.places = None;
        if let Some(finish) = &mut self.finish {
            finish.is_whole();
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        if let Some(giving) = &this.giving {
            giving.asked();
        }
        let frame = match &mut this.kind {
            Kind::Whole(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Kind::Streamed(answer) => ready!(Pin::new(answer).poll_frame(cx)),
        };
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(finish), Some(data)) = (&mut this.finish, frame.data_ref()) {
                    finish.took(data.len());
                }
                if let Some(giving) = &this.giving {
                    giving.given();
                }
                if this.is_end_stream() {
                    this.note_end();
                }
            }
            None => this.note_end(),
            Some(Err(broken)) => {
                this.places = None;
                if let Some(finish) = &mut this.finish {
                    finish.broke_off(broken);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Streamed(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Streamed(answer) => answer.size_hint(),
        }
    }
}

impl Drop for ProxyBody {
    fn drop(&mut self) {
        // Whoever sees that nothing more comes need not ask for it.
        if self.is_end_stream() {
            self.note_end();
        }
    }
}

/// A refusal of the proxy's own: why a request isn't passed on, or has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Its status.
    pub status: StatusCode,
    /// For a person.
    pub text: &'static str,
    /// In one word, for log and metrics.
    pub kind: &'static str,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub const fn new(status: StatusCode, kind: &'static str, text: &'static str) -> Self {
        Self { status, text, kind }
    }

    /// The answer, with the number of the request where it has one by now.
    #[must_use]
    pub fn answer(self, id: Option<&HeaderValue>) -> Response<ProxyBody> {
        let id = id.and_then(|id| id.to_str().ok());
        let text = match id {
            Some(id) => format!("{}\nrequest {id}\n", self.text),
            None => format!("{}\n", self.text),
        };
        let mut answer = Response::new(ProxyBody::whole(text.into()));
        *answer.status_mut() = self.status;
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::BAD_REQUEST {
            // Where the request ends is anybody's guess.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }
}
