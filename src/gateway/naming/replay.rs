//! Sends what was kept while no legacy server answered.
//!
//! A kept write is this node's own: its client has been told that it is done. So it is sent until a server has taken it,
//! whatever became of it before; it is about a key, and done twice is as done once.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use super::{
    asking::PATIENCE,
    handle::Inner,
    kept::{Turn, Which},
    memory::Write,
    question::{Question, What},
};

/// How often the first is tried while nobody is there.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(500);
/// How often one is tried that the registry, which is there, answers with an error of its own or not at all: for two minutes.
pub(super) const MOST_TRIES: u32 = 10;

/// What became of a kept write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// The registry has it.
    Taken,
    /// The registry doesn't want it, or hasn't taken it often enough.
    Rejected,
    /// It comes again.
    Waits,
    /// So it does, and so does all else: nobody is there.
    Nobody,
}

/// A write of this instance is being sent.
struct UnderWay<'a> {
    inner: &'a Inner,
    which: &'a Which,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.inner.memory.lock().kept.ended(self.which);
    }
}

impl Inner {
    /// Sends what is kept, one after the other, until nothing is left.
    pub(super) async fn send_kept(&self) {
        loop {
            let (next, gap, waiting) = {
                let mut memory = self.memory.lock();
                (memory.kept.first(self.clock.now()), memory.pace.gap(), memory.kept.len())
            };
            let Some(next) = next else {
                if waiting == 0 {
                    break;
                }
                // All that is kept waits; something else may come.
                _ = tokio::time::timeout(TRY_EVERY, self.keeps.notified()).await;
                continue;
            };
            let pause = match self.send(next).await {
                Sending::Taken | Sending::Rejected | Sending::Waits => gap,
                Sending::Nobody => TRY_EVERY,
            };
            tokio::time::sleep(pause).await;
        }
        let replayed = {
            let mut memory = self.memory.lock();
            self.calm_down(&mut memory);
            std::mem::take(&mut memory.replayed)
        };
        if replayed > 0 {
            tracing::info!(replayed, "all registrations that were kept have been sent to the legacy cluster");
        }
    }

    /// Sends one.
    pub(super) async fn send(&self, turn: Turn<Write>) -> Sending {
        let _under_way = UnderWay { inner: self, which: &turn.which };
        let Write { sent, caller } = &turn.write;
        let what = What::Write(turn.which.clone(), turn.effect);
        let question = Question { service: Some(turn.which.service.clone()), caller: *caller, what };
        let answered = self.asking.ask_within(&question, sent, PATIENCE).await;
        let now = self.clock.now();
        let mut memory = self.memory.lock();
        let is_there = match &answered {
            Ok(_) => {
                self.is_back(&mut memory);
                true
            }
            Err(failed) if failed.nobody => {
                self.is_away(&mut memory, true);
                return Sending::Nobody;
            }
            Err(_) => !memory.outage.is_away(),
        };
        // A cluster that has just started can't take all at once.
        let response = answered.as_ref().ok().filter(|response| !response.status().is_server_error());
        if response.is_none() && memory.kept.postpone(&turn, is_there, now) < MOST_TRIES {
            return if is_there { Sending::Waits } else { Sending::Nobody };
        }
        memory.kept.done(&turn);
        memory.replayed += 1;
        let is_taken = response.is_some_and(|response| response.status().is_success());
        if is_taken {
            memory.is_taken(&turn.which, turn.effect, now);
        }
        self.calm_down(&mut memory);
        drop(memory);
        if is_taken {
            self.counts.replayed.fetch_add(1, Relaxed);
            return Sending::Taken;
        }
        self.counts.rejected.fetch_add(1, Relaxed);
        let said = answered.ok().map(|response| {
            let text = String::from_utf8_lossy(&response.body()[..response.body().len().min(200)]);
            (response.status().as_u16(), text.into_owned())
        });
        let (status, text) = said.unzip();
        if let Some(unlogged) =
            self.rejections.pass(&[&status.unwrap_or_default().to_string()], Instant::now())
        {
            tracing::warn!(
                status,
                text,
                unlogged,
                "the legacy cluster doesn't take a registration that was kept: it is given up"
            );
        }
        Sending::Rejected
    }
}
