//! `nacre drain`: tells a running node to leave its members in order and to stop, and waits until its port is shut.

use std::{io, process::ExitCode, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, Uri, uri::Scheme};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::base::{
    client::{CallError, Client, ClientSettings},
    net,
};

/// The entry of the node.
const PATH: &str = "/nacre/drain";
/// Where a node listens that was told nothing else.
const PORT: u16 = 8848;
/// From one look at the port to the next.
const PAUSE: Duration = Duration::from_millis(50);
/// So long a node that takes no more requests may take to shut its port.
const SHUTTING: Duration = Duration::from_secs(1);
/// Bytes of the answer.
const MAX_ANSWER: usize = 64 << 10;

/// Why a node isn't known to have stopped.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// It can't be called.
    #[error("{0:?} is no address of a node; write it as http://HOST:PORT")]
    Url(String),
    /// Nobody has been told.
    #[error("{node}: {why}; does the node run, and on this port?")]
    Unanswered {
        /// `host:port`.
        node: String,
        /// What became of the call.
        why: CallError,
    },
    /// Who answered doesn't do it.
    #[error("{node} answers {status}: {text}")]
    Refused {
        /// `host:port`.
        node: String,
        /// Of the answer.
        status: StatusCode,
        /// Its text.
        text: String,
    },
    /// Somebody else may have told it, and it shut its port just now; or it was killed.
    #[error("{node} stopped before it answered; whether it left in order isn't known")]
    Ended {
        /// `host:port`.
        node: String,
    },
    /// It has been told, and may be stopping still.
    #[error("{node} was told to leave and stop, and still takes connections after {} s", .limit.as_secs())]
    Late {
        /// `host:port`.
        node: String,
        /// How long was waited.
        limit: Duration,
    },
}

impl DrainError {
    /// 1 where the node goes on, 2 for words that name none, 3 where it isn't known to have left: it was told and hasn't stopped
    /// yet, or stopped without an answer.
    fn exit_code(&self) -> u8 {
        match self {
            Self::Late { .. } | Self::Ended { .. } => 3,
            Self::Url(_) => 2,
            Self::Unanswered { .. } | Self::Refused { .. } => 1,
        }
    }
}

/// Drains the node at `url` within `limit`, and tells how that went: by its exit code, and in words.
pub fn run(url: &str, limit: Duration) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ended(io::stderr(), &format!("nacre drain: {error}"), 1),
    };
    match runtime.block_on(drain(url, limit)) {
        Ok(node) => ended(io::stdout(), &format!("{node} has left and takes no connections any more"), 0),
        Err(error) => ended(io::stderr(), &format!("nacre drain: {error}"), error.exit_code()),
    }
}

/// If nobody reads what is written, the exit code still tells.
fn ended(mut out: impl io::Write, text: &str, code: u8) -> ExitCode {
    let _ = writeln!(out, "{text}");
    ExitCode::from(code)
}

/// Ready when the node takes no connections any more; gives its `host:port`.
///
/// # Errors
/// [`DrainError`]; after [`DrainError::Late`] the node has been told.
pub async fn drain(url: &str, limit: Duration) -> Result<String, DrainError> {
    let (node, end) = (node_at(url).ok_or_else(|| DrainError::Url(url.to_owned()))?, Instant::now() + limit);
    let request = Request::put(PATH).body(Bytes::new()).expect("it is constant");
    let answer = Client::new(ClientSettings::default()).send(&node, request, limit, MAX_ANSWER).await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(CallError::Closed) if timeout(SHUTTING.min(limit), shut(&node)).await.is_ok() => {
            return Err(DrainError::Ended { node });
        }
        Err(why) => return Err(DrainError::Unanswered { node, why }),
    };
    if answer.status() != StatusCode::OK {
        let text = String::from_utf8_lossy(answer.body()).trim().to_owned();
        return Err(DrainError::Refused { node, status: answer.status(), text });
    }
    match timeout_at(end, shut(&node)).await {
        Ok(()) => Ok(node),
        Err(_) => Err(DrainError::Late { node, limit }),
    }
}

/// `host:port` of a URL, whose path is of no account.
fn node_at(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let is_plain = uri.scheme().is_none_or(|scheme| *scheme == Scheme::HTTP);
    let authority = uri.authority().filter(|authority| is_plain && !authority.as_str().contains('@'))?;
    let host = authority.host();
    // What stands behind the host is a port or nothing; the parser leaves it as it is.
    let port = match authority.as_str().strip_prefix(host)? {
        "" => PORT,
        rest => rest.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)?,
    };
    (!host.is_empty()).then(|| format!("{host}:{port}"))
}

/// Ready when nobody takes connections there.
async fn shut(node: &str) {
    loop {
        match TcpStream::connect(node).await {
            Err(error) if net::is_unreachable(&error) => return,
            // Where a connection can't even be tried, nothing is known.
            Ok(_) | Err(_) => sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[test]
    fn nodes_are_named_by_url() {
        for (url, node) in [
            ("http://127.0.0.1:8848", Some("127.0.0.1:8848")),
            ("http://127.0.0.1:8849/nacos", Some("127.0.0.1:8849")),
            ("http://[::1]", Some("[::1]:8848")),
            ("localhost:1", Some("localhost:1")),
            ("node", Some("node:8848")),
            ("http://127.0.0.1:884x", None),
            ("http://127.0.0.1:884x/nacos", None),
            ("nonsense:x", None),
            ("http://127.0.0.1:", None),
            ("http://127.0.0.1:0", None),
            ("http://127.0.0.1:65536", None),
            ("http://127.0.0.1:-1", None),
            ("http://[::1]:x", None),
            ("http://:8848", None),
            ("https://127.0.0.1:8848", None),
            ("http://a@127.0.0.1:8848", None),
            ("/nacos", None),
            ("", None),
        ] {
            assert_eq!(node_at(url).as_deref(), node, "{url}");
        }
    }

    /// A node that answers so, and goes on or not; its URL.
    async fn node(answer: &'static str, goes_on: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/nacos", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 1_000];
            let length = stream.read(&mut head).await.unwrap();
            assert!(head[..length].starts_with(b"PUT /nacre/drain HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).await.unwrap();
            if goes_on {
                std::future::pending::<()>().await;
            }
        });
        url
    }

    const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\ndraining";

    #[tokio::test]
    async fn it_ends_when_the_port_is_shut() {
        let url = node(DONE, false).await;
        let drained = drain(&url, Duration::from_secs(30)).await.unwrap();
        assert_eq!(format!("http://{drained}/nacos"), url);
    }

    #[tokio::test]
    async fn whoever_does_not_stop_is_told_of() {
        let error = drain(&node(DONE, true).await, Duration::from_millis(200)).await.unwrap_err();
        assert_eq!((error.exit_code(), matches!(error, DrainError::Late { .. })), (3, true), "{error}");
        let refusal = "HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\n\r\nno!\n";
        let error = drain(&node(refusal, true).await, Duration::from_secs(30)).await.unwrap_err();
        assert!(error.to_string().ends_with(" answers 403 Forbidden: no!"), "{error}");
        assert_eq!(error.exit_code(), 1);
    }

    #[tokio::test]
    async fn who_stops_at_that_moment_may_have_left_and_who_goes_on_has_not() {
        let url = node("", false).await;
        let error = drain(&url, Duration::from_secs(30)).await.unwrap_err();
        assert_eq!((error.exit_code(), matches!(error, DrainError::Ended { .. })), (3, true), "{error}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                drop(listener.accept().await);
            }
        });
        let error = drain(&url, Duration::from_millis(200)).await.unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error}");
    }

    #[tokio::test]
    async fn where_nobody_listens_nobody_was_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = drain(&url, Duration::from_secs(30)).await.unwrap_err();
        assert!(error.to_string().contains("refused or unreachable; does the node run"), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
}
