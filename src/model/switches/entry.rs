//! How an entry of `PUT /operator/switches` is read, and what it may be.
//!
//! Pure. Not every field of the table is an entry, and some entries have another name than their field. Source:
//! Nacos 1.4.8 naming module, switch manager; compat file `operator-switches`. Ours: an unknown status is refused
//! (compat case marked imp-17), and so are numbers that JSON can't hold and codes that are no status of an answer.

use std::{borrow::Cow, collections::BTreeMap};

use super::Switches;
use crate::{
    base::{java, json::Object},
    model::status::NodeStatus,
};

/// Why a switch isn't set.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The value isn't one that the switch can have.
    #[error("{0}")]
    Value(Cow<'static, str>),
    /// A batch isn't a JSON object of switches.
    #[error("the batch can not be read: {0}")]
    Batch(#[from] serde_json::Error),
}

/// Longest minimum that a batch may give for the pause between probes, in milliseconds.
const LEAST_PAUSE_MS: i32 = 500;
/// Shortest maximum.
const LEAST_LONGEST_PAUSE_MS: i32 = 3_000;

impl Switches {
    /// Sets one entry, or all by `batch`; an entry that isn't known changes nothing.
    ///
    /// # Errors
    /// [`SwitchError`]; nothing is changed then.
    pub fn set(&mut self, entry: &str, value: &str) -> Result<(), SwitchError> {
        match entry {
            "batch" => *self = self.read_batch(value)?,
            "masters" => self.masters = Some(java_split(value, ',')),
            "pushCacheMillis" => {
                let message = "min cache time for http or tcp is too small(<10000)";
                self.default_push_cache_millis = at_least(10_000, value, message)?;
            }
            "clientBeatInterval" => self.client_beat_interval = long(value)?,
            "defaultCacheMillis" => {
                let message = "min default cache time  is too small(<1000)";
                self.default_cache_millis = at_least(1_000, value, message)?;
            }
            "distroThreshold" => self.distro_threshold = threshold(value)?,
            "check" => self.health_check_enabled = java::is_true(value),
            "autoChangeHealthCheckEnabled" => {
                self.auto_change_health_check_enabled = java::is_true_word(value);
            }
            "distro" => self.distro_enabled = java::is_true(value),
            "pushEnabled" => self.push_enabled = java::is_true(value),
            "healthCheckTimes" => {
                self.check_times = java::parse_int(value).ok_or_else(|| not_a_number(value))?;
            }
            "serverStatusSynchronizationPeriodMillis" => {
                let message = "serverStatusSynchronizationPeriodMillis is too small(<15000)";
                self.server_status_synchronization_period_millis = at_least(1_000, value, message)?;
            }
            "serviceStatusSynchronizationPeriodMillis" => {
                let message = "serviceStatusSynchronizationPeriodMillis is too small(<5000)";
                self.service_status_synchronization_period_millis = at_least(5_000, value, message)?;
            }
            "disableAddIP" => self.disable_add_ip = java::is_true(value),
            "sendBeatOnly" => self.send_beat_only = java::is_true(value),
            "lightBeatEnabled" => self.light_beat_enabled = java::is_true_word(value),
            "limitedUrlMap" if !value.is_empty() => self.limited_url_map = limits(value)?,
            "distroServerExpiredMillis" => self.distro_server_expired_millis = long(value)?,
            "pushVersion" => self.set_push_version(value)?,
            "overriddenServerStatus" => self.overridden_server_status = Some(status(value)?),
            "defaultInstanceEphemeral" => self.default_instance_ephemeral = java::is_true(value),
            _ => {}
        }
        Ok(())
    }

    fn set_push_version(&mut self, value: &str) -> Result<(), SwitchError> {
        let mut parts = value.split(':');
        let (client, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if !is_version(version) {
            return refuse("illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+");
        }
        let field = match client {
            "java" => &mut self.push_java_version,
            "python" => &mut self.push_python_version,
            "go" => &mut self.push_go_version,
            "c" => &mut self.push_c_version,
            _ => return refuse(format!("unsupported client type: {client}")),
        };
        *field = version.into();
        Ok(())
    }

    /// The whole table from JSON; what is left out has its default.
    fn read_batch(&self, text: &str) -> Result<Self, SwitchError> {
        let Object(mut new): Object<Self> = serde_json::from_str(text)?;
        new.enable_standalone = self.enable_standalone;
        let params = [&new.http_health_params, &new.tcp_health_params];
        if params.iter().any(|params| params.min < LEAST_PAUSE_MS) {
            return refuse("min check time for http or tcp is too small(<500)");
        }
        if params.iter().any(|params| params.max < LEAST_LONGEST_PAUSE_MS) {
            return refuse("max check time for http or tcp is too small(<3000)");
        }
        if params.iter().any(|params| !(0.0..=1.0).contains(&params.factor)) {
            return refuse("malformed factor");
        }
        new.limited_url_map.iter().try_for_each(|(start, code)| check_limit(start, i32::from(*code)))?;
        if let Some(word) = &new.overridden_server_status {
            new.overridden_server_status = Some(status(word)?);
        }
        Ok(new)
    }
}

fn refuse<T>(text: impl Into<Cow<'static, str>>) -> Result<T, SwitchError> {
    Err(SwitchError::Value(text.into()))
}

fn not_a_number(text: &str) -> SwitchError {
    SwitchError::Value(format!("For input string: \"{text}\"").into())
}

fn long(text: &str) -> Result<i64, SwitchError> {
    java::parse_long(text).ok_or_else(|| not_a_number(text))
}

fn at_least(least: i64, text: &str, message: &'static str) -> Result<i64, SwitchError> {
    let value = long(text)?;
    if value < least { refuse(message) } else { Ok(value) }
}

fn threshold(text: &str) -> Result<f32, SwitchError> {
    let value = java::parse_float(text).ok_or_else(|| not_a_number(text))?;
    if value > 0.0 && value.is_finite() {
        return Ok(value);
    }
    let what = if value > 0.0 { "infinite" } else { "zero or negative" };
    refuse(format!("distroThreshold can not be {what}: {}", java::float_text(value)))
}

/// `[0-9]+\.[0-9]+\.[0-9]+`.
fn is_version(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(digits)
}

/// Java's `split`: without the empty parts at the end; a text without the sign is one part.
fn java_split(text: &str, sign: char) -> Vec<String> {
    if text.is_empty() {
        return vec![String::new()];
    }
    let mut parts: Vec<String> = text.split(sign).map(Into::into).collect();
    while parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    parts
}

/// `PREFIX:STATUS,...`.
fn limits(text: &str) -> Result<BTreeMap<String, u16>, SwitchError> {
    let mut limits = BTreeMap::new();
    for piece in java_split(text, ',') {
        let parts = java_split(&piece, ':');
        let [start, code] = &parts[..] else { return refuse("invalid input for limited urls") };
        check_limit_start(start)?;
        let code = java::parse_int(code).ok_or_else(|| not_a_number(code))?;
        check_limit(start, code)?;
        limits.insert(start.clone(), u16::try_from(code).expect("checked to be below 1,000"));
    }
    Ok(limits)
}

fn check_limit_start(start: &str) -> Result<(), SwitchError> {
    if start.trim().is_empty() { refuse(format!("url can not be empty, url: {start}")) } else { Ok(()) }
}

/// Final statuses of three digits; the interim ones below 200 can't end a request.
fn check_limit(start: &str, code: i32) -> Result<(), SwitchError> {
    check_limit_start(start)?;
    if (200..1_000).contains(&code) {
        return Ok(());
    }
    refuse(format!("illegal normal status code: {code}"))
}

/// A word that stands for a status, or nothing; the word `null` is nothing.
fn status(word: &str) -> Result<String, SwitchError> {
    match word {
        "" | "null" => Ok(String::new()),
        word => match word.parse::<NodeStatus>() {
            Ok(status) => Ok(status.to_string()),
            Err(error) => refuse(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What setting `entry` says, and whether anything changed.
    fn set(entry: &str, value: &str) -> (String, bool) {
        let mut switches = Switches::default();
        let said = switches.set(entry, value).map_or_else(|error| error.to_string(), |()| "ok".into());
        (said, switches != Switches::default())
    }

    #[test]
    fn values_at_the_limits_are_taken_and_below_refused() {
        for (entry, least, below, text) in [
            ("pushCacheMillis", "10000", "9999", "min cache time for http or tcp is too small(<10000)"),
            ("defaultCacheMillis", "1000", "999", "min default cache time  is too small(<1000)"),
            (
                "serverStatusSynchronizationPeriodMillis",
                "1000",
                "999",
                "serverStatusSynchronizationPeriodMillis is too small(<15000)",
            ),
            (
                "serviceStatusSynchronizationPeriodMillis",
                "5000",
                "4999",
                "serviceStatusSynchronizationPeriodMillis is too small(<5000)",
            ),
            ("distroThreshold", "1e-9", "0", "distroThreshold can not be zero or negative: 0.0"),
            ("distroThreshold", "0.5f", "NaN", "distroThreshold can not be zero or negative: NaN"),
            ("distroThreshold", "1e38", "1e39", "distroThreshold can not be infinite: Infinity"),
        ] {
            assert_eq!(set(entry, least).0, "ok", "{entry}");
            assert_eq!(set(entry, below), (text.into(), false), "{entry}");
        }
        assert_eq!(set("clientBeatInterval", "-5"), ("ok".into(), true));
        assert_eq!(set("healthCheckTimes", "0"), ("ok".into(), true));
    }

    #[test]
    fn malformed_numbers_are_refused_untrimmed() {
        for entry in
            ["pushCacheMillis", "clientBeatInterval", "healthCheckTimes", "distroServerExpiredMillis"]
        {
            for value in ["abc", " 20000", "1.5", "", "99999999999999999999"] {
                assert_eq!(set(entry, value), (format!("For input string: \"{value}\""), false), "{entry}");
            }
        }
    }

    #[test]
    fn unknown_entries_and_field_names_change_nothing() {
        for entry in ["nothing", "", "pushGoVersion", "healthCheckEnabled", "CHECK", "enableStandalone"] {
            assert_eq!(set(entry, "false"), ("ok".into(), false), "{entry}");
        }
        assert_eq!(set("check", ""), ("ok".into(), true));
    }

    #[test]
    fn limits_are_pairs_of_a_start_and_a_final_status() {
        let mut switches = Switches::default();
        switches.set("limitedUrlMap", "/a:503,/b?x=1:404,").unwrap();
        let expected = BTreeMap::from([("/a".to_string(), 503), ("/b?x=1".to_string(), 404)]);
        assert_eq!(switches.limited_url_map, expected);
        switches.set("limitedUrlMap", "").unwrap();
        assert_eq!(switches.limited_url_map, expected);
        for (value, text) in [
            ("abc", "invalid input for limited urls"),
            ("/x:", "invalid input for limited urls"),
            (":500", "url can not be empty, url: "),
            ("/x:abc", "For input string: \"abc\""),
            ("/x:0", "illegal normal status code: 0"),
            ("/x:100", "illegal normal status code: 100"),
            ("/x:1000", "illegal normal status code: 1000"),
            ("/a:404,/x:-1", "illegal normal status code: -1"),
        ] {
            assert_eq!(set("limitedUrlMap", value), (text.into(), false), "{value}");
        }
    }

    #[test]
    fn push_versions_have_three_numbers_and_a_known_client() {
        assert_eq!(set("pushVersion", "go:1.2.3"), ("ok".into(), true));
        assert_eq!(set("pushVersion", "java:1.2.3:4"), ("ok".into(), true));
        for (value, text) in [
            ("csharp:1.2.3", "unsupported client type: csharp"),
            ("java:1.2", "illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+"),
            ("java:v1.2.3", "illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+"),
            ("java", "illegal version, must match: [0-9]+\\.[0-9]+\\.[0-9]+"),
        ] {
            assert_eq!(set("pushVersion", value), (text.into(), false), "{value}");
        }
    }

    #[test]
    fn an_unknown_status_is_refused() {
        assert!(set("overriddenServerStatus", "BANANA").0.starts_with("unknown server status: BANANA"));
        assert!(!set("overriddenServerStatus", "BANANA").1);
        let mut switches = Switches::default();
        switches.set("overriddenServerStatus", "DOWN").unwrap();
        assert_eq!(switches.status(), NodeStatus::Down);
        switches.set("overriddenServerStatus", "null").unwrap();
        assert_eq!(switches.overridden_server_status.as_deref(), Some(""));
        assert_eq!(switches.status(), NodeStatus::Up);
    }

    #[test]
    fn a_batch_is_the_whole_table() {
        let mut switches = Switches::default();
        switches.set("masters", "a,b,").unwrap();
        switches.set("check", "false").unwrap();
        assert_eq!(switches.masters, Some(vec!["a".into(), "b".into()]));
        switches.set("batch", r#"{"checkTimes":5,"unknown":1,"enableStandalone":false}"#).unwrap();
        assert_eq!(switches, Switches { check_times: 5, ..Switches::default() });
        switches.set("batch", "{}").unwrap();
        assert_eq!(switches, Switches::default());
        for (value, text) in [
            (
                r#"{"tcpHealthParams":{"max":5000,"min":100,"factor":0.75}}"#,
                "min check time for http or tcp is too small(<500)",
            ),
            (
                r#"{"httpHealthParams":{"max":2999,"min":500,"factor":0.75}}"#,
                "max check time for http or tcp is too small(<3000)",
            ),
            (r#"{"httpHealthParams":{"max":5000,"min":500,"factor":1.5}}"#, "malformed factor"),
            (r#"{"limitedUrlMap":{"/x":0}}"#, "illegal normal status code: 0"),
            (r#"{"limitedUrlMap":{"":200}}"#, "url can not be empty, url: "),
        ] {
            assert_eq!(set("batch", value), (text.into(), false), "{value}");
        }
        let too_large =
            [r#"{"distroThreshold":1e39}"#, r#"{"mysqlHealthParams":{"max":1,"min":1,"factor":1e39}}"#];
        for unreadable in ["abc", "null", "[]", r#"{"checkTimes":"x"}"#, ""].iter().chain(&too_large) {
            assert!(matches!(Switches::default().set("batch", unreadable), Err(SwitchError::Batch(_))));
        }
        assert!(
            set("batch", r#"{"overriddenServerStatus":"BANANA"}"#).0.starts_with("unknown server status")
        );
    }

    #[test]
    fn masters_split_as_java_splits() {
        for (value, parts) in [("", vec![""]), ("a,,b", vec!["a", "", "b"]), (",", vec![]), ("a", vec!["a"])]
        {
            let mut switches = Switches::default();
            switches.set("masters", value).unwrap();
            assert_eq!(switches.masters, Some(parts.into_iter().map(Into::into).collect()), "{value}");
        }
    }
}
