//! The run-time switches: their values, how each is shown, read and set.
//!
//! Pure. Source: Nacos 1.4.8 naming module, switch domain; compat files `operator-switches`,
//! `operator-switch-effects`.

use serde::{Deserialize, Serialize};

/// The switches that have an effect here, and those that are only kept and shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Switches {
    /// How long a subscriber may keep an answer, in milliseconds.
    pub default_push_cache_millis: i64,
    /// What beats are told as interval, in milliseconds.
    pub client_beat_interval: i64,
    /// How long others may keep an answer, in milliseconds.
    pub default_cache_millis: i64,
    /// Subscriptions are taken and pushes sent.
    pub push_enabled: bool,
    /// Clients may leave the body out of their beats.
    pub light_beat_enabled: bool,
    /// What a registration without `ephemeral` becomes.
    pub default_instance_ephemeral: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            default_push_cache_millis: 10_000,
            client_beat_interval: 5_000,
            default_cache_millis: 3_000,
            push_enabled: true,
            light_beat_enabled: true,
            default_instance_ephemeral: true,
        }
    }
}
