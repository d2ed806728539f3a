//! What a client gets: an instance's answer as it comes, or a text of the proxy's own.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::HeaderName;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use nacre_middleware::pass::{self, Broken};

use super::{finish::Finish, load::ServiceSlot, outbound::Connector, upload::Upload, upstream::Slot};
use crate::base::watched::Giving;

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
    Whole(Full<Bytes>),
    Streamed(Box<Answer>),
}

impl ProxyBody {
    /// These bytes.
    #[must_use]
    pub fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole(Full::new(bytes)), places: None, finish: None, giving: None }
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
        let polled = match &mut this.kind {
            Kind::Whole(whole) => Pin::new(whole).poll_frame(cx).map_err(|never| match never {}),
            Kind::Streamed(answer) => Pin::new(answer).poll_frame(cx),
        };
        let Poll::Ready(frame) = polled else {
            if let Some(giving) = &this.giving {
                giving.waits();
            }
            return Poll::Pending;
        };
        match &frame {
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                if let Some(finish) = &mut this.finish {
                    finish.took(bytes);
                }
                if let Some(giving) = &this.giving {
                    giving.given(bytes);
                }
                if this.is_end_stream() {
                    this.note_end();
                }
            }
            None => this.note_end(),
            Some(Err(broken)) => {
                this.places = None;
                let is_instances = match &this.kind {
                    Kind::Streamed(answer) => answer.is_servers_fault(broken),
                    Kind::Whole(_) => false,
                };
                if let Some(finish) = &mut this.finish {
                    finish.broke_off(broken, is_instances);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(whole) => whole.is_end_stream(),
            Kind::Streamed(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(whole) => whole.size_hint(),
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
