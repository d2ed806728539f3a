//! The table of the switches with its defaults; the fields stand in wire order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::status::NodeStatus;

/// All switches. Some have an effect here, the others are kept and shown.
///
/// The JSON form is that of the wire, of a `batch` and of the store; a field that is left out has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Switches {
    /// Shown only.
    pub masters: Option<Vec<String>>,
    /// Shown only.
    pub ad_weight_map: BTreeMap<String, i32>,
    /// How long a subscriber may keep an answer, in milliseconds.
    pub default_push_cache_millis: i64,
    /// What beats are told as interval, in milliseconds.
    pub client_beat_interval: i64,
    /// How long others may keep an answer, in milliseconds.
    pub default_cache_millis: i64,
    /// Shown only; above zero.
    pub distro_threshold: f32,
    /// Silent ephemeral instances expire.
    pub health_check_enabled: bool,
    /// Shown only.
    pub auto_change_health_check_enabled: bool,
    /// Services are spread over the members; off, each node is responsible for all.
    pub distro_enabled: bool,
    /// Shown only; no request changes it.
    pub enable_standalone: bool,
    /// Subscriptions are taken and pushes sent.
    pub push_enabled: bool,
    /// Shown only.
    pub check_times: i32,
    /// Shown only: no HTTP probes are sent.
    pub http_health_params: HealthParams,
    /// Shown only: no TCP probes are sent.
    pub tcp_health_params: HealthParams,
    /// Shown only: no MySQL probes are sent.
    pub mysql_health_params: HealthParams,
    /// Shown only.
    pub incremental_list: Vec<String>,
    /// Shown only, in milliseconds.
    pub server_status_synchronization_period_millis: i64,
    /// Shown only, in milliseconds.
    pub service_status_synchronization_period_millis: i64,
    /// Shown only: registering still works.
    #[serde(rename = "disableAddIP")]
    pub disable_add_ip: bool,
    /// Shown only.
    pub send_beat_only: bool,
    /// Clients may leave the body out of their beats.
    pub light_beat_enabled: bool,
    /// Requests whose `path?query` begins so are answered with this status and no body.
    pub limited_url_map: BTreeMap<String, u16>,
    /// Shown only, in milliseconds.
    pub distro_server_expired_millis: i64,
    /// Lowest version of the Go client that is pushed to.
    pub push_go_version: String,
    /// The same of the Java client.
    pub push_java_version: String,
    /// The same of the Python client.
    pub push_python_version: String,
    /// The same of the C client.
    #[serde(rename = "pushCVersion")]
    pub push_c_version: String,
    /// The same of the C# client.
    #[serde(rename = "pushCSharpVersion")]
    pub push_csharp_version: String,
    /// Shown only: it doesn't turn authentication on.
    pub enable_authentication: bool,
    /// The word of a [`NodeStatus`]; absent or empty leaves the status alone.
    pub overridden_server_status: Option<String>,
    /// What a registration without `ephemeral` becomes.
    pub default_instance_ephemeral: bool,
    /// Shown only.
    pub health_check_white_list: Vec<String>,
}

/// The pace of one kind of probes; shown only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthParams {
    /// Longest pause between two probes, in milliseconds; 3,000 at least.
    pub max: i32,
    /// Shortest pause, in milliseconds; 500 at least.
    pub min: i32,
    /// How much of the last pause goes into the next one, 0 to 1.
    pub factor: f32,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            masters: None,
            ad_weight_map: BTreeMap::new(),
            default_push_cache_millis: 10_000,
            client_beat_interval: 5_000,
            default_cache_millis: 3_000,
            distro_threshold: 0.7,
            health_check_enabled: true,
            auto_change_health_check_enabled: true,
            distro_enabled: true,
            enable_standalone: true,
            push_enabled: true,
            check_times: 3,
            http_health_params: HealthParams { max: 5_000, min: 500, factor: 0.85 },
            tcp_health_params: HealthParams { max: 5_000, min: 1_000, factor: 0.75 },
            mysql_health_params: HealthParams { max: 3_000, min: 2_000, factor: 0.65 },
            incremental_list: Vec::new(),
            server_status_synchronization_period_millis: 2_000,
            service_status_synchronization_period_millis: 5_000,
            disable_add_ip: false,
            send_beat_only: false,
            light_beat_enabled: true,
            limited_url_map: BTreeMap::new(),
            distro_server_expired_millis: 10_000,
            push_go_version: "0.1.0".into(),
            push_java_version: "0.1.0".into(),
            push_python_version: "0.4.3".into(),
            push_c_version: "1.0.12".into(),
            push_csharp_version: "0.9.0".into(),
            enable_authentication: false,
            overridden_server_status: None,
            default_instance_ephemeral: true,
            health_check_white_list: Vec::new(),
        }
    }
}

impl Switches {
    /// The node's status: what an operator says, else UP.
    ///
    /// A node listens only after it has loaded everything, so there is no other reason not to be UP.
    #[must_use]
    pub fn status(&self) -> NodeStatus {
        let word = self.overridden_server_status.as_deref().unwrap_or_default();
        word.parse().unwrap_or_default()
    }

    /// The status code for a request to `target` (`path?query`) if an operator shut it; the longest entry counts.
    #[must_use]
    pub fn limit(&self, target: &str) -> Option<u16> {
        // Of two entries that both begin `target`, the longer one sorts behind the other.
        self.limited_url_map
            .iter()
            .rev()
            .find(|(start, _)| target.starts_with(&***start))
            .map(|(_, code)| *code)
    }

    /// Whether some request may have to be refused.
    #[must_use]
    pub fn guards(&self) -> bool {
        !self.limited_url_map.is_empty() || self.status() != NodeStatus::Up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json;

    #[test]
    fn the_table_is_shown_in_wire_order() {
        let text = String::from_utf8(json::to_bytes(&Switches::default())).unwrap();
        let expected = concat!(
            r#"{"masters":null,"adWeightMap":{},"defaultPushCacheMillis":10000,"clientBeatInterval":5000,"#,
            r#""defaultCacheMillis":3000,"distroThreshold":0.7,"healthCheckEnabled":true,"#,
            r#""autoChangeHealthCheckEnabled":true,"distroEnabled":true,"enableStandalone":true,"pushEnabled":true,"#,
            r#""checkTimes":3,"httpHealthParams":{"max":5000,"min":500,"factor":0.85},"#,
            r#""tcpHealthParams":{"max":5000,"min":1000,"factor":0.75},"#,
            r#""mysqlHealthParams":{"max":3000,"min":2000,"factor":0.65},"incrementalList":[],"#,
            r#""serverStatusSynchronizationPeriodMillis":2000,"serviceStatusSynchronizationPeriodMillis":5000,"#,
            r#""disableAddIP":false,"sendBeatOnly":false,"lightBeatEnabled":true,"limitedUrlMap":{},"#,
            r#""distroServerExpiredMillis":10000,"pushGoVersion":"0.1.0","pushJavaVersion":"0.1.0","#,
            r#""pushPythonVersion":"0.4.3","pushCVersion":"1.0.12","pushCSharpVersion":"0.9.0","#,
            r#""enableAuthentication":false,"overriddenServerStatus":null,"defaultInstanceEphemeral":true,"#,
            r#""healthCheckWhiteList":[]}"#
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn the_longest_limit_counts() {
        let limited_url_map = BTreeMap::from([("/a".into(), 404), ("/a/b".into(), 503), ("/c".into(), 500)]);
        let switches = Switches { limited_url_map, ..Switches::default() };
        let limits = ["/a/x?", "/a/b?c=1", "/ab", "/c", "/d"].map(|target| switches.limit(target));
        assert_eq!(limits, [Some(404), Some(503), Some(404), Some(500), None]);
        assert!(switches.guards());
    }

    #[test]
    fn the_status_follows_the_word() {
        let status = |word: Option<&str>| {
            let overridden_server_status = word.map(Into::into);
            Switches { overridden_server_status, ..Switches::default() }.status()
        };
        assert_eq!([status(None), status(Some("")), status(Some("UP"))], [NodeStatus::Up; 3]);
        assert_eq!(status(Some("READ_ONLY")), NodeStatus::ReadOnly);
    }
}
