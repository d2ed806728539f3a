//! Sends what was kept while no legacy server answered.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Response;

use super::{
    handle::{Inner, Write},
    kept::Turn,
    question::{Question, What},
};

/// How often a kept write is tried that isn't taken, and the first while nobody is there.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(500);
/// How often one is tried that the registry, which is there, answers with an error of its own or not at all.
pub(super) const MOST_TRIES: u32 = 10;

/// What became of a kept write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// It is answered, or given up.
    Done,
    /// It comes again.
    Postponed,
    /// Nobody is there.
    Nobody,
}

impl Inner {
    /// Sends what is kept, one after the other, until nothing is left.
    pub(super) async fn send_kept(&self) {
        loop {
            let (next, gap, waiting) = {
                let mut memory = self.memory.lock();
                (memory.kept.first(self.clock.now()), memory.pace.gap(), memory.kept.len())
            };
            let pause = match next {
                None if waiting == 0 => break,
                None => TRY_EVERY,
                Some(next) => match self.send(next).await {
                    Sending::Done | Sending::Postponed => gap,
                    Sending::Nobody => TRY_EVERY,
                },
            };
            tokio::time::sleep(pause).await;
        }
        let replayed = {
            let mut memory = self.memory.lock();
            self.calm_down(&memory);
            std::mem::take(&mut memory.replayed)
        };
        if replayed > 0 {
            tracing::info!(replayed, "all registrations that were kept have been sent to the legacy cluster");
        }
    }

    /// Sends one.
    pub(super) async fn send(&self, turn: Turn<Write>) -> Sending {
        let Turn { number, which, effect, write: Write { sent, caller } } = turn;
        let service = Some(which.service.clone());
        let question = Question { service, caller, what: What::Write(which, effect) };
        let answered = self.asking.ask(&question, &sent).await;
        let mut memory = self.memory.lock();
        match &answered {
            // A cluster that has just started can't take all at once.
            Ok(response) if !response.status().is_server_error() => {}
            Err(failed) if failed.nobody => return Sending::Nobody,
            _ => {
                let not_before =
                    self.clock.now().plus(u64::try_from(TRY_EVERY.as_millis()).unwrap_or(u64::MAX));
                if memory.kept.postpone(number, not_before) < MOST_TRIES {
                    return Sending::Postponed;
                }
            }
        }
        memory.kept.done(number);
        memory.replayed += 1;
        if answered.is_ok() {
            self.is_back(&mut memory);
        }
        drop(memory);
        match answered {
            Ok(response) if response.status().is_success() => _ = self.counts.replayed.fetch_add(1, Relaxed),
            Ok(response) => self.is_rejected(&response),
            Err(_) => {
                self.counts.rejected.fetch_add(1, Relaxed);
                if let Some(unlogged) = self.rejections.pass(&["unanswered"], Instant::now()) {
                    tracing::warn!(unlogged, "the legacy cluster doesn't take a registration that was kept");
                }
            }
        }
        Sending::Done
    }

    fn is_rejected(&self, response: &Response<Bytes>) {
        let status = response.status();
        self.counts.rejected.fetch_add(1, Relaxed);
        if let Some(unlogged) = self.rejections.pass(&[status.as_str()], Instant::now()) {
            let text = String::from_utf8_lossy(&response.body()[..response.body().len().min(200)]);
            tracing::warn!(
                status = status.as_u16(),
                text = %text,
                unlogged,
                "the legacy cluster refuses a registration that was kept"
            );
        }
    }
}
