//! Writes a line about every answer, to the tracing target `access`.
//!
//! Place in the stack: outermost, beside the recorder, and only where an operator asked for it: at full load a line
//! costs more than most requests. What a request keeps secret isn't shown: passwords and tokens in the query are
//! masked however they are spelled, and neither the header `Authorization` nor a body is looked at.

use std::{
    borrow::Cow,
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use http::{Method, Request, header};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{V1Response, collect::Routed};

/// Parameters whose value is not shown, in lower case.
///
/// The checker of a cluster may hold the password of a database.
const SECRETS: [&str; 8] = [
    "accesstoken",
    "authorization",
    "healthchecker",
    "newpassword",
    "oldpassword",
    "password",
    "secretkey",
    "token",
];
/// Stands for a value that isn't shown.
const MASK: &str = "***";
/// Bytes of a target that are shown.
const LONGEST_TARGET: usize = 2_048;
/// Bytes of an agent that are shown.
const LONGEST_AGENT: usize = 256;

/// Adds [`AccessLog`] to a stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessLogLayer;

impl<S> Layer<S> for AccessLogLayer {
    type Service = AccessLog<S>;

    fn layer(&self, inner: S) -> AccessLog<S> {
        AccessLog { inner }
    }
}

/// Passes everything on and writes a line about the answer.
#[derive(Clone, Debug)]
pub struct AccessLog<S> {
    inner: S,
}

impl<S, F, B> Service<Routed<F, B>> for AccessLog<S>
where
    S: Service<Routed<F, B>, Response = V1Response, Error = Infallible>,
{
    type Response = V1Response;
    type Error = Infallible;
    type Future = AccessLogFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, routed: Routed<F, B>) -> Self::Future {
        let asked = Asked::of(&routed.request, routed.peer);
        AccessLogFuture { inner: self.inner.call(routed), asked }
    }
}

/// What a line says of the request.
#[derive(Debug)]
struct Asked {
    peer: SocketAddr,
    method: Method,
    uri: Box<str>,
    agent: Box<str>,
    started: Instant,
}

impl Asked {
    fn of<B>(request: &Request<B>, peer: SocketAddr) -> Self {
        let target = request.uri().path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
        let agent = request.headers().get(header::USER_AGENT).map_or(&b"-"[..], |agent| agent.as_bytes());
        Self {
            peer,
            method: request.method().clone(),
            uri: cut(masked(target), LONGEST_TARGET),
            agent: cut(String::from_utf8_lossy(agent), LONGEST_AGENT),
            started: Instant::now(),
        }
    }

    fn log(&self, response: &V1Response) {
        let Self { peer, method, uri, agent, started } = self;
        tracing::info!(
            target: "access",
            %peer,
            %method,
            %uri,
            status = response.status().as_u16(),
            // Nothing is known of what streams.
            bytes = http_body::Body::size_hint(response.body()).exact().unwrap_or(response.body().len() as u64),
            took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            agent,
        );
    }
}

pin_project! {
    /// The inner answer, after its line has been written.
    pub struct AccessLogFuture<S> {
        #[pin]
        inner: S,
        asked: Asked,
    }
}

impl<S> Future for AccessLogFuture<S>
where
    S: Future<Output = Result<V1Response, Infallible>>,
{
    type Output = Result<V1Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        if let Ok(response) = &answer {
            this.asked.log(response);
        }
        Poll::Ready(answer)
    }
}

/// The target with the values of [`SECRETS`] masked.
fn masked(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    if !query.split('&').any(|pair| is_secret(name_of(pair))) {
        return Cow::Borrowed(target);
    }
    let pairs = query.split('&').map(|pair| match name_of(pair) {
        name if is_secret(name) => [name, "=", MASK].concat(),
        _ => pair.to_owned(),
    });
    Cow::Owned([path, "?", &pairs.collect::<Vec<_>>().join("&")].concat())
}

fn name_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// Whether the name, its escapes decoded, is one of [`SECRETS`] in any case.
fn is_secret(name: &str) -> bool {
    let decoded: Cow<'_, [u8]> = percent_encoding::percent_decode_str(name).into();
    SECRETS.iter().any(|secret| decoded.trim_ascii().eq_ignore_ascii_case(secret.as_bytes()))
}

fn cut(text: Cow<'_, str>, longest: usize) -> Box<str> {
    if text.len() <= longest {
        return text.into();
    }
    [&text[..text.floor_char_boundary(longest)], "..."].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_however_they_are_spelled() {
        for (target, shown) in [
            ("/a", "/a"),
            ("/a?b=c&serviceName=x%20y", "/a?b=c&serviceName=x%20y"),
            ("/a?accessToken=abc&b=c", "/a?accessToken=***&b=c"),
            ("/a?b=c&PASSWORD=abc", "/a?b=c&PASSWORD=***"),
            ("/a?%70assword=abc&p%61ssword=def", "/a?%70assword=***&p%61ssword=***"),
            ("/a?+password=abc", "/a?+password=abc"),
            ("/a?password=a=b?c&d", "/a?password=***&d"),
            ("/a?password&%zz&%", "/a?password=***&%zz&%"),
            ("/password=abc", "/password=abc"),
        ] {
            assert_eq!(masked(target), shown);
        }
    }

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(&*cut("abc".into(), 3), "abc");
        assert_eq!(&*cut("abcd".into(), 3), "abc...");
        assert_eq!(&*cut("aää".into(), 4), "aä...");
    }

    #[test]
    fn a_request_without_an_agent_shows_a_dash() {
        let request = Request::get("/a?b").body(()).unwrap();
        let asked = Asked::of(&request, SocketAddr::from(([127, 0, 0, 1], 1)));
        assert_eq!((&*asked.uri, &*asked.agent), ("/a?b", "-"));
    }
}
