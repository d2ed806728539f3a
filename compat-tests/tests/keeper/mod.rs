//! A server that keeps what it is told: services with their instances, namespaces, and a table of switches. Enough for a run to
//! make things and to take them away; what it answers otherwise is as good as any.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a fresh one has.
const SWITCHES: &str =
    r#"{"masters":null,"defaultPushCacheMillis":10000,"pushEnabled":true,"overriddenServerStatus":null}"#;

pub struct Keeper {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Namespace, group and name, and the instances by their addresses.
    services: BTreeMap<[String; 3], BTreeSet<String>>,
    namespaces: BTreeSet<String>,
    switches: BTreeMap<String, String>,
    requests: usize,
    made: usize,
    set: usize,
    /// From so many requests on nobody is answered.
    holds_after: Option<usize>,
    dead: bool,
}

impl Keeper {
    pub fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let keeping = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if keeping.lock().unwrap().dead {
                    return;
                }
                let state = Arc::clone(&keeping);
                thread::spawn(move || serve(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Services, namespaces and switches.
    pub fn snapshot(&self) -> String {
        let state = self.state.lock().unwrap();
        format!("{:?} {:?} {:?}", state.services, state.namespaces, state.switches)
    }

    pub fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }

    pub fn has_made_something(&self) -> bool {
        self.state.lock().unwrap().made > 0
    }

    pub fn has_set_switches(&self) -> bool {
        self.state.lock().unwrap().set > 0
    }

    /// Answers nobody once so many requests have come, but reads; without a number it answers everybody again.
    pub fn hold_answers_after(&self, requests: Option<usize>) {
        self.state.lock().unwrap().holds_after = requests;
    }

    /// Is gone from now on.
    pub fn die(&self) {
        self.state.lock().unwrap().dead = true;
        let _ = TcpStream::connect(self.address); // wakes the accept
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut data = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 65536];
        let count = stream.read(&mut piece).unwrap_or(0);
        data.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&data).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if body.len() >= length {
                break (head.to_owned(), body.to_owned());
            }
        }
        if count == 0 {
            return;
        }
    };
    let answer = state.lock().unwrap().answer(&head, &body);
    let Some((status, body)) = answer else {
        let _ = stream.read(&mut [0; 1]); // until the other side has had enough
        return;
    };
    let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
    let head = format!("HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {}", body.len());
    let _ = stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{body}").as_bytes());
}

impl State {
    fn answer(&mut self, head: &str, body: &str) -> Option<(u16, String)> {
        self.requests += 1;
        if self.holds_after.is_some_and(|most| self.requests > most) || self.dead {
            return None;
        }
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = parameters(query).into_iter().chain(parameters(body));
        let pairs: Vec<(String, String)> = pairs.collect();
        let value = |name: &str| {
            let found = pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
            found.unwrap_or_default().to_owned()
        };
        let ok = || (200, "ok".to_owned());
        let key = {
            let (name, group) = (value("serviceName"), value("groupName"));
            let group = if group.is_empty() { "DEFAULT_GROUP".to_owned() } else { group };
            let (group, name) = match name.split_once("@@") {
                Some((group, name)) => (group.to_owned(), name.to_owned()),
                None => (group, name),
            };
            let namespace = value("namespaceId");
            [if namespace == "public" { String::new() } else { namespace }, group, name]
        };
        let (ip, port) = (value("ip"), value("port").parse::<u16>());
        let usable = !key[2].is_empty() && !ip.is_empty() && port.is_ok();
        let address = format!("{ip}:{}", port.unwrap_or_default());
        Some(match (method, path.strip_prefix("/nacos/v1/").unwrap_or_default()) {
            ("GET", "ns/instance/list") => (200, r#"{"hosts":[]}"#.to_owned()),
            ("POST", "ns/instance") if usable => {
                self.made += 1;
                self.services.entry(key).or_default().insert(address);
                ok()
            }
            ("DELETE", "ns/instance") => {
                self.services.get_mut(&key).map(|instances| instances.remove(&address));
                ok()
            }
            ("POST", "ns/service") if !key[2].is_empty() => {
                self.made += 1;
                self.services.entry(key).or_default();
                ok()
            }
            ("GET", "ns/service") => match self.services.contains_key(&key) {
                true => (200, r#"{"clusters":[{"name":"DEFAULT"}]}"#.to_owned()),
                false => (500, "caused: not found".to_owned()),
            },
            ("DELETE", "ns/service") => match self.services.get(&key) {
                Some(instances) if !instances.is_empty() => (400, "caused: not empty".to_owned()),
                _ => {
                    self.services.remove(&key);
                    ok()
                }
            },
            ("GET", "ns/catalog/services") => {
                let named =
                    |[_, group, name]: &[String; 3]| format!(r#"{{"name":"{name}","groupName":"{group}"}}"#);
                let found = self.services.keys().filter(|[namespace, group, name]| {
                    *namespace == key[0]
                        && group.contains(&value("groupNameParam"))
                        && name.contains(&value("serviceNameParam"))
                });
                let found: Vec<String> = found.map(named).collect();
                (200, format!(r#"{{"count":{},"serviceList":[{}]}}"#, found.len(), found.join(",")))
            }
            ("GET", "ns/catalog/instances") => {
                let shown = |address: &String| {
                    let (ip, port) = address.rsplit_once(':').unwrap();
                    format!(r#"{{"ip":"{ip}","port":{port},"ephemeral":true}}"#)
                };
                let found: Vec<String> = self.services.get(&key).into_iter().flatten().map(shown).collect();
                (200, format!(r#"{{"count":{},"list":[{}]}}"#, found.len(), found.join(",")))
            }
            ("POST", "console/namespaces") => {
                let id = [value("customNamespaceId"), value("namespaceName")];
                let id = id.into_iter().find(|id| !id.is_empty()).unwrap_or_default();
                let plain = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
                if id.is_empty() || id.len() > 128 || !id.chars().all(plain) {
                    return Some((200, "false".to_owned()));
                }
                self.namespaces.insert(id);
                (200, "true".to_owned())
            }
            ("DELETE", "console/namespaces") => {
                self.namespaces.remove(&value("namespaceId"));
                (200, "true".to_owned())
            }
            ("GET", "console/namespaces") => {
                let all = self.namespaces.iter().map(|id| format!(r#"{{"namespace":"{id}"}}"#));
                (200, format!(r#"{{"code":200,"data":[{}]}}"#, all.collect::<Vec<_>>().join(",")))
            }
            ("GET", "ns/operator/switches") => {
                let mut table = SWITCHES.to_owned();
                for (name, value) in &self.switches {
                    table.insert_str(1, &format!(r#""set-{name}":"{value}","#));
                }
                (200, table)
            }
            ("PUT", "ns/operator/switches") if value("entry") == "batch" => {
                self.switches.clear();
                (if value("value") == SWITCHES { 200 } else { 500 }, "ok".to_owned())
            }
            ("PUT", "ns/operator/switches") => {
                self.set += 1;
                let quotes = |text: String| text.replace(['"', '\\'], "");
                self.switches.insert(quotes(value("entry")), quotes(value("value")));
                ok()
            }
            ("GET", "ns/operator/metrics") => (200, r#"{"status":"UP"}"#.to_owned()),
            _ => (404, String::new()),
        })
    }
}

fn parameters(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (decoded(name), decoded(value)));
    text.split('&').filter_map(pair).collect()
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escape = more.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match escape.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &more[2..];
            }
            None => {
                out.push(*first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
