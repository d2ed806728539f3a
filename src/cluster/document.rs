//! A member as JSON: the body of a report, and an entry of what operators are shown.
//!
//! Pure. Reading is as lenient as the reference's: unknown fields are passed over, those of `extendInfo` kept, numbers
//! may be texts. Source: Nacos 1.4.8 core module, member; compat file `core-cluster`, wire file `member`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Address, Mapping, MemberReport, NacreMark, ShownMember};
use crate::base::{java, json};

/// Bytes that a report may have; a real one has some 500. What it says is kept and shown.
pub const MAX_BYTES: usize = 64 << 10;
/// Members that are read of a list of slow ones.
const MOST_SLOW: usize = 1_000;

/// Why a report is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It isn't JSON, no object, or has a field that can't be what it should.
    #[error("JSON parse error: {0}")]
    Unreadable(String),
    /// It doesn't say who sends it: no `ip`, `port` or `address`. The reference answers code 400 with this text.
    #[error("Node information is illegal")]
    Illegal,
}

/// Reads a report.
///
/// # Errors
/// See [`ReportError`]; nothing of such a report counts.
pub fn read(body: &[u8]) -> Result<MemberReport, ReportError> {
    let unreadable = |reason: &dyn std::fmt::Display| ReportError::Unreadable(reason.to_string());
    if body.len() > MAX_BYTES {
        return Err(unreadable(&format_args!("a report has at most {MAX_BYTES} bytes")));
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
    let ip = text_of(&mut fields, "ip")?.unwrap_or_default();
    let address = text_of(&mut fields, "address")?.unwrap_or_default();
    let port = text_of(&mut fields, "port")?.and_then(|port| java::parse_int(&port));
    let port = port.and_then(|port| u16::try_from(port).ok());
    let state = text_of(&mut fields, "state")?.unwrap_or_else(|| "UP".to_owned());
    let mut extend_info = match fields.remove("extendInfo") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(info)) => info,
        Some(_) => return Err(unreadable(&"extendInfo is no object")),
    };
    let Some(port) = port.filter(|_| !ip.trim().is_empty() && !address.trim().is_empty()) else {
        return Err(ReportError::Illegal);
    };
    let version = match extend_info.get("version") {
        Some(Value::String(version)) if !version.is_empty() => Some(version.clone()),
        _ => None,
    };
    let nacre = extend_info.get("nacre").and_then(mark_of);
    // What was understood is written from the fields again.
    if version.is_some() {
        extend_info.remove("version");
    }
    if nacre.is_some() {
        extend_info.remove("nacre");
    }
    Ok(MemberReport { ip, port, state, address: Address::written(&address), version, nacre, extend_info })
}

/// A scalar as a text.
fn text_of(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, ReportError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(scalar @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(scalar.to_string())),
        Some(_) => Err(ReportError::Unreadable(format!("{name} is no text"))),
    }
}

/// What a Nacre node tells of itself; nothing where the number of the protocol is missing.
fn mark_of(value: &Value) -> Option<NacreMark> {
    let protocol = value.get("protocol")?.as_u64()?;
    let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or_default();
    let slow = value.get("slow").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(NacreMark {
        protocol: u32::try_from(protocol).ok().filter(|protocol| *protocol > 0)?,
        starting: is("starting"),
        leaving: is("leaving"),
        slow: slow.iter().take(MOST_SLOW).filter_map(Value::as_str).map(Address::new).collect(),
        persistent: value.get("persistent").and_then(Value::as_u64).unwrap_or_default(),
        mapping: match value.get("mapping").and_then(Value::as_str) {
            Some("rendezvous") => Mapping::Rendezvous,
            _ => Mapping::Modulo,
        },
        list: value.get("list").and_then(Value::as_str).map(Into::into),
    })
}

/// A member as the wire shows it, fields in its order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    ip: &'a str,
    port: u16,
    state: &'a str,
    extend_info: Map<String, Value>,
    address: &'a str,
    fail_access_cnt: u32,
}

impl<'a> Document<'a> {
    /// What `report` says, in this state: its own, or the one that the showing node gives it.
    #[must_use]
    pub fn new(report: &'a MemberReport, state: &'a str, fail_access_cnt: u32) -> Self {
        // Sorted by name, like the reference's.
        let mut extend_info = report.extend_info.clone();
        if let Some(version) = &report.version {
            extend_info.insert("version".to_owned(), version.as_str().into());
        }
        if let Some(mark) = &report.nacre {
            extend_info.insert("nacre".to_owned(), Value::Object(mark_as_json(mark)));
        }
        let address = report.address.as_str();
        Self { ip: &report.ip, port: report.port, state, extend_info, address, fail_access_cnt }
    }
}

impl<'a> Document<'a> {
    /// What is known of a member, in this state; one that hasn't reported yet has but its address.
    #[must_use]
    pub fn of(member: &'a ShownMember, state: &'a str) -> Self {
        if let Some(report) = &member.report {
            return Self::new(report, state, member.failures);
        }
        let address = &member.address;
        let usual = || i32::from(address.port()) - 1_000;
        let raft_port = member.raft_port.map_or_else(usual, i32::from).to_string();
        Self {
            ip: address.host(),
            port: address.port(),
            state,
            extend_info: Map::from_iter([("raftPort".to_owned(), raft_port.into())]),
            address: address.as_str(),
            fail_access_cnt: member.failures,
        }
    }
}

/// The body of a report.
#[must_use]
pub fn write(report: &MemberReport) -> Vec<u8> {
    json::to_bytes(&Document::new(report, &report.state, 0))
}

fn mark_as_json(mark: &NacreMark) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| _ = out.insert(name.to_owned(), value);
    put("protocol", mark.protocol.into());
    if mark.starting {
        put("starting", true.into());
    }
    if mark.leaving {
        put("leaving", true.into());
    }
    if !mark.slow.is_empty() {
        put("slow", mark.slow.iter().map(Address::as_str).collect());
    }
    if mark.persistent > 0 {
        put("persistent", mark.persistent.into());
    }
    if mark.mapping == Mapping::Rendezvous {
        put("mapping", "rendezvous".into());
    }
    if let Some(list) = &mark.list {
        put("list", (&**list).into());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(report: &MemberReport) -> String {
        String::from_utf8(write(report)).unwrap()
    }

    #[test]
    fn a_real_members_report_is_read_kept_and_shown_as_it_came() {
        let exchanges = include_str!("../../compat-tests/wire/member.json");
        let exchanges: Vec<Value> = serde_json::from_str(exchanges).unwrap();
        let is_report = |exchange: &&Value| exchange["name"].as_str().unwrap().starts_with("report");
        let mut same = 0;
        for body in exchanges.iter().filter(is_report).map(|exchange| exchange["body"].as_str().unwrap()) {
            let report = read(body.as_bytes()).unwrap();
            assert_eq!((report.version.as_deref(), &report.nacre), (Some("1.4.8"), &None));
            same += usize::from(text(&report) == body);
            let (ours, theirs): (Value, Value) =
                (serde_json::from_str(&text(&report)).unwrap(), serde_json::from_str(body).unwrap());
            assert_eq!(ours, theirs);
        }
        // The third was written by a member that has another order.
        assert_eq!(same, 2);
    }

    #[test]
    fn ours_is_written_in_the_order_of_the_wire() {
        let mark = NacreMark { protocol: 1, ..NacreMark::default() };
        let mut report = MemberReport::of_nacre(&Address::new("10.0.0.1:8848"), mark);
        report.extend_info.insert("lastRefreshTime".into(), 5.into());
        let expected = r#"{"ip":"10.0.0.1","port":8848,"state":"UP","extendInfo":{"lastRefreshTime":5,"nacre":{"protocol":1},"raftPort":"7848","version":"1.4.8"},"address":"10.0.0.1:8848","failAccessCnt":0}"#;
        assert_eq!(text(&report), expected);
    }

    #[test]
    fn what_a_nacre_node_tells_is_read_as_it_was_written() {
        let all = NacreMark {
            protocol: 7,
            starting: true,
            leaving: true,
            slow: vec![Address::new("10.0.0.2:8848"), Address::new("[::1]:1")],
            persistent: 9,
            mapping: Mapping::Rendezvous,
            list: Some("0123456789abcdef".into()),
        };
        for mark in [all, NacreMark { protocol: 1, ..NacreMark::default() }] {
            let report = MemberReport::of_nacre(&Address::new("10.0.0.1:8848"), mark);
            assert_eq!(read(&write(&report)).unwrap(), report);
        }
    }

    fn nacre_of(nacre: &str) -> (Option<NacreMark>, bool) {
        let body = format!(r#"{{"ip":"a","port":1,"address":"a:1","extendInfo":{{"nacre":{nacre}}}}}"#);
        let report = read(body.as_bytes()).unwrap();
        (report.nacre, report.extend_info.contains_key("nacre"))
    }

    #[test]
    fn a_mark_without_a_protocol_is_none_and_is_kept_like_any_other_field() {
        for strange in
            ["null", "1", "[]", "{}", r#"{"protocol":"1"}"#, r#"{"protocol":0}"#, r#"{"protocol":-1}"#]
        {
            assert_eq!(nacre_of(strange), (None, true), "{strange}");
        }
        let (mark, kept) =
            nacre_of(r#"{"protocol":2,"starting":"x","slow":[1,"a:1",null],"persistent":-1,"mapping":[]}"#);
        let expected = NacreMark { protocol: 2, slow: vec![Address::new("a:1")], ..NacreMark::default() };
        assert_eq!((mark, kept), (Some(expected), false));
    }

    #[test]
    fn a_report_is_read_leniently() {
        let body = r#"{"ip":5,"port":"8848","address":"a:8848","extendInfo":null,"unknown":[{}],"failAccessCnt":"x"}"#;
        let report = read(body.as_bytes()).unwrap();
        assert_eq!((report.ip.as_str(), report.port, report.state.as_str()), ("5", 8848, "UP"));
        assert_eq!((report.version, report.extend_info.len()), (None, 0));
    }

    #[test]
    fn a_report_that_does_not_say_who_sends_it_is_illegal() {
        for body in [
            "{}",
            r#"{"ip":"","port":-1}"#,
            r#"{"ip":"127.0.0.250"}"#,
            r#"{"ip":"a","port":1}"#,
            r#"{"ip":"a","address":"a:1"}"#,
            r#"{"port":1,"address":"a:1"}"#,
            r#"{"ip":" ","port":1,"address":"a:1"}"#,
            r#"{"ip":"a","port":70000,"address":"a:1"}"#,
            r#"{"ip":"a","port":"x","address":"a:1"}"#,
        ] {
            assert!(matches!(read(body.as_bytes()), Err(ReportError::Illegal)), "{body}");
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let long = format!(r#"{{"ip":"{}"}}"#, "a".repeat(MAX_BYTES));
        for body in ["abc", "[]", "null", "1", r#"{"ip":{}}"#, r#"{"extendInfo":[]}"#, &long] {
            assert!(matches!(read(body.as_bytes()), Err(ReportError::Unreadable(_))), "{body}");
        }
    }
}
