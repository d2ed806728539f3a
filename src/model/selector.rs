//! Selectors: which instances a service offers to whom.
//!
//! Pure. Only their text is kept: without labels from a CMDB plug-in a label selector filters nothing, and there is
//! no such plug-in. Source: Nacos 1.4.8 naming module, selectors; compat file `service-selector`.

use serde::{Deserialize, Serialize};

/// What a service says about who may see which of its instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Selector {
    /// Everybody sees everything.
    #[default]
    None,
    /// Consumers see providers with the same labels.
    Label {
        /// As given.
        expression: String,
        /// Names of the labels that the expression compares.
        labels: Vec<String>,
    },
}
