//! The plainest client: one request, one connection.

use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// `host:port` of a URL as [`super::server::Server::url`] gives it.
pub fn authority(url: &str) -> &str {
    url.trim_start_matches("http://").split('/').next().unwrap()
}

/// Sends `METHOD /path?query` (a path below the context path) and reads the answer to its end.
///
/// # Errors
/// What the socket says, also where the server went away before its whole answer was there.
pub fn call(url: &str, method: &str, path: &str) -> io::Result<(u16, String)> {
    let head = format!(
        "{method} /nacos{path} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let answer = exchange(authority(url), head.as_bytes())?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    if head.contains("transfer-encoding: chunked") {
        return Ok((status, unchunk(body).ok_or(io::ErrorKind::UnexpectedEof)?));
    }
    let length =
        head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
    if length.is_some_and(|length: usize| body.len() < length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((status, body.to_owned()))
}

/// Sends bytes and reads until the server closes or nothing has come for ten seconds.
pub fn exchange(authority: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

fn unchunk(mut body: &str) -> Option<String> {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(out);
        }
        out.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}
