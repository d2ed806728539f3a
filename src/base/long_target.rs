//! Requests whose target is longer than an `http::Uri` can be (64 KiB): 1.x servers read up to 512 KiB of head.
//!
//! hyper writes the request with the path alone; on its way to the socket the first line is replaced.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connector::Observed;

/// Sends `request` with `target` in the place of its path, over a connection of its own.
///
/// # Errors
/// As hyper says.
pub async fn send(
    stream: Observed,
    mut request: Request<Full<Bytes>>,
    target: &str,
) -> hyper::Result<Response<Incoming>> {
    let line = format!("{} {target} HTTP/1.1\r\n", request.method()).into();
    let stream = TokioIo::new(Relined { stream, line, skips: true });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    // Ends with the answer, or when the sender is dropped before.
    tokio::spawn(connection);
    request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    sender.send_request(request).await
}

/// Whether a text can stand as the target in a request's first line.
#[must_use]
pub fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Writes another first line than it is given.
struct Relined {
    stream: Observed,
    /// What is left to write of it.
    line: Bytes,
    /// The given one hasn't been passed over yet.
    skips: bool,
}

impl AsyncWrite for Relined {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        while !this.line.is_empty() {
            let written = ready!(Pin::new(&mut this.stream).poll_write(cx, &this.line))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.line.advance(written);
        }
        if !this.skips {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        }
        let end = memchr::memchr(b'\n', bytes);
        this.skips = end.is_none();
        Poll::Ready(Ok(end.map_or(bytes.len(), |end| end + 1)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Relined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}
