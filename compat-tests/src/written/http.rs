//! HTTP by raw bytes and by number: slow senders, many short connections, one long one.

use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::Bench;
use super::case::Written;
use crate::facts::{Client, Level};
use crate::golden::{HttpRequest, RawExchange};
use crate::target::RawItem;

const SLOW: Written = Written {
    id: "http-bytes/one-by-one",
    says: "A request whose bytes come one by one is answered.",
    source: "HTTP/1.1, RFC 9112; Nacos 1.4.8 web server",
    family: "HTTP",
    level: Level::Safe,
    needs: &[],
    clients: &[],
    weight: 1,
    seconds: 2,
    run: one_by_one,
};

pub const CASES: [Written; 3] = [
    SLOW,
    Written {
        id: "http-bytes/short-connections",
        says: "A hundred connections that are open at once and used once are all answered.",
        source: "Nacos 1.4.8 web server; old Java, Node and Python clients open one for each request",
        clients: &[Client::Java11, Client::Node, Client::Python],
        weight: 3,
        run: short_connections,
        ..SLOW
    },
    Written {
        id: "http-bytes/long-connection",
        says: "Fifty requests over one connection are all answered, in their order.",
        source: "Nacos 1.4.8 web server; Java, Go and Rust clients keep their connections",
        clients: &[Client::Java14, Client::Go, Client::Rust, Client::SpringCloud, Client::Dubbo],
        weight: 2,
        run: long_connection,
        ..SLOW
    },
];

fn list_of(bench: &Bench<'_>, name: &str) -> String {
    let authority = bench.target.authority();
    format!(
        "GET /nacos/v1/ns/instance/list?serviceName={}{name} HTTP/1.1\r\nHost: {authority}\r\n\r\n",
        bench.run
    )
}

fn raw(pieces: Vec<String>, pause: u64, responses: usize) -> RawExchange {
    RawExchange {
        pieces,
        pause: Duration::from_millis(pause),
        idle: Duration::from_millis(100),
        timeout: Duration::from_secs(30),
        responses,
        head: false,
    }
}

fn one_by_one(bench: &mut Bench<'_>) -> Result<()> {
    let request = list_of(bench, "").replace("/nacos/v1", &format!("{}/v1", bench.target.context()));
    bench.step(&format!("{request:?}, byte by byte"));
    let pieces = request.chars().map(String::from).collect();
    let answer = bench.target.exchange(&raw(pieces, 2, 1))?;
    let fine = matches!(&answer.items[..], [RawItem::Response { status: 200 | 403, .. }]);
    bench.holds(fine, "answer", "one with status 200", &format!("{:?}", answer.items));
    Ok(())
}

fn short_connections(bench: &mut Bench<'_>) -> Result<()> {
    let path = format!("/nacos/v1/ns/instance/list?serviceName={}", bench.run);
    let mut request = HttpRequest::new("GET", &path, Duration::from_secs(30));
    request.headers = vec![("Connection".to_owned(), Some("close".to_owned()))];
    let target = bench.target.clone();
    let answers: Vec<_> = thread::scope(|scope| {
        let asked: Vec<_> = (0..100).map(|_| scope.spawn(|| target.send(&request))).collect();
        asked.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(anyhow!("not asked")))).collect()
    });
    bench.step(&format!("a hundred times at once: GET {path}"));
    let fine =
        answers.iter().filter(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)).count();
    bench.same("answered 200", &100, &fine);
    Ok(())
}

fn long_connection(bench: &mut Bench<'_>) -> Result<()> {
    let requests = (0..50).map(|at| list_of(bench, &format!("-{at}.")));
    let answer = bench.target.exchange(&raw(requests.collect(), 0, 50))?;
    bench.step("fifty lists over one connection");
    let in_order = |(at, item): (usize, &RawItem)| {
        let name = format!("{}-{at}.", bench.run);
        matches!(item, RawItem::Response { status: 200, body, .. } if body.contains(&name))
    };
    let fine = answer.items.iter().enumerate().filter(|pair| in_order(*pair)).count();
    bench.same("answered in order", &50, &fine);
    bench.same("closed by the server", &false, &answer.closed);
    Ok(())
}
