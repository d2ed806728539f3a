//! How many connections there may be within the system's limit of open files.

/// Files that are open besides connections: the store, sockets of our own, the runtime's.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to the hard one; gives how many connections there may be within it.
pub fn raise(max_connections: usize) -> usize {
    let limit = match rlimit::increase_nofile_limit(rlimit::INFINITY) {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files (ulimit -n) can't be raised");
            return max_connections;
        }
    };
    let room = usize::try_from(limit.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    if room < max_connections {
        tracing::info!(limit, "the limit of open files (ulimit -n) leaves room for {room} connections");
    }
    room.min(max_connections)
}
