//! How long a server may take for a request.
//!
//! Pure. A long poll is answered when something changes, or after as long as the client says; who passes it on must wait
//! for longer than that. Source: Nacos 1.4.8 config module, long polling; its clients ask for 30 s.

use std::time::Duration;

use http::{HeaderMap, Method};
use nacre_middleware::pass::Plan;

use crate::config::LegacySettings;

/// How many milliseconds the client polls.
const POLLS_FOR: &str = "long-pulling-timeout";
/// The most that it is given for that.
const LONGEST_POLL: Duration = Duration::from_secs(120);
/// How long a connection to a legacy server is kept unused: it closes them after 60 s.
pub const KEEP: Duration = Duration::from_secs(20);

/// Whether the client polls: it waits for as long as nothing changes.
pub fn polls(headers: &HeaderMap) -> bool {
    headers.contains_key(POLLS_FOR)
}

/// The times of a request with this head.
pub fn plan(settings: &LegacySettings, method: &Method, headers: &HeaderMap) -> Plan {
    let LegacySettings { connect_timeout, timeout, .. } = *settings;
    let polls_for = headers.get(POLLS_FOR).and_then(|millis| millis.to_str().ok()?.trim().parse().ok());
    let polls_for = polls_for.map_or(Duration::ZERO, Duration::from_millis).min(LONGEST_POLL);
    Plan {
        connect: connect_timeout,
        wait: connect_timeout,
        response: timeout + polls_for,
        idle: timeout,
        max_idle: KEEP,
    }
    .of(method)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use nacre_middleware::pass::MAX_IDLE_ONCE;

    use super::*;

    fn response_secs(polls_for: Option<&'static str>) -> u64 {
        let mut headers = HeaderMap::new();
        if let Some(polls_for) = polls_for {
            headers.insert("Long-Pulling-Timeout", HeaderValue::from_static(polls_for));
        }
        plan(&LegacySettings::default(), &Method::POST, &headers).response.as_secs()
    }

    #[test]
    fn who_polls_is_given_as_much_more_within_bounds() {
        assert_eq!(response_secs(None), 30);
        assert_eq!(response_secs(Some("30000")), 60);
        assert_eq!(response_secs(Some("9999999999")), 150);
        assert_eq!(response_secs(Some("-1")), 30);
        assert_eq!(response_secs(Some("soon")), 30);
    }

    #[test]
    fn a_post_takes_no_connection_that_has_been_idle() {
        let plan = |method| plan(&LegacySettings::default(), &method, &HeaderMap::new()).max_idle;
        assert_eq!((plan(Method::GET), plan(Method::POST)), (KEEP, MAX_IDLE_ONCE));
    }
}
