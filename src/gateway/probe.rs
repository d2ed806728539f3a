//! Asks the legacy servers whether they are well, and closes kept connections that are too old.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::Empty;
use nacre_middleware::pass::{Plan, Sending, pass};
use nacre_middleware::pool::{Bounds, Origin, Upstream};
use tokio_util::sync::CancellationToken;

use super::{health::Sign, sight::Server};
use crate::base::dial::Dial;

/// From one round to the next: so long does a server that has come back wait for its first request.
const EVERY: Duration = Duration::from_millis(500);
/// One that is well is asked in each of so many rounds.
const WELL_EVERY: u64 = 4;
/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Below the context path: known to 1.x from 1.2 on. What doesn't know it says 404, which is an answer.
const PATH: &str = "/v1/console/health/readiness";

/// What a round looks at.
pub trait Probed: Send + Sync {
    /// All servers.
    fn servers(&self) -> &[Server];
    /// Closes connections that are too old.
    fn sweep(&self);
}

/// Goes round until `stopped`.
pub async fn run(probed: impl Probed, context_path: String, dial: Dial, stopped: CancellationToken) {
    let bounds = Bounds { max_idle: 1, keep: super::times::KEEP, ..Bounds::default() };
    let ways: Vec<Way> = probed
        .servers()
        .iter()
        .map(|server| Upstream::new(Origin::plain(&server.name), dial, bounds))
        .collect();
    let mut rounds = tokio::time::interval(EVERY);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let target = format!("{context_path}{PATH}");
    let going = async {
        for round in 0_u64.. {
            rounds.tick().await;
            probed.sweep();
            let servers = probed.servers().iter().zip(&ways);
            let due =
                servers.filter(|(server, _)| round.is_multiple_of(WELL_EVERY) || !server.health.is_up());
            let asking = due.map(|(server, way)| async { server.saw(ask(way, &server.name, &target).await) });
            futures_util::future::join_all(asking).await;
            ways.iter().for_each(Upstream::sweep);
        }
    };
    stopped.run_until_cancelled(going).await;
}

type Way = Upstream<Dial, Sending<Empty<Bytes>>>;

async fn ask(way: &Way, name: &str, target: &str) -> Sign {
    let mut request = Request::new(Empty::new());
    let (Ok(uri), Ok(host)) = (target.parse(), HeaderValue::from_str(name)) else { return Sign::Fails };
    *request.uri_mut() = uri;
    request.headers_mut().insert(header::HOST, host);
    let plan = Plan {
        connect: PATIENCE,
        wait: PATIENCE,
        response: PATIENCE,
        idle: PATIENCE,
        max_idle: super::times::KEEP,
    };
    let mut outcome = pass(way, request, plan).await;
    if let Err(failure) = outcome {
        // A kept connection may have been closed in the same moment.
        let kind = failure.fault.kind();
        outcome = match failure.again() {
            Ok(request) if kind == "closed" => pass(way, request, plan.afresh()).await,
            Ok(_) | Err(_) if kind == "refused" => return Sign::Refuses,
            Ok(_) | Err(_) => return Sign::Fails,
        };
    }
    match outcome {
        // Its body isn't read: the connection ends, unless all of it was there.
        Ok(mut answer) => {
            let _ = answer.body_mut().take_whole();
            sign_of(answer.status())
        }
        Err(failure) if failure.fault.kind() == "refused" => Sign::Refuses,
        Err(_) => Sign::Fails,
    }
}

/// A server that says that it can't serve isn't well; one that doesn't know the path, or asks who calls, is.
fn sign_of(status: StatusCode) -> Sign {
    if status.is_server_error() { Sign::Fails } else { Sign::Answers }
}
