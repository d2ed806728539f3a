//! One request to a peer, from its leave to its end.

use std::{
    future::poll_fn,
    pin::pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Response;
use tower_service::Service;

use super::{Fault, Forwarder, Members, now};
use crate::{
    breaker::{End, Ticket, Verdict},
    outgoing::Outgoing,
    peers::Peer,
};

/// A request under way; whoever drops it before its end has abandoned it.
pub(super) struct Underway<'a, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    pub(super) forwarder: &'a Forwarder<M, C>,
    pub(super) peer: &'a Peer,
    pub(super) ticket: Option<Ticket>,
}

impl<M, C> Underway<'_, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    /// The peer's answer; nothing where the request was taken from it.
    pub(super) async fn answer(
        mut self,
        outgoing: Outgoing,
        patience: Duration,
        has_deputy: bool,
    ) -> Option<Result<Response<Bytes>, Fault>> {
        let mut answering = pin!(call_ready(self.forwarder.shared.client.clone(), outgoing));
        let start = tokio::time::Instant::now();
        let deadline = start + self.forwarder.shared.timeout;
        let mut next_look = pin!(tokio::time::sleep_until(deadline.min(start + patience)));
        let answer = loop {
            tokio::select! {
                biased;
                answer = answering.as_mut() => break answer,
                () = next_look.as_mut() => {}
            }
            let now = tokio::time::Instant::now();
            if now >= deadline {
                break Err(Fault::TimedOut);
            }
            match self.outlasted(now.into_std(), has_deputy) {
                Verdict::Wait => next_look.as_mut().reset(deadline),
                Verdict::LookAgain => next_look.as_mut().reset(deadline.min(now + patience)),
                Verdict::Recall => {
                    self.end(End::Recalled);
                    return None;
                }
            }
        };
        self.end(match &answer {
            Ok(_) => End::Answered,
            Err(Fault::TimedOut) => End::TimedOut,
            Err(Fault::Broken(_)) => End::Spoilt,
            Err(Fault::Refused | Fault::Closed | Fault::Impossible(_)) => End::Broken,
        });
        Some(answer)
    }

    /// Nothing was sent until now.
    pub(super) fn begins(&mut self) {
        self.ticket = self.ticket.map(|ticket| ticket.sent_at(now()));
    }

    fn outlasted(&mut self, now: Instant, has_deputy: bool) -> Verdict {
        match &mut self.ticket {
            Some(ticket) => self.peer.breaker.lock().outlasted(now, ticket, has_deputy),
            None => Verdict::Wait,
        }
    }

    fn end(&mut self, end: End) {
        if let Some(ticket) = self.ticket.take() {
            let turn = self.peer.breaker.lock().ended(now(), ticket, end);
            self.forwarder.turned(self.peer, turn);
        }
    }
}

impl<M, C> Drop for Underway<'_, M, C>
where
    M: Members,
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault> + Clone,
{
    fn drop(&mut self) {
        self.end(End::Abandoned);
    }
}

/// Waits until the client takes a request, then sends it.
pub(super) async fn call_ready<C>(mut client: C, outgoing: Outgoing) -> Result<Response<Bytes>, Fault>
where
    C: Service<Outgoing, Response = Response<Bytes>, Error = Fault>,
{
    poll_fn(|cx| client.poll_ready(cx)).await?;
    client.call(outgoing).await
}
