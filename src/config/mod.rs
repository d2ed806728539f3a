//! Settings: what the operator decides, read once at start, from file, environment and command line.
//!
//! ```text
//! --set ─┐
//! environment ─► environment ─┐                       keys: THE table
//! file ─► properties ─────────┴─► sources ─► placeholders ─► values ─► Settings
//!                                    └─► SettingError (all of them) | Notice
//! ```
//!
//! [`crate::config::load`] decides and is pure but for the file reader it is given; [`crate::config::own_address::find`]
//! asks the machine. Source: `conf/application.properties` of Nacos 1.4.8, its start script, its container image.

mod cluster_settings;
mod environment;
mod files;
mod findings;
mod keys;
mod legacy_settings;
mod mode;
pub mod own_address;
mod placeholders;
mod properties;
mod proxy_settings;
mod settings;
mod sources;
mod values;

pub use cluster_settings::{
    AddressServerSettings, ClusterSettings, DistroSettings, DnsName, ForwardSettings, Lookup, LookupType,
    Mapping, MemberMeta, MembershipSettings, PART_BYTES, Secret,
};
pub use files::{read_file, read_in_time, read_regular};
pub use findings::{Notice, Place, SettingError, Severity};
pub use legacy_settings::{LegacyNaming, LegacyServer, LegacySettings};
pub use mode::WAYS as WAYS_TO_MEMBERS;
pub use proxy_settings::{ProxyLog, ProxySettings};
pub use settings::{
    HttpSettings, LimitSettings, LogFormat, LogSettings, NamingSettings, OwnAddressRules, PushSettings,
    PushTargets, ServerSettings, Settings,
};
pub use sources::{Loaded, Sources, load};
pub use values::{ContextPath, Network, Pattern, PushAgent, Via};
