//! An instance with everything that is known of it, as the catalog shows it and peers send it.
//!
//! Pure. Source: Nacos 1.4.8 naming API, its instance as JSON; compat files `catalog-instances`, `distro-data`.

use serde::Serialize;

use crate::{
    base::clock::Reading,
    model::{
        Instance, Metadata,
        entry::DEFAULT_APP,
        instance::{KEY_ID_GENERATOR, Mark},
    },
};

/// The way of making ids of an instance that asked for none.
const DEFAULT_ID_GENERATOR: &str = "simple";

/// Fields in wire order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WholeInstance<'a> {
    /// Left out where a peer sent none.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_id: Option<String>,
    ip: &'a str,
    port: i32,
    weight: f64,
    healthy: bool,
    enabled: bool,
    ephemeral: bool,
    cluster_name: &'a str,
    service_name: &'a str,
    metadata: &'a Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_beat: Option<u64>,
    marked: bool,
    app: &'a str,
    instance_heart_beat_interval: u64,
    instance_heart_beat_time_out: u64,
    ip_delete_timeout: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance_id_generator: Option<String>,
    /// What Nacre members tell each other beside.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    stamped: Option<Stamped>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stamped {
    nacre_stamp: u64,
    /// Of the description, where the health has changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    nacre_written: Option<u64>,
    /// Of the last beat, in milliseconds.
    nacre_age: u64,
}

impl<'a> WholeInstance<'a> {
    /// `instance` of the service with the grouped name `service`.
    #[must_use]
    pub fn of(instance: &'a Instance, service: &'a str, at: Reading) -> Self {
        let metadata = &instance.metadata;
        Self {
            instance_id: instance.id_text(service),
            ip: instance.ip(),
            port: instance.port,
            weight: instance.weight,
            healthy: instance.healthy(),
            enabled: instance.enabled,
            ephemeral: instance.ephemeral,
            cluster_name: instance.cluster(),
            service_name: service,
            metadata,
            last_beat: Some(at.wall_ms_of(instance.last_beat())),
            marked: instance.marked,
            app: instance.app().unwrap_or(DEFAULT_APP),
            instance_heart_beat_interval: instance.beat_interval_ms(),
            instance_heart_beat_time_out: instance.unhealthy_after_ms,
            ip_delete_timeout: instance.delete_after_ms,
            // Left out where there is metadata that doesn't speak of it.
            instance_id_generator: match metadata.is_empty() {
                true => Some(DEFAULT_ID_GENERATOR.into()),
                false => metadata.get(KEY_ID_GENERATOR),
            },
            stamped: None,
        }
    }

    /// The same, without its last beat: who reads it takes it for just beaten, by its own clock.
    #[must_use]
    pub fn beaten(instance: &'a Instance, service: &'a str, at: Reading) -> Self {
        Self { last_beat: None, ..Self::of(instance, service, at) }
    }

    /// The same for a Nacre member, with this health and stamp.
    #[must_use]
    pub fn stamped(instance: &'a Instance, mark: Mark, service: &'a str, at: Reading) -> Self {
        let age = at.now.since(instance.last_beat());
        Self {
            healthy: mark.healthy,
            stamped: Some(Stamped {
                nacre_stamp: mark.stamp,
                nacre_written: Some(instance.written_under(mark)).filter(|written| *written != mark.stamp),
                nacre_age: age,
            }),
            ..Self::of(instance, service, at)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{clock::Millis, json},
        model::instance::{Description, InstanceId},
    };

    fn shown(metadata: &str) -> String {
        let at = Reading { now: Millis(90_000), wall_ms: 1_000_000 };
        let description =
            Description { metadata: metadata.parse().unwrap(), ..Description::new("10.0.0.1", 80, "C") };
        let instance = Instance::new(description, InstanceId::Simple, Millis(89_500));
        String::from_utf8(json::to_bytes(&WholeInstance::of(&instance, "G@@s", at))).unwrap()
    }

    #[test]
    fn everything_is_shown_in_wire_order() {
        let start = r##"{"instanceId":"10.0.0.1#80#C#G@@s","ip":"10.0.0.1","port":80,"weight":1.0,"healthy":true,"enabled":true,"ephemeral":true,"clusterName":"C","serviceName":"G@@s","metadata":{},"lastBeat":999500,"marked":false,"app":"DEFAULT","instanceHeartBeatInterval":5000,"instanceHeartBeatTimeOut":15000,"ipDeleteTimeout":30000,"instanceIdGenerator":"simple"}"##;
        assert_eq!(shown(""), start);
    }

    #[test]
    fn metadata_decides_times_and_generator() {
        let text = shown("preserved.heart.beat.interval=100");
        assert!(
            text.contains(r#""instanceHeartBeatInterval":100,"#) && !text.contains("Generator"),
            "{text}"
        );
        assert!(shown("preserved.instance.id.generator=snowflake").contains(r#"Generator":"snowflake"}"#));
    }
}
