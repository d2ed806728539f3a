//! This program as a member of the server's cluster: it listens at an address that the server's list has, reports itself
//! alive as a 1.x member does, answers what members ask of each other, and remembers everything that it was asked.
//!
//! Source: Nacos 1.4.8, the exchanges in `wire/`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::agree::named_by;
use crate::golden::HttpRequest;
use crate::json::{Json, parse};
use crate::ledger::decoded;
use crate::target::deadline::Deadline;
use crate::target::wire::{Head, latin1, text};
use crate::target::{Response, Target};

/// Between two reports to the same member.
const REPORTS: Duration = Duration::from_secs(2);

/// As soon it must be UP: a server looks at a changed list within 2 s, and counts who reports.
const JOINS: Duration = Duration::from_secs(20);

/// Of what was asked so much is remembered.
const MOST_HEARD: usize = 20_000;

/// A request must be all there so soon after the one before it, or the connection is closed.
const MOST_QUIET: Duration = Duration::from_secs(60);

/// Of one request so much is read.
const MOST_READ: usize = 16 << 20;

/// What 1.4.8 calls itself.
const AGENT: &str = "Nacos-Server:v1.4.8";

/// A request that came.
#[derive(Debug, Clone)]
pub struct Heard {
    /// E.g. `PUT`.
    pub method: String,
    /// The path behind the context.
    pub path: String,
    /// The query as it came.
    pub query: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
}

impl Heard {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The parameters of the query, sorted by their names.
    pub fn parameters(&self) -> BTreeMap<String, String> {
        let decode = |text: &str| decoded(&text.replace('+', " "));
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (decode(name), decode(value))).collect()
    }
}

/// The member; it goes silent when this is dropped.
#[derive(Debug)]
pub struct Member {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    context: String,
    /// Data by their keys, as JSON, and their checksums.
    holds: Mutex<BTreeMap<String, (String, String)>>,
    /// Who tells others of all that is held, or of something new.
    tells: Mutex<()>,
    /// `ip:port_healthy` of the instances of services by their keys.
    sees: Mutex<BTreeMap<String, Vec<String>>>,
    heard: Mutex<Vec<Heard>>,
    stop: AtomicBool,
}

impl Member {
    /// Listens at `address` and reports to these servers from now on.
    ///
    /// # Errors
    /// If the address isn't one of this machine's, or is taken.
    pub fn open(address: SocketAddr, servers: &[Target]) -> Result<Self> {
        let listener =
            TcpListener::bind(address).with_context(|| format!("can't listen as the member {address}"))?;
        let context = servers.first().map(|server| server.context().to_owned()).unwrap_or_default();
        let shared = Arc::new(Shared {
            address,
            context,
            holds: Mutex::default(),
            tells: Mutex::default(),
            sees: Mutex::default(),
            heard: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stop.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.serve(stream));
            }
        });
        for server in servers {
            let (server, reporting) = (server.calling_from(address.ip()), Arc::clone(&shared));
            thread::spawn(move || {
                while !reporting.stop.load(Ordering::SeqCst) {
                    let _ = reporting.report(&server); // one that is missed shows in what the server says of us
                    thread::sleep(REPORTS);
                }
            });
        }
        Ok(Self { shared })
    }

    /// Waits until the server counts this member among those that are UP.
    ///
    /// # Errors
    /// If it doesn't within 20 s.
    pub fn join(&self, server: &Target) -> Result<()> {
        let end = Instant::now() + JOINS;
        loop {
            if named_by(server)?.contains(&self.name()) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "{} doesn't count {} among its healthy members: put it into its list (cluster.conf)",
                    server.authority(),
                    self.shared.address
                );
            }
            server.stop().wait(Duration::from_millis(500))?;
        }
    }

    /// What it is called in lists of members.
    pub fn name(&self) -> String {
        self.shared.address.to_string()
    }

    /// The server as it is asked by a member.
    pub fn calls(&self, server: &Target) -> Target {
        server.calling_from(self.shared.address.ip())
    }

    /// What is asked for by key is answered with this datum from now on; its checksum is among those of all.
    pub fn hold(&self, key: &str, datum: &str, checksum: &str) {
        lock(&self.shared.holds).insert(key.to_owned(), (datum.to_owned(), checksum.to_owned()));
    }

    /// The checksums of all that is held, by key, as JSON. What isn't among them others take for gone.
    pub fn checksums(&self) -> String {
        let holds = lock(&self.shared.holds);
        let text = |text: &String| Json::Text(text.clone());
        Json::Object(holds.iter().map(|(key, (_, checksum))| (key.clone(), text(checksum))).collect())
            .written()
    }

    /// Held while others are told of what is new or of all that there is: who told of all without what another case
    /// just told of would make others forget that.
    pub fn telling(&self) -> std::sync::MutexGuard<'_, ()> {
        lock(&self.shared.tells)
    }

    /// Is asked for it in vain from now on.
    pub fn forget(&self, key: &str) {
        lock(&self.shared.holds).remove(key);
    }

    /// Takes away all that is held whose key has the text `run`, also from those who were told of it: nobody else may.
    pub fn let_go(&self, run: &str, servers: &[Target]) {
        let _telling = self.telling();
        let held = |key: &&String| key.contains(run);
        let keys: Vec<String> = lock(&self.shared.holds).keys().filter(held).cloned().collect();
        for key in keys {
            self.forget(&key);
            let name = Json::Text(key.clone()).written();
            let body =
                format!("{{{name}:{{\"key\":{name},\"value\":{{\"instanceList\":[]}},\"timestamp\":1}}}}");
            for server in servers {
                let request = as_member("PUT", "/nacos/v1/ns/distro/datum", Some(body.clone()));
                let _ = self.calls(server).send(&request); // one that is gone has nothing any more
            }
        }
    }

    /// Who asks for the health of the service `NAMESPACE##GROUP@@NAME` is told these (`ip:port_true`) from now on.
    pub fn see(&self, key: &str, statuses: &[&str]) {
        let statuses = statuses.iter().map(|status| (*status).to_owned()).collect();
        lock(&self.shared.sees).insert(key.to_owned(), statuses);
    }

    /// Everything that was asked whose path, query or body has the text.
    pub fn heard(&self, text: &str) -> Vec<Heard> {
        let has = |one: &&Heard| [&one.path, &one.query, &one.body].iter().any(|part| part.contains(text));
        lock(&self.shared.heard).iter().filter(has).cloned().collect()
    }

    /// Reports itself once.
    ///
    /// # Errors
    /// If no answer comes.
    pub fn report(&self, server: &Target) -> Result<Response> {
        self.shared.report(&self.calls(server))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect_timeout(&self.shared.address, Duration::from_secs(1)); // wakes the accept
    }
}

/// The headers of what members say to each other.
pub fn as_member(method: &str, path: &str, body: Option<String>) -> HttpRequest {
    let header = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    HttpRequest {
        headers: vec![
            header("User-Agent", AGENT),
            header("Client-Version", "1.4.8"),
            header("Content-Type", "application/json;charset=UTF-8"),
        ],
        body,
        ..HttpRequest::new(method, path, Duration::from_secs(10))
    }
}

impl Shared {
    fn report(&self, server: &Target) -> Result<Response> {
        let (address, port) = (self.address, self.address.port());
        let body = format!(
            "{{\"ip\":\"{}\",\"port\":{port},\"state\":\"UP\",\"extendInfo\":{{\"lastRefreshTime\":1,\
             \"raftPort\":\"{}\",\"version\":\"1.4.8\"}},\"address\":\"{address}\",\"failAccessCnt\":0}}",
            address.ip(),
            port.saturating_sub(1000)
        );
        let mut request = as_member("POST", "/nacos/v1/core/cluster/report", Some(body));
        request.headers.push(("Nacos-Server".to_owned(), Some("1.4.8".to_owned())));
        server.send(&request)
    }

    /// Answers requests over one connection until it ends.
    fn serve(&self, mut stream: TcpStream) {
        let (mut data, mut piece) = (Vec::new(), vec![0; 65536]);
        let mut deadline = Deadline::after(MOST_QUIET);
        loop {
            let Some((heard, length)) = read(&data, &self.context) else {
                let left = deadline.left();
                if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
                    return;
                }
                match stream.read(&mut piece) {
                    Ok(count) if count > 0 && data.len() < MOST_READ => {
                        data.extend_from_slice(&piece[..count]);
                    }
                    _ => return,
                }
                continue;
            };
            data.drain(..length);
            deadline = Deadline::after(MOST_QUIET);
            let (status, kind, body) = self.answer(&heard);
            {
                let mut all = lock(&self.heard);
                if all.len() < MOST_HEARD {
                    all.push(heard);
                }
            }
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            if stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, heard: &Heard) -> (u16, &'static str, String) {
        const JSON: &str = "application/json;charset=UTF-8";
        const TEXT: &str = "text/plain;charset=UTF-8";
        let entry = format!("{} {}", heard.method, heard.path);
        let held = |wanted: &dyn Fn(&str) -> bool| {
            let holds = lock(&self.holds);
            let pairs = holds.iter().filter(|(key, _)| wanted(key));
            let pairs: Vec<String> = pairs
                .map(|(key, (datum, _))| format!("{}:{datum}", Json::Text(key.clone()).written()))
                .collect();
            format!("{{{}}}", pairs.join(","))
        };
        match &*entry {
            "POST /v1/core/cluster/report" => {
                (200, JSON, r#"{"code":200,"message":null,"data":"true"}"#.to_owned())
            }
            "GET /v1/ns/distro/datum" => {
                let keys = parse(&heard.body).ok();
                let keys = keys.as_ref().and_then(|body| body.get("keys"));
                let Some(Json::Text(keys)) = keys else { return (400, TEXT, "keys?".to_owned()) };
                (200, JSON, held(&|key| keys.split(',').any(|wanted| wanted == key)))
            }
            "GET /v1/ns/distro/datums" => (200, JSON, held(&|_| true)),
            "GET /v1/ns/instance/statuses" => {
                let key = heard.parameters().remove("key").unwrap_or_default();
                let statuses = lock(&self.sees).get(&key).cloned().unwrap_or_default();
                let statuses = statuses.into_iter().map(Json::Text).collect();
                (200, JSON, format!("{{\"ips\":{}}}", Json::List(statuses).written()))
            }
            "PUT /v1/ns/distro/datum"
            | "PUT /v1/ns/distro/checksum"
            | "POST /v1/ns/service/status"
            | "GET /v1/ns/operator/server/status"
            | "POST /v1/ns/instance"
            | "PUT /v1/ns/instance"
            | "DELETE /v1/ns/instance" => (200, TEXT, "ok".to_owned()),
            "PATCH /v1/ns/instance" => (400, TEXT, "caused: as the owner says;".to_owned()),
            "PUT /v1/ns/instance/beat" => {
                (200, JSON, r#"{"clientBeatInterval":7777,"code":10200,"lightBeatEnabled":true}"#.to_owned())
            }
            _ => (404, TEXT, String::new()),
        }
    }
}

/// The request at the beginning of `data` and its length, if it is all there.
fn read(data: &[u8], context: &str) -> Option<(Heard, usize)> {
    let end = data.windows(4).position(|four| four == b"\r\n\r\n")?;
    let lines = latin1(&data[..end]);
    let mut lines = lines.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    // A body is read as an answer's would be: by its length or in chunks.
    let as_answer = Head { status: 200, headers: headers.clone(), len: end + 4 };
    let (body, length) = if as_answer.ends_by_close(false) {
        (Vec::new(), 0)
    } else {
        as_answer.body(&data[end + 4..], false)?
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let path = path.strip_prefix(context).unwrap_or(path).to_owned();
    let heard = Heard { method, path, query: query.to_owned(), headers, body: text(&body) };
    Some((heard, end + 4 + length))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = vec![0; 4096];
        let count = stream.read(&mut answer).unwrap();
        text(&answer[..count])
    }

    #[test]
    fn it_answers_for_what_it_holds_and_remembers_what_it_was_asked() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = Target::parse("http://127.0.0.1:1").unwrap();
        let member = Member::open(free, &[server]).unwrap();
        member.hold("k1", "{\"key\":\"k1\"}", "c1");
        assert_eq!(member.checksums(), r#"{"k1":"c1"}"#);
        let body = r#"{"keys":"k0,k1"}"#;
        let request =
            format!("GET /nacos/v1/ns/distro/datum HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let answer = ask(free, &request);
        assert!(answer.ends_with("\r\n\r\n{\"k1\":{\"key\":\"k1\"}}"), "{answer}");
        ask(free, "PUT /nacos/v1/ns/instance/beat?a=b+c&serviceName=x%40y HTTP/1.1\r\nX-A: b\r\n\r\n");
        let heard = member.heard("serviceName").remove(0);
        assert_eq!((heard.method.as_str(), heard.path.as_str()), ("PUT", "/v1/ns/instance/beat"));
        assert_eq!((heard.header("x-a"), &*heard.parameters()["a"]), ("b", "b c"));
        assert_eq!(heard.parameters()["serviceName"], "x@y");
        assert_eq!(member.heard("k0").len(), 1);
        member.see("public##g@@s", &["10.0.0.1:80_false"]);
        let statuses = |key: &str| {
            ask(free, &format!("GET /nacos/v1/ns/instance/statuses?key={key} HTTP/1.1\r\nX-A: b\r\n\r\n"))
        };
        assert!(statuses("public%23%23g%40%40s").ends_with(r#"{"ips":["10.0.0.1:80_false"]}"#));
        assert!(statuses("public%23%23g%40%40t").ends_with(r#"{"ips":[]}"#));
    }
}
