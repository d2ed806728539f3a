//! Do the members of a cluster name the same members as healthy? Until they do, each owns other services than the rest
//! think, so that writes are refused: members that have just started are waited for.
//!
//! Source: Nacos 1.4.8 naming module, its list of servers and its distro mapper.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::golden::HttpRequest;
use crate::json::{Json, parse};
use crate::target::Target;

/// A member that has started is UP for all others within this: 1.4.8 reports to one other member every 2 s.
pub const AGREES: Duration = Duration::from_secs(30);

/// Names the healthy members, of a server that tells.
pub const QUESTION: &str = "operator/servers?healthy=true";

/// The addresses of the members that are UP in an answer to [`QUESTION`], sorted; none, if it is no such answer.
pub fn up_members(answer: &str) -> Vec<String> {
    let answer = parse(answer).ok();
    let Some(Json::List(servers)) = answer.as_ref().and_then(|answer| answer.get("servers")) else {
        return Vec::new();
    };
    let address = |server: &Json| match (server.get("address"), server.get("state")) {
        (Some(Json::Text(address)), Some(Json::Text(state))) if state == "UP" => Some(address.clone()),
        _ => None,
    };
    let mut sorted: Vec<String> = servers.iter().filter_map(address).collect();
    sorted.sort();
    sorted
}

/// Those whom this server names.
///
/// # Errors
/// If it doesn't answer, or the run is over.
pub fn named_by(server: &Target) -> Result<Vec<String>> {
    let question = format!("/nacos/v1/ns/{QUESTION}");
    let answer = server.send(&HttpRequest::new("GET", &question, Duration::from_secs(10)))?;
    Ok(up_members(&answer.body))
}

/// Waits until all these servers name the same members, at most for `patience`; what each of them names, if they don't.
///
/// # Errors
/// If one doesn't answer, or the run is over.
pub fn disagreement(servers: &[Target], patience: Duration) -> Result<Option<String>> {
    let end = Instant::now() + patience;
    loop {
        let named = servers.iter().map(named_by).collect::<Result<Vec<_>>>()?;
        if named.windows(2).all(|two| two[0] == two[1]) {
            return Ok(None);
        }
        if Instant::now() > end {
            let each = servers.iter().zip(&named);
            let each = each.map(|(server, named)| format!("{} names {named:?}", server.authority()));
            return Ok(Some(each.collect::<Vec<_>>().join(", ")));
        }
        if let Some(server) = servers.first() {
            server.stop().wait(Duration::from_millis(500))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// Names these as UP, and one that isn't; the last of them only from the given question on.
    fn server(members: &'static [&'static str], last_from: usize) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 8192]);
                let shown = if at < last_from { &members[..members.len() - 1] } else { members };
                let up = shown.iter().map(|address| format!(r#"{{"address":"{address}","state":"UP"}},"#));
                let body = format!(
                    r#"{{"servers":[{}{{"address":"x:1","state":"DOWN"}}]}}"#,
                    up.collect::<String>()
                );
                let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            }
        });
        Target::parse(&url).unwrap()
    }

    #[test]
    fn members_are_waited_for_until_they_name_the_same_whatever_the_order() {
        let servers = [server(&["b:1", "a:1"], 0), server(&["a:1", "b:1"], 2)];
        assert_eq!(disagreement(&servers, AGREES).unwrap(), None);
        assert_eq!(named_by(&servers[1]).unwrap(), ["a:1", "b:1"]);
    }

    #[test]
    fn what_each_names_is_said_of_members_that_go_on_to_disagree() {
        let servers = [server(&["a:1", "b:1"], 0), server(&["a:1", "c:1"], usize::MAX)];
        let said = disagreement(&servers, Duration::ZERO).unwrap().unwrap();
        assert!(said.contains(r#"names ["a:1", "b:1"], "#) && said.ends_with(r#"names ["a:1"]"#), "{said}");
    }

    #[test]
    fn servers_that_do_not_tell_are_not_waited_for() {
        assert_eq!(up_members("404 page not found"), Vec::<String>::new());
        assert_eq!(up_members(r#"{"servers":"none"}"#), Vec::<String>::new());
    }
}
