//! Sends what was kept while no legacy server answered.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Response;

use super::{
    callers::Caller,
    handle::Inner,
    kept::Turn,
    question::{Question, What},
};

/// How often a kept write is tried while no server takes it.
pub(super) const TRY_EVERY: Duration = Duration::from_millis(500);

/// How often one is tried that the registry answers with an error of its own.
const MOST_TRIES: u32 = 10;

impl Inner {
    /// Sends what is kept, one after the other, until nothing is left.
    pub(super) async fn send_kept(&self) {
        let (mut tried, mut tries) = (None, 0);
        loop {
            let (next, gap) = {
                let memory = self.memory.lock();
                (memory.kept.first(), memory.pace.gap())
            };
            let Some(Turn { number, write, service }) = next else { break };
            let question = Question { service: Some(service), caller: Caller::Anybody, what: What::Other };
            let answered = self.asking.ask(&question, &write).await;
            tries = if tried == Some(number) { tries + 1 } else { 1 };
            tried = Some(number);
            let pause = match &answered {
                // A cluster that has just started can't take all at once.
                Ok(response) if response.status().is_server_error() && tries < MOST_TRIES => TRY_EVERY,
                Ok(response) => {
                    self.sent_kept(number, response);
                    gap
                }
                Err(_) => TRY_EVERY,
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

    fn sent_kept(&self, number: u64, response: &Response<Bytes>) {
        let status = response.status();
        let mut memory = self.memory.lock();
        memory.kept.done(number);
        memory.replayed += 1;
        self.is_back(&mut memory);
        drop(memory);
        if status.is_success() {
            self.counts.replayed.fetch_add(1, Relaxed);
            return;
        }
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
