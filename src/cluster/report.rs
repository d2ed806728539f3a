//! Tells the other members that this node is there, and learns from their answers whether they are.

use std::time::Duration;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{Address, Cluster, MemberReport, PeerError, Peers, Probe, peer::ReportAnswer};

/// Brings a report to a member.
pub trait Reporter: Send + Sync + 'static {
    /// How the member took it. Must be ready within the settings' limit.
    fn report(&self, to: &Address, report: &MemberReport) -> impl Future<Output = Probe> + Send;
}

impl Reporter for Peers {
    async fn report(&self, to: &Address, report: &MemberReport) -> Probe {
        match Peers::report(self, to, report).await {
            Ok(ReportAnswer { called: Some(called), .. }) if !called.is_spelling_of(to) => {
                Probe::Another(called)
            }
            Ok(answer) => Probe::Answered { known: answer.listed, nacre: answer.nacre },
            Err(error) => {
                tracing::debug!(member = %to, error = &error as &dyn std::error::Error, "a report failed");
                Probe::from(&error)
            }
        }
    }
}

impl From<&PeerError> for Probe {
    fn from(error: &PeerError) -> Self {
        match error {
            PeerError::Gone(_) => Self::Refused,
            PeerError::Starting => Self::NotReady { starting: true },
            PeerError::Alone => Self::Alone,
            PeerError::Unknown(_) | PeerError::Late => Self::NotReady { starting: false },
            PeerError::Forbidden(_) => Self::Stranger,
            // A name that nobody has any more is a failure, as in 1.x: whoever can't be called can't own services.
            PeerError::Impossible(_) => Self::Impossible,
            PeerError::Silent | PeerError::Refused(..) | PeerError::Malformed(_) => Self::Failed,
        }
    }
}

/// Reports until told to stop; without effect on a node that serves alone.
pub async fn run(cluster: Cluster, reporter: impl Reporter, stopped: CancellationToken) {
    // One to each member at most, and as many members as a list may have.
    let mut under_way = FuturesUnordered::new();
    loop {
        let (due, next) = cluster.probe_due();
        if !due.is_empty() {
            let report = cluster.own_report();
            for address in due {
                let (reporter, report) = (&reporter, report.clone());
                under_way.push(async move {
                    let probe = reporter.report(&address, &report).await;
                    (address, probe)
                });
            }
        }
        let pause = async {
            match next {
                Some(next) => {
                    let ms = next.since(cluster.clock().now());
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopped.cancelled() => return,
            Some((address, probe)) = under_way.next(), if !under_way.is_empty() => cluster.probed(&address, probe),
            () = cluster.woken() => {}
            () = pause => {}
        }
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
