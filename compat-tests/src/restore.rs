//! Leaves the status of a server as it was found.
//!
//! Scenarios of the operator's entries set `overriddenServerStatus`, and a server that took them out of service refuses
//! the request that would put them back, but from a peer.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{golden::HttpRequest, target::Target};

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

fn as_peer(method: &str, target: &str) -> HttpRequest {
    HttpRequest {
        method: method.into(),
        target: target.into(),
        headers: vec![("User-Agent".into(), Some(PEER.into()))],
        body: None,
        form: None,
        timeout: Duration::from_secs(10),
    }
}
