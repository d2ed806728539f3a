//! What was answered `ok` survives a kill -9.
//!
//! Sixteen writers change persistent data as fast as they can; the server is killed in the middle, started again on
//! what it left, and asked for everything. A write that was answered must be there; the one write of each writer that
//! was under way may be there or not. `KILL_ROUNDS` sets how often (3 by default).

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::{io, sync::mpsc, thread};

use support::{
    http::call,
    server::{Home, Server},
};

const WRITERS: usize = 16;
const KEYS: usize = 8;
/// Writes of a round before the kill: enough that all writers are in the middle of something.
const BEFORE_KILL: usize = 400;

/// What a writer knows of one key: the value that was acknowledged, and what was being written when the server died.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    certain: Option<String>,
    under_way: Option<Option<String>>,
}

impl Known {
    fn agrees(&self, found: &Option<String>) -> bool {
        *found == self.certain || self.under_way.as_ref() == Some(found)
    }
}

/// One key of a writer: an instance with a weight, a service with a threshold, or a namespace with a name.
struct Key {
    writer: usize,
    index: usize,
}

impl Key {
    /// Every writer has all three kinds of keys.
    fn kind(&self) -> usize {
        self.index % 3
    }

    /// A value with as many digits as its kind has: a double for weights, else a float between 0 and 1.
    fn value(&self, seed: usize) -> String {
        // SplitMix64.
        let mut bits = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        match self.kind() {
            0 => format!("{:?}", 0.01 + (bits >> 11) as f64 / (1_u64 << 53) as f64 * 9_999.0),
            _ => format!("{:?}", 0.01 + (bits >> 40) as f32 / (1_u32 << 24) as f32 * 0.9),
        }
    }

    /// The request that gives it this value, or takes it away.
    fn request(&self, known: &Option<String>, value: &Option<String>) -> (&'static str, String) {
        let Self { writer, index } = self;
        match (self.kind(), value) {
            (0, Some(weight)) => (
                "POST",
                format!(
                    "/v1/ns/instance?serviceName=w{writer}&ip=10.0.0.{index}&port=80&ephemeral=false&weight={weight}"
                ),
            ),
            (0, None) => (
                "DELETE",
                format!("/v1/ns/instance?serviceName=w{writer}&ip=10.0.0.{index}&port=80&ephemeral=false"),
            ),
            (1, Some(threshold)) => {
                let method = if known.is_some() { "PUT" } else { "POST" };
                (method, format!("/v1/ns/service?serviceName=s{writer}-{index}&protectThreshold={threshold}"))
            }
            (1, None) => ("DELETE", format!("/v1/ns/service?serviceName=s{writer}-{index}")),
            (_, Some(name)) => match known {
                Some(_) => (
                    "PUT",
                    format!(
                        "/v1/console/namespaces?namespace=n{writer}-{index}&namespaceShowName=n{name}&namespaceDesc=d"
                    ),
                ),
                None => (
                    "POST",
                    format!(
                        "/v1/console/namespaces?customNamespaceId=n{writer}-{index}&namespaceName=n{name}&namespaceDesc=d"
                    ),
                ),
            },
            (_, None) => ("DELETE", format!("/v1/console/namespaces?namespaceId=n{writer}-{index}")),
        }
    }

    /// Its value on a server.
    fn find(&self, url: &str, namespaces: &str) -> Option<String> {
        let Self { writer, index } = self;
        let after = |text: &str, mark: &str| {
            let rest = text.split(mark).nth(1)?;
            Some(rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect())
        };
        match self.kind() {
            0 => {
                let (_, body) = call(
                    url,
                    "GET",
                    &format!("/v1/ns/instance?serviceName=w{writer}&ip=10.0.0.{index}&port=80"),
                )
                .unwrap();
                after(&body, "\"weight\":")
            }
            1 => {
                let (_, body) =
                    call(url, "GET", &format!("/v1/ns/service?serviceName=s{writer}-{index}")).unwrap();
                after(&body, "\"protectThreshold\":")
            }
            _ => after(namespaces, &format!("\"namespace\":\"n{writer}-{index}\",\"namespaceShowName\":\"n")),
        }
    }
}

/// Writes to all keys of one writer, in turn, until the server is gone.
fn write(url: &str, writer: usize, known: &mut [Known], step: &mut usize, done: &mpsc::Sender<()>) {
    loop {
        *step += 1;
        let index = *step % KEYS;
        let key = Key { writer, index };
        let gone = step.is_multiple_of(5) && known[index].certain.is_some();
        let value = (!gone).then(|| key.value(writer * 1_000_003 + *step));
        let (method, path) = key.request(&known[index].certain, &value);
        match call(url, method, &path) {
            Ok((200, body)) if body == "ok" || body == "true" => {
                known[index] = Known { certain: value, under_way: None }
            }
            Ok((status, body)) => panic!("{method} {path}: {status} {body}"),
            Err(error) => {
                assert_ne!(error.kind(), io::ErrorKind::TimedOut, "{method} {path} hangs");
                known[index].under_way = Some(value);
                return;
            }
        }
        done.send(()).unwrap();
    }
}

/// Asks a server for everything and takes what it says as the truth.
fn check(url: &str, round: usize, known: &mut [Vec<Known>]) {
    let (_, namespaces) = call(url, "GET", "/v1/console/namespaces").unwrap();
    for (writer, keys) in known.iter_mut().enumerate() {
        for (index, known) in keys.iter_mut().enumerate() {
            let found = Key { writer, index }.find(url, &namespaces);
            assert!(
                known.agrees(&found),
                "round {round}, writer {writer}, key {index}: found {found:?}, {known:?}"
            );
            *known = Known { certain: found, under_way: None };
        }
    }
}

#[test]
fn what_was_answered_survives_a_kill() {
    let rounds = std::env::var("KILL_ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let mut home = Home::new();
    let mut known = vec![vec![Known::default(); KEYS]; WRITERS];
    let mut steps = [0; WRITERS];
    let mut total = 0;
    for round in 0..rounds {
        let server = Server::start_in(home, &[]);
        let url = server.url().to_owned();
        check(&url, round, &mut known);
        let (done, acknowledged) = mpsc::channel();
        let killed = thread::scope(|scope| {
            for (writer, (known, step)) in known.iter_mut().zip(&mut steps).enumerate() {
                let (url, done) = (&url, done.clone());
                scope.spawn(move || write(url, writer, known, step, &done));
            }
            for () in acknowledged.iter().take(BEFORE_KILL + round * 7) {
                total += 1;
            }
            server.kill()
        });
        total += acknowledged.try_iter().count();
        home = killed;
    }
    let server = Server::start_in(home, &[]);
    check(server.url(), rounds, &mut known);
    println!("{rounds} rounds, {total} acknowledged writes by {WRITERS} writers, all there");
}
