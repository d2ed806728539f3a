//! Pushes over time and under load: how soon, how many, how large.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Bench;
use super::case::Written;
use crate::facts::{Client, Level, Need};
use crate::golden::Ack;
use crate::json::{Json, parse};
use crate::target::{Datagram, Port, escaped};

/// The clients that take pushes.
const PUSHED: [Client; 6] =
    [Client::Java14, Client::Java11, Client::Go, Client::Node, Client::SpringCloud, Client::Dubbo];

/// An agent that is pushed.
const AGENT: [(&str, &str); 1] = [("User-Agent", "Nacos-Java-Client:v1.4.8")];

/// As many instances as Go's buffer of 4,024 bytes only holds compressed.
const MANY: usize = 40;

const PUSH: Written = Written {
    id: "push-timing/soon",
    says: "A change of a quiet service is pushed within two seconds.",
    source: "Nacos 1.4.8 naming module, push service; all but a few pushes were seen at 1.00 to 1.15 s",
    family: "push",
    level: Level::Core,
    needs: &[Need::SameMachine],
    clients: &PUSHED,
    weight: 2,
    seconds: 2,
    run: soon,
};

pub const CASES: [Written; 5] = [
    PUSH,
    Written {
        id: "push-timing/burst",
        says: "A burst of changes comes as at most one push a second, and the last one has all of it.",
        source: "Nacos 1.4.8 naming module, push service: changes within a second are merged",
        run: burst,
        seconds: 8,
        ..PUSH
    },
    Written {
        id: "push-timing/large",
        says: "A push of forty instances comes compressed and whole.",
        source: "Nacos 1.4.8 naming module, push service: compressed from 1 KiB on",
        clients: &[Client::Go],
        weight: 3,
        run: large,
        seconds: 2,
        ..PUSH
    },
    Written {
        id: "push-timing/acknowledged",
        says: "A push that was acknowledged isn't sent again.",
        source: "Nacos 1.4.8 naming module, push service: sent again 10 s later unless acknowledged",
        weight: 1,
        clients: &[],
        run: acknowledged,
        seconds: 14,
        ..PUSH
    },
    Written {
        id: "push-timing/in-flight",
        says: "A push that isn't acknowledged is shown to operators as it was sent.",
        source: "Nacos 1.4.8 naming module, operator controller: pushes that wait for an acknowledgement",
        family: "operator",
        weight: 1,
        clients: &[],
        run: in_flight,
        seconds: 2,
        ..PUSH
    },
];

/// Subscribes to the service of this case's name.
fn subscribe(bench: &mut Bench<'_>) -> Result<Port> {
    let port = Port::open()?.of_case(bench.run, "");
    let number = port.number()?;
    let path = format!("instance/list?serviceName={}&udpPort={number}&clientIP=127.0.0.1", bench.run);
    let answer = bench.ask_of(&bench.target.clone(), "GET", &path, &AGENT)?;
    bench.same("status", &200, &answer.status);
    Ok(port)
}

/// The next push that comes in time; it is acknowledged.
fn next(bench: &Bench<'_>, port: &mut Port, within: Duration) -> Result<Option<Datagram>> {
    port.receive(within, Ack::Text, false, bench.target.stop())
}

/// The hosts in a push.
fn pushed(datagram: &Datagram) -> Vec<Json> {
    match parse(&datagram.body).ok().as_ref().and_then(|push| push.get("data")) {
        Some(Json::Text(data)) => Bench::hosts(data),
        _ => Vec::new(),
    }
}

fn soon(bench: &mut Bench<'_>) -> Result<()> {
    let mut port = subscribe(bench)?;
    bench.register("10.0.0.1", "")?;
    let registered = Instant::now();
    let push = next(bench, &mut port, Duration::from_secs(5))?;
    let took = registered.elapsed().as_millis();
    let came = push.map_or_else(|| "nothing within 5 s".to_owned(), |_| format!("after {took} ms"));
    bench.holds(took <= 2_300, "time", "a push within 2 s", &came);
    Ok(())
}

fn burst(bench: &mut Bench<'_>) -> Result<()> {
    let mut port = subscribe(bench)?;
    let begin = Instant::now();
    for at in 1..=MANY {
        bench.register(&format!("10.0.0.{at}"), "")?;
    }
    // They wait in the socket's queue, the first ones from the time of the burst itself.
    let (mut pushes, mut last) = (0_u64, 0);
    let more = |last: usize| if last == MANY { Duration::from_millis(2_500) } else { Duration::from_secs(8) };
    while let Some(push) = next(bench, &mut port, more(last))? {
        pushes += 1;
        last = pushed(&push).len();
        if last == MANY && begin.elapsed() > Duration::from_secs(60) {
            break;
        }
    }
    let most = begin.elapsed().as_secs() + 2;
    bench.step(&format!("the pushes of {MANY} registrations"));
    bench.holds(pushes <= most, "pushes", &format!("at most {most}"), &pushes);
    bench.same("hosts of the last push", &MANY, &last);
    Ok(())
}

fn large(bench: &mut Bench<'_>) -> Result<()> {
    for at in 1..=MANY {
        bench.register(&format!("10.0.0.{at}"), "")?;
    }
    let mut port = subscribe(bench)?;
    bench.register("10.0.1.1", "")?;
    let mut push = next(bench, &mut port, Duration::from_secs(5))?;
    bench.holds(push.is_some(), "datagram", "a push within 5 s", &"nothing");
    // One of those before may have come late, to this subscriber, too.
    if push.as_ref().is_some_and(|push| push.gzip && pushed(push).len() == MANY) {
        push = next(bench, &mut port, Duration::from_secs(5))?.or(push);
    }
    if let Some(push) = push {
        bench.same("compressed", &true, &push.gzip);
        bench.same("hosts", &(MANY + 1), &pushed(&push).len());
    }
    Ok(())
}

fn acknowledged(bench: &mut Bench<'_>) -> Result<()> {
    let mut port = subscribe(bench)?;
    // Neither a check of its health nor its silence is to change it in the meantime.
    let long = r#"{"preserved.heart.beat.timeout":"600000","preserved.ip.delete.timeout":"600000"}"#;
    bench.register("10.0.0.1", &format!("&metadata={}", escaped(long)))?;
    let push = next(bench, &mut port, Duration::from_secs(5))?;
    bench.holds(push.is_some(), "datagram", "a push within 5 s", &"nothing");
    let again = next(bench, &mut port, Duration::from_secs(12))?;
    let came = again.map_or_else(|| "nothing".to_owned(), |push| push.body);
    bench.step("the 12 s after the acknowledgement");
    bench.same("datagram", &"nothing", &came);
    Ok(())
}

fn in_flight(bench: &mut Bench<'_>) -> Result<()> {
    let mut port = subscribe(bench)?;
    bench.register("10.0.0.1", &format!("&metadata={}", escaped(r#"{"k":"v"}"#)))?;
    let push = port.receive(Duration::from_secs(5), Ack::No, false, bench.target.stop())?;
    bench.holds(push.is_some(), "datagram", "a push within 5 s", &"nothing");
    let Some(push) = push.and_then(|push| parse(&push.body).ok()) else { return Ok(()) };
    let answer = bench.ask("GET", "operator/push/state?detail=true")?;
    let shown = parse(&answer.body).ok().and_then(|state| state.get("data").cloned());
    let texts = match &shown {
        Some(Json::List(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let pushes = texts.iter().map(|text| match text {
        Json::Text(text) => parse(text).ok(),
        _ => None,
    });
    let about_this = |text: &Json| text.written().contains(bench.run);
    let shown: Vec<String> = texts.iter().filter(|text| about_this(text)).map(Json::written).collect();
    let same = pushes.flatten().any(|shown| shown == push);
    bench.holds(same, "data", &format!("a text with {}", push.written()), &shown.join(" "));
    Ok(())
}
