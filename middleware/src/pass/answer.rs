//! The body of an answer on its way: drives its connection, and gives it back at its end.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{Fault, Sending, Shared, SharedUpload, is_final};
use crate::pool::{Alarm, Connect, Leased, Line, Upload};

/// An answer's body; it must be read to its end, or its connection is closed.
pub struct Answer<C: Connect, B: Upload> {
    incoming: Incoming,
    /// Until the answer has ended.
    leased: Option<Leased<C, Sending<B>>>,
    upload: SharedUpload,
    idle: Duration,
    /// Since when nothing has come that could be passed on.
    waiting: Option<Instant>,
    /// For HTTP/2, whose connection has none of its own.
    alarm: Option<Alarm>,
    tunnel: Option<Tunnel<C::Stream>>,
    /// Has been read, and not been passed on.
    next: Option<Result<Frame<Bytes>, Broken>>,
}

/// Why an answer's body ended before its end; the client's connection must be cut, or it would take it for whole.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The server closed or reset the connection, or its framing is wrong.
    #[error("the answer broke off: {0}")]
    Cut(String),
    /// Nothing came for too long.
    #[error("the answer stopped")]
    Stopped,
}

/// A connection that speaks another protocol now.
pub struct Tunnel<S> {
    /// The server's end.
    pub stream: S,
    /// What has been read of it already.
    pub read: Bytes,
}

impl<C, B> Answer<C, B>
where
    C: Connect,
    B: Upload,
{
    pub(super) async fn new(
        answer: Response<Incoming>,
        mut leased: Leased<C, Sending<B>>,
        upload: SharedUpload,
        idle: Duration,
        asks_upgrade: bool,
    ) -> Result<Response<Self>, Fault> {
        let (head, incoming) = answer.into_parts();
        if !is_final(head.status, asks_upgrade) {
            return Err(Fault::Broken("it changes to a protocol that nobody asked for".into()));
        }
        let tunnel = if head.status == StatusCode::SWITCHING_PROTOCOLS {
            Some(into_tunnel(&mut leased, idle).await?)
        } else {
            None
        };
        let mut answer = Self {
            incoming,
            leased: Some(leased),
            upload,
            idle,
            waiting: None,
            alarm: None,
            tunnel,
            next: None,
        };
        if answer.tunnel.is_some() {
            // Its place among those under way goes with the tunnel: see `take_tunnel`.
        } else if answer.incoming.is_end_stream() {
            answer.end();
        }
        Ok(Response::from_parts(head, answer))
    }

    /// The connection, after 101; the exchange stays under way until this answer's body is dropped.
    pub fn take_tunnel(&mut self) -> Option<Tunnel<C::Stream>> {
        self.tunnel.take()
    }

    /// The whole body, if all of it has come with the head, as a short answer mostly has: it needs no streaming then.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.incoming.size_hint().exact()?;
        if self.leased.is_none() && self.next.is_none() {
            return Some(Bytes::new());
        }
        // Whoever streams it after all drives it anew, and is woken.
        let mut cx = Context::from_waker(Waker::noop());
        if self.next.is_none()
            && self.is_driven()
            && let Poll::Ready(Some(frame)) = self.poll_incoming(&mut cx)
        {
            self.next = Some(frame.map_err(|error| Broken::Cut(super::failure::with_cause(&error))));
        }
        if !self.incoming.is_end_stream() {
            return None;
        }
        let data = self.next.take_if(|next| next.as_ref().is_ok_and(Frame::is_data))?;
        self.end();
        data.ok()?.into_data().ok()
    }

    /// Whether it says something against the server that its answer broke off: not where the client's body broke off before, and
    /// silence only where more was announced. Streams of events may be silent for as long as they like.
    #[must_use]
    pub fn is_servers_fault(&self, why: &Broken) -> bool {
        let upload = self.upload.as_deref();
        match why {
            Broken::Cut(_) => !upload.is_some_and(Shared::is_broken),
            Broken::Stopped => {
                upload.is_none_or(Shared::has_ended) && self.incoming.size_hint().exact().is_some()
            }
        }
    }

    fn end(&mut self) {
        if let Some(leased) = self.leased.take() {
            leased.give_back();
        }
    }

    fn is_driven(&self) -> bool {
        let line = self.leased.as_ref().and_then(|leased| leased.line.as_ref());
        matches!(line, Some(Line::Http1(_)))
    }

    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if !self.is_driven() {
            return Pin::new(&mut self.incoming).poll_frame(cx);
        }
        // What it holds already comes first. It is driven before it is asked again, so nobody else need wake us.
        let mut asking = Context::from_waker(Waker::noop());
        let held = Pin::new(&mut self.incoming).poll_frame(&mut asking);
        if held.is_ready() {
            return held;
        }
        self.drive(cx);
        Pin::new(&mut self.incoming).poll_frame(&mut asking)
    }

    /// Lets the exchange go on; a connection that has ended ends the body, too, which then says so itself.
    fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(Line::Http1(connection)) = self.leased.as_mut().and_then(|leased| leased.line.as_mut()) {
            let _ = connection.poll_drive(cx);
        }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = || Instant::now();
        let waiting = *self.waiting.get_or_insert_with(now);
        let moved = self.upload.as_ref().filter(|upload| !upload.has_ended()).map(|upload| upload.moved());
        let deadline = moved.map_or(waiting, |moved| moved.max(waiting)) + self.idle;
        match self.leased.as_mut().and_then(|leased| leased.line.as_mut()) {
            Some(Line::Http1(connection)) => connection.alarm.poll(deadline, cx),
            _ => self.alarm.get_or_insert_default().poll(deadline, cx),
        }
    }
}

async fn into_tunnel<C, B>(
    leased: &mut Leased<C, Sending<B>>,
    patience: Duration,
) -> Result<Tunnel<C::Stream>, Fault>
where
    C: Connect,
    B: Upload,
{
    let Some(Line::Http1(mut connection)) = leased.line.take() else {
        return Err(Fault::Broken("only HTTP/1.1 changes to another protocol".into()));
    };
    let changing = std::future::poll_fn(|cx| connection.poll_drive(cx));
    match tokio::time::timeout(patience, changing).await {
        Ok(Ok(())) => {
            let (stream, read) = connection.into_stream();
            Ok(Tunnel { stream, read })
        }
        Ok(Err(error)) => Err(Fault::Broken(super::failure::with_cause(&error))),
        Err(_) => Err(Fault::TimedOut),
    }
}

impl<C, B> Body for Answer<C, B>
where
    C: Connect,
    B: Upload,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        if this.leased.is_none() {
            return Poll::Ready(None);
        }
        if let Some(next) = this.next.take() {
            if next.is_err() {
                this.leased = None;
            } else if this.incoming.is_end_stream() {
                this.end();
            }
            return Poll::Ready(Some(next));
        }
        let frame = this.poll_incoming(cx);
        let Poll::Ready(frame) = frame else {
            ready!(this.poll_late(cx));
            this.leased = None;
            return Poll::Ready(Some(Err(Broken::Stopped)));
        };
        this.waiting = None;
        match frame {
            Some(Ok(frame)) => {
                if this.incoming.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                this.end();
                Poll::Ready(None)
            }
            Some(Err(error)) => {
                this.leased = None;
                Poll::Ready(Some(Err(Broken::Cut(super::failure::with_cause(&error)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.next.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.next.as_ref().and_then(|next| next.as_ref().ok()?.data_ref());
        let held = held.map_or(0, |data| data.len() as u64);
        match self.incoming.size_hint().exact() {
            Some(length) => SizeHint::with_exact(length + held),
            None => SizeHint::new(),
        }
    }
}
