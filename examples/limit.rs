//! The limit of a machine: hyper with nothing behind it.
//!
//! Answers a path that contains `list` with so many fixed bytes, any other with 75. What a server reaches of this server's
//! rate, in the same run on the same machine, is how much of the work is its own.
//!
//! `limit ADDRESS:PORT BYTES`

use std::{convert::Infallible, io};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;

/// About the size of an answer to a beat.
const SMALL: [u8; 75] = [b'x'; 75];

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "limit ADDRESS:PORT BYTES");
    let address = arguments.next().ok_or_else(usage)?;
    let size = arguments.next().and_then(|size| size.parse().ok()).ok_or_else(usage)?;
    let large = Bytes::from(vec![b'x'; size]);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("ready http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let large = large.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let is_list = request.uri().path().contains("list");
                let body = if is_list { large.clone() } else { Bytes::from_static(&SMALL) };
                let response =
                    Response::builder().header("content-type", "application/json").body(Full::new(body));
                async move { Ok::<_, Infallible>(response.expect("a plain header is valid")) }
            });
            // A client that goes away is no news here.
            let _ = http1::Builder::new()
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}
