//! Whether what a legacy server says to a naming request is an answer at all.
//!
//! Pure. A server whose owner of the service is away answers with the text of a Java exception, one that starts with 503,
//! and what stands between may answer anything. None of these may be taken for what is registered. Source: Nacos 1.4.8
//! naming module, distro filter and traffic filter; wire exchanges of forwarding to a dead and to a hung owner.

use http::{Response, StatusCode};
use memchr::memmem;

/// What kind of answer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A list.
    List,
    /// A list, or nothing in its place.
    Check,
    /// The answer to a beat.
    Beat,
    /// Anything but a page for people.
    Anything,
}

/// Why it is no answer, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// By its status.
    #[error("it does not serve now")]
    Status(StatusCode),
    /// It couldn't pass the request on to the owner.
    #[error("it can't reach the owner of the service")]
    Owner,
    /// It isn't the owner, and the request looks to it as if a server had sent it.
    #[error("it takes the request for one of a server, and another for the owner")]
    Loop,
    /// Good by its status, but not by what it says.
    #[error("it answers something else than a registry does")]
    Strange,
}

/// Judges it.
///
/// # Errors
/// It is none; another server should be asked.
pub fn judge<B: AsRef<[u8]>>(expected: Expected, response: &Response<B>) -> Result<(), NoAnswer> {
    let (status, body) = (response.status(), response.body().as_ref());
    match status.as_u16() {
        502..=504 => Err(NoAnswer::Status(status)),
        500 if is_exception(body) => Err(NoAnswer::Owner),
        400 if memmem::find(body, b"receive invalid redirect request from peer").is_some() => {
            Err(NoAnswer::Loop)
        }
        200 => match expected {
            Expected::List if !says(body, &[br#""hosts""#]) => Err(NoAnswer::Strange),
            Expected::Check if !says(body, &[b"{"]) => Err(NoAnswer::Strange),
            Expected::Beat if !says(body, &[br#""clientBeatInterval""#, br#""code""#]) => {
                Err(NoAnswer::Strange)
            }
            Expected::Anything if body.trim_ascii_start().starts_with(b"<") => Err(NoAnswer::Strange),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether it is an object, whole, that has one of these.
fn says(body: &[u8], one_of: &[&[u8]]) -> bool {
    let body = body.trim_ascii();
    let has = |word: &&[u8]| memmem::find(body, word).is_some();
    body.starts_with(b"{") && body.ends_with(b"}") && one_of.iter().any(has)
}

/// The text of a Java exception, as a server relays it whose call to another has failed: `java.net.SocketException: ...`.
fn is_exception(body: &[u8]) -> bool {
    let name = body.split(|byte| *byte == b':').next().unwrap_or_default();
    (name.starts_with(b"java.net.") || name.starts_with(b"org.apache.http."))
        && name.ends_with(b"Exception")
        && !name.contains(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(expected: Expected, status: u16, body: &str) -> Result<(), NoAnswer> {
        judge(expected, &Response::builder().status(status).body(body.to_owned()).unwrap())
    }

    #[test]
    fn what_a_registry_says_is_an_answer_good_or_bad() {
        use Expected::{Anything, Beat, Check, List};
        for (expected, status, body) in [
            (List, 200, r#"{"name":"G@@a","hosts":[]}"#),
            (List, 400, "caused: Param 'serviceName' is required.;"),
            (List, 403, "<html>unknown user!</html>"),
            (Check, 200, "{}"),
            (Beat, 200, r#"{"clientBeatInterval":5000,"code":20404}"#),
            (Beat, 500, "caused: errCode: 101, errMsg: java.net.X: no;"),
            (Anything, 200, "ok"),
            (Anything, 200, ""),
            (Anything, 501, r#"{"status":501}"#),
            (Anything, 500, r#"{"status":500,"message":"The request was rejected"}"#),
        ] {
            assert_eq!(judged(expected, status, body), Ok(()), "{status} {body}");
        }
    }

    #[test]
    fn what_it_says_where_it_cannot_answer_is_none() {
        for (status, body, why) in [
            (
                500,
                "org.apache.http.conn.HttpHostConnectException: Connect to 127.0.0.1:1 [/127.0.0.1] failed: Connection refused",
                NoAnswer::Owner,
            ),
            (500, "java.net.SocketTimeoutException: Read timed out", NoAnswer::Owner),
            (500, "java.net.SocketException: Connection reset", NoAnswer::Owner),
            (
                400,
                r#"{"status":400,"message":"receive invalid redirect request from peer 127.0.0.1"}"#,
                NoAnswer::Loop,
            ),
            (503, "server is STARTING now", NoAnswer::Status(StatusCode::SERVICE_UNAVAILABLE)),
            (502, "<html>", NoAnswer::Status(StatusCode::BAD_GATEWAY)),
            (504, "", NoAnswer::Status(StatusCode::GATEWAY_TIMEOUT)),
            (200, "<html>welcome</html>", NoAnswer::Strange),
        ] {
            assert_eq!(judged(Expected::Anything, status, body), Err(why), "{status} {body}");
        }
    }

    #[test]
    fn a_list_that_is_none_is_no_answer() {
        for body in ["", "ok", "<html>", r#"{"hosts":["#, r#"{"code":500,"message":"who are you?"}"#] {
            assert_eq!(judged(Expected::List, 200, body), Err(NoAnswer::Strange), "{body}");
        }
        for body in ["", "ok", "<html>", r#"{"hosts":[]}"#] {
            assert_eq!(judged(Expected::Beat, 200, body), Err(NoAnswer::Strange), "{body}");
        }
    }
}
