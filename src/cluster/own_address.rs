//! Looks whether the node still has the address by which the others know it.
//!
//! Only where it was found rather than given. On a change it is told, not followed: under another address the node would
//! own other services and be a stranger to the others. Ours: Nacos 1.4.8 never looks again, 2.x takes the new one over.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Cluster;
use crate::config::{
    OwnAddressRules,
    own_address::{FoundBy, OwnAddress, find},
};

/// From one look to the next.
const PERIOD: Duration = Duration::from_secs(30);

/// Looks every 30 s until told to stop; `found` is what the rules gave at start.
pub async fn watch(cluster: Cluster, rules: OwnAddressRules, found: OwnAddress, stopped: CancellationToken) {
    let look = || {
        let rules = rules.clone();
        // Asks the system, and maybe DNS for the machine's name.
        let looking = tokio::task::spawn_blocking(move || find(&rules));
        async move { looking.await.ok().and_then(Result::ok).map(|found| found.host) }
    };
    watch_with(&cluster, found, stopped.clone(), look).await;
    stopped.cancelled().await;
}

/// Ready when told to stop, or at once where there is nothing to look at.
async fn watch_with<L: Future<Output = Option<String>>>(
    cluster: &Cluster,
    found: OwnAddress,
    stopped: CancellationToken,
    look: impl Fn() -> L,
) {
    if found.found_by == FoundBy::Setting {
        return;
    }
    loop {
        tokio::select! {
            () = stopped.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        // Where the system doesn't tell, nothing is known to have changed.
        if let Some(host) = look().await {
            let port = cluster.view_guard().own.port();
            cluster.set_moved((host != found.host).then(|| format!("{host}:{port}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{base::clock::Clock, cluster::Address};

    fn found(found_by: FoundBy) -> OwnAddress {
        OwnAddress { host: "10.0.0.1".into(), found_by }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_until_it_is_undone() {
        let cluster = Cluster::alone(Address::new("10.0.0.1:8848"), Clock::set(0));
        let stopped = CancellationToken::new();
        let looks = AtomicUsize::new(0);
        let hosts = [Some("10.0.0.1"), Some("10.0.0.2"), None, Some("10.0.0.1")];
        let told = parking_lot::Mutex::new(Vec::new());
        let look = async || {
            told.lock().push(cluster.conditions().len());
            let turn = looks.fetch_add(1, Ordering::Relaxed);
            if turn == hosts.len() {
                stopped.cancel();
            }
            hosts.get(turn).copied().flatten().map(str::to_owned)
        };
        watch_with(&cluster, found(FoundBy::Interface("eth0".into())), stopped.clone(), look).await;
        assert_eq!(*told.lock(), [0, 0, 1, 1, 0]);
        assert_eq!(cluster.view().own, Address::new("10.0.0.1:8848"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_given_address_is_not_looked_at() {
        let cluster = Cluster::alone(Address::new("10.0.0.1:8848"), Clock::set(0));
        let look = async || panic!("looked");
        watch_with(&cluster, found(FoundBy::Setting), CancellationToken::new(), look).await;
    }
}
