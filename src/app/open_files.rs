//! How many connections there may be within the system's limit of open files.

/// Files that are open besides connections: the store, sockets of our own, the runtime's.
const OTHER_FILES: u64 = 64;
/// Connections without which a server that is alone serves hardly anybody: a few clients that keep theirs.
const LEAST: usize = 16;
/// Those of a node with members: they keep some, and clients wait for what they leave.
const LEAST_AMONG_MEMBERS: usize = 64;
/// With room for fewer connections a person must look: each client holds one or two.
const FEW: usize = 1_000;
/// What raises the limit.
const CURE: &str = "raise it: ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";

/// The limit leaves no room to serve.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of open files (ulimit -n) is {limit}, and at least {least} are needed: {OTHER_FILES} for the server itself, \
     {connections} for connections; {CURE}"
)]
pub struct TooFewFiles {
    limit: u64,
    least: u64,
    connections: u64,
}

/// Raises the soft limit of open files to the hard one; gives how many connections of clients there may be within it, at
/// most `max_connections`, and warns where those are few.
///
/// - `passed_on`: requests under way to legacy servers, each of which has a connection there; up to half of the room is theirs.
///
/// # Errors
/// There is room for fewer than 16 connections, or 64 where the node has members, though more are allowed.
pub fn raise(max_connections: usize, has_members: bool, passed_on: usize) -> Result<usize, TooFewFiles> {
    let raised = rlimit::increase_nofile_limit(rlimit::INFINITY).or_else(|error| {
        tracing::warn!(%error, "the limit of open files (ulimit -n) can't be raised");
        rlimit::getrlimit(rlimit::Resource::NOFILE).map(|(soft, _)| soft)
    });
    let Ok(limit) = raised else { return Ok(max_connections) };
    let least = if has_members { LEAST_AMONG_MEMBERS } else { LEAST };
    let room = for_clients(room(limit, least.min(max_connections))?, passed_on);
    if room < max_connections.min(FEW) {
        tracing::warn!(
            limit,
            setting = "nacre.http.max-connections",
            max_connections,
            "the limit of open files leaves room for {room} connections, members' included; others wait until one ends; {CURE}"
        );
    } else if room < max_connections {
        tracing::debug!(limit, max_connections, "the limit of open files leaves room for {room} connections");
    }
    Ok(room.min(max_connections))
}

/// What is left for clients where requests are passed on.
fn for_clients(room: usize, passed_on: usize) -> usize {
    room - passed_on.min(room / 2)
}

/// How many connections there may be within a limit of open files, `least` or more.
fn room(limit: u64, least: usize) -> Result<usize, TooFewFiles> {
    let room = usize::try_from(limit.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    if room >= least {
        return Ok(room);
    }
    let connections = least as u64;
    Err(TooFewFiles { limit, least: OTHER_FILES + connections, connections })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_needs_for_itself_is_kept_free() {
        for (limit, connections) in [(65, 1), (66, 2), (80, 16), (1_024, 960), (u64::MAX, usize::MAX - 64)] {
            assert_eq!(room(limit, connections.min(LEAST)), Ok(connections), "{limit}");
        }
    }

    #[test]
    fn who_passes_requests_on_has_room_for_both_sides() {
        for (room, passed_on, clients) in
            [(960, 0, 960), (960, 100, 860), (960, 8_192, 480), (100_000, 8_192, 91_808)]
        {
            assert_eq!(for_clients(room, passed_on), clients);
        }
    }

    #[test]
    fn with_too_few_files_it_does_not_start() {
        for (limit, least) in
            [(0, 1), (64, 1), (79, LEAST), (64, LEAST_AMONG_MEMBERS), (127, LEAST_AMONG_MEMBERS)]
        {
            assert!(room(limit, least).is_err(), "{limit}");
            assert!(room(OTHER_FILES + least as u64, least).is_ok());
        }
        let text = room(64, LEAST_AMONG_MEMBERS).unwrap_err().to_string();
        assert_eq!(
            text,
            "the limit of open files (ulimit -n) is 64, and at least 128 are needed: 64 for the server itself, 64 for \
             connections; raise it: ulimit -n, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container"
        );
    }
}
