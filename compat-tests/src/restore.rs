//! Leaves the switches and the status of a server as they were found.
//!
//! Scenarios of the operator's entries set `overriddenServerStatus`, and a server that took them out of service refuses
//! the request that would put them back, but from a peer.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use regex::Regex;

use crate::golden::HttpRequest;
use crate::target::{Target, escaped};

/// Within this time a write has to be visible.
const VISIBLE: Duration = Duration::from_secs(5);

/// What a peer calls itself; a server that is down still listens to it.
const PEER: &str = "Nacos-Server:v1.4.8";

/// Whether the server says that it is up.
///
/// # Errors
/// It can't be asked.
pub fn is_up(target: &Target) -> Result<bool> {
    let answer = target.send(&as_peer("GET", "/nacos/v1/ns/operator/metrics"))?;
    Ok(answer.status != 200 || answer.body.contains("\"status\":\"UP\""))
}

/// Takes the override of the status away if the server isn't up; tells whether that was needed.
///
/// # Errors
/// It can't be asked, or stays as it is.
pub fn put_status_back(target: &Target) -> Result<bool> {
    if is_up(target)? {
        return Ok(false);
    }
    let path = "/nacos/v1/ns/operator/switches?entry=overriddenServerStatus&value=null";
    let answer = target.send(&as_peer("PUT", path))?;
    ensure!(
        answer.status == 200,
        "the server is left down: putting its status back was answered {}",
        answer.status
    );
    Ok(true)
}

/// The table of switches, to be put back later.
///
/// # Errors
/// It can't be read.
pub fn switches(target: &Target) -> Result<String> {
    let answer = target.send(&as_peer("GET", "/nacos/v1/ns/operator/switches"))?;
    ensure!(answer.status == 200, "the table of switches can't be read: status {}", answer.status);
    Ok(answer.body)
}

/// Puts the status and the table back where they are no longer `before`.
///
/// # Errors
/// The server can't be asked, or stays as it is.
pub fn put_back(target: &Target, before: &str) -> Result<()> {
    put_status_back(target)?;
    let as_before = || Ok::<_, anyhow::Error>(unset_alike(&switches(target)?) == unset_alike(before));
    if as_before()? {
        return Ok(());
    }
    let path = format!("/nacos/v1/ns/operator/switches?entry=batch&value={}", escaped(before));
    let answer = target.send(&as_peer("PUT", &path))?;
    ensure!(answer.status == 200, "putting the switches back was answered {}", answer.status);
    let end = Instant::now() + VISIBLE;
    while !as_before()? {
        ensure!(Instant::now() < end, "the switches were put back, but aren't as before");
        target.stop().wait(Duration::from_millis(200))?; // a 1.x server answers before it is done
    }
    Ok(())
}

/// A table in which a status that isn't set is spelled in one way: after it was taken back it is an empty text in place of `null`.
pub fn unset_alike(table: &str) -> String {
    let unset = Regex::new(r#""overriddenServerStatus":(null|"")"#).expect("a literal pattern");
    unset.replace(table, r#""overriddenServerStatus":null"#).into_owned()
}

fn as_peer(method: &str, target: &str) -> HttpRequest {
    let agent = ("User-Agent".to_owned(), Some(PEER.to_owned()));
    HttpRequest { headers: vec![agent], ..HttpRequest::new(method, target, Duration::from_secs(10)) }
}
