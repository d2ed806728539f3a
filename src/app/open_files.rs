//! How many connections there may be within the system's limit of open files.

/// Files that are open besides connections: the store, sockets of our own, the runtime's.
const OTHER_FILES: u64 = 64;
/// With room for fewer connections a person must look: each client holds one or two.
const FEW: usize = 1_000;
/// What raises the limit.
const CURE: &str = "raise it: ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";

/// Raises the soft limit of open files to the hard one; gives how many connections there may be within it, at most
/// `max_connections`, and tells where those are fewer.
pub fn raise(max_connections: usize) -> usize {
    let raised = rlimit::increase_nofile_limit(rlimit::INFINITY).or_else(|error| {
        tracing::warn!(%error, "the limit of open files (ulimit -n) can't be raised");
        rlimit::getrlimit(rlimit::Resource::NOFILE).map(|(soft, _)| soft)
    });
    let Ok(limit) = raised else { return max_connections };
    let room = room(limit);
    if room < max_connections.min(FEW) {
        tracing::warn!(
            limit,
            setting = "nacre.http.max-connections",
            max_connections,
            "the limit of open files leaves room for {room} connections, members' included; others wait until one ends; {CURE}"
        );
    } else if room < max_connections {
        tracing::info!(
            limit,
            max_connections,
            "the limit of open files leaves room for {room} connections; {CURE}"
        );
    }
    room.min(max_connections)
}

/// One at least: the system says what can't be opened.
fn room(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_needs_for_itself_is_kept_free() {
        for (limit, connections) in
            [(0, 1), (64, 1), (65, 1), (66, 2), (1_024, 960), (u64::MAX, usize::MAX - 64)]
        {
            assert_eq!(room(limit), connections, "{limit}");
        }
    }
}
