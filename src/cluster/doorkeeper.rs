//! Keeps what [`proof`](super::proof) decides by: the members' names resolved, the rules, what was told of refusals.

use std::{
    io,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Address, View,
    proof::{Refusals, Resolved, Rules, is_parting, literal},
};
use crate::config::ClusterSettings;

/// From one look at the members' names to the next; a new list is looked at when it comes.
const PERIOD: Duration = Duration::from_secs(30);
/// How long the system may take to resolve one name. Then its last addresses count on.
const PATIENCE: Duration = Duration::from_secs(5);
/// Letters of what is told of a malformed body.
const MOST_LETTERS: usize = 200;

/// Says who is a member; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Doorkeeper(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rules: Rules,
    resolved: ArcSwap<Resolved>,
    refusals: Mutex<Refusals>,
    malformed: Mutex<Refusals<(IpAddr, &'static str)>>,
}

impl Doorkeeper {
    /// Knows addresses at once, names when they are [followed](Self::follow).
    #[must_use]
    pub fn new(settings: &ClusterSettings) -> Self {
        Self(Arc::new(Inner { rules: settings.into(), ..Inner::default() }))
    }

    /// Whether a request with these headers, from a connection of `caller`, is a member's.
    #[must_use]
    pub fn proves(&self, view: &View, caller: IpAddr, headers: &HeaderMap) -> bool {
        self.0.rules.prove(view, &self.0.resolved.load(), caller, headers)
    }

    /// Whether connections from `caller` are members'.
    #[must_use]
    pub fn knows(&self, view: &View, caller: IpAddr) -> bool {
        self.0.rules.know(view, &self.0.resolved.load(), caller)
    }

    /// Whether connections from `caller` are those of one that was a member a moment ago.
    #[must_use]
    pub fn sees_part(&self, view: &View, caller: IpAddr) -> bool {
        !view.parting.is_empty() && is_parting(view, &self.0.resolved.load(), caller)
    }

    /// Tells the operator that `caller`, which says that it is the listed `member`, was refused.
    pub fn refused(&self, caller: IpAddr, member: &str, now: Instant) {
        if self.0.refusals.lock().pass(caller, now) {
            tracing::warn!(
                seen = %caller,
                member,
                setting = "nacre.peer.networks",
                "refused a caller that says it is a member: it comes from an address that isn't the member's; if it is one, name its network in the setting"
            );
        }
    }

    /// Tells the operator that what the member at `caller` sent to an entry can't be used.
    pub fn malformed(&self, caller: IpAddr, entry: &'static str, why: &str, now: Instant) {
        if self.0.malformed.lock().pass((caller, entry), now) {
            let why: String = why.chars().take(MOST_LETTERS).collect();
            tracing::warn!(member = %caller, entry, why, "what a member sent can't be used, and is left out");
        }
    }

    /// Resolves the names of `view`'s members until `stopped`: at once, at each change, and again and again.
    pub async fn follow(
        self,
        view: impl Fn() -> Arc<View>,
        mut changes: watch::Receiver<u64>,
        stopped: CancellationToken,
    ) {
        let resolve = async |name: &str| {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip().to_canonical()).collect())
        };
        let following = async {
            loop {
                changes.mark_unchanged();
                self.look(&view(), resolve).await;
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() {
                        // No more changes will come; names may still move.
                        tokio::time::sleep(PERIOD).await;
                    },
                    () = tokio::time::sleep(PERIOD) => {}
                }
            }
        };
        tokio::select! {
            () = stopped.cancelled() => {}
            () = following => {}
        }
    }

    /// Resolves all names among the members' addresses; what can't be resolved keeps its last addresses.
    async fn look(&self, view: &View, resolve: impl AsyncFn(&str) -> io::Result<Vec<IpAddr>>) {
        let before = self.0.resolved.load_full();
        let addresses = view.peers.iter().map(|peer| &peer.address).chain(&view.parting).chain([&view.own]);
        let hosts = addresses.map(Address::host);
        // As many at a time as there are members: one that hangs holds up no other.
        let looks = hosts.filter(|host| literal(host).is_none()).map(async |name| {
            let found = tokio::time::timeout(PATIENCE, resolve(name)).await.ok().and_then(Result::ok);
            let found = found.filter(|addresses| !addresses.is_empty());
            let addresses = found.or_else(|| before.get(name).cloned()).unwrap_or_default();
            (Box::from(name), addresses)
        });
        let resolved: Resolved = join_all(looks).await.into_iter().collect();
        if resolved != *before {
            self.0.resolved.store(Arc::new(resolved));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Mapping, MemberState, Peer, Standing};

    fn view(members: &[&str]) -> View {
        let mut addresses = members.iter().map(|text| Address::new(text));
        let own = addresses.next().unwrap();
        let peers = addresses.map(|address| Peer::new(address, MemberState::Up)).collect();
        View::new(own, Standing::Serving, peers, Mapping::Modulo)
    }

    #[tokio::test(start_paused = true)]
    async fn names_keep_their_last_addresses_while_they_cannot_be_resolved() {
        let (keeper, view) = (Doorkeeper::default(), view(&["10.0.0.1:1", "a:1", "b:1", "c:1"]));
        let known = || [1, 2, 3, 4].map(|last| keeper.knows(&view, IpAddr::from([10, 1, 0, last])));
        assert_eq!(known(), [false; 4]);
        keeper
            .look(&view, async |name| match name {
                "a" => Ok(vec![[10, 1, 0, 1].into(), [10, 1, 0, 2].into()]),
                "b" => Ok(vec![[10, 1, 0, 3].into()]),
                "c" => std::future::pending().await,
                name => panic!("{name} is looked up"),
            })
            .await;
        assert_eq!(known(), [true, true, true, false]);
        keeper
            .look(&view, async |name| match name {
                "a" => Ok(vec![[10, 1, 0, 4].into()]),
                "b" => Ok(vec![]),
                _ => Err(io::ErrorKind::NotFound.into()),
            })
            .await;
        assert_eq!(known(), [false, false, true, true]);
    }

    #[tokio::test]
    async fn a_new_list_is_looked_at_when_it_comes() {
        let (changed, changes) = watch::channel(0);
        let shown = Arc::new(ArcSwap::from_pointee(view(&["10.0.0.1:1"])));
        let (keeper, stopped) = (Doorkeeper::default(), CancellationToken::new());
        let reading = Arc::clone(&shown);
        let following =
            tokio::spawn(keeper.clone().follow(move || reading.load_full(), changes, stopped.clone()));
        let named = view(&["10.0.0.1:1", "localhost:1"]);
        assert!(!keeper.knows(&named, [127, 0, 0, 1].into()));
        shown.store(Arc::new(named.clone()));
        changed.send(1).unwrap();
        let known = async {
            while !keeper.knows(&named, [127, 0, 0, 1].into()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), known).await.expect("the new list is looked at");
        stopped.cancel();
        following.await.unwrap();
    }
}
