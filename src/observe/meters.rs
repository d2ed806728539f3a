//! The counters that live here rather than in the module that they are about.

use super::{
    beats::Beats,
    connections::Connections,
    forwards::Forwards,
    limited::Limited,
    requests::{Label, Requests},
};

/// Counters of the edges: requests, beats, connections, forwards.
#[derive(Debug)]
pub struct Meters {
    /// Answers by route.
    pub requests: Requests,
    /// Beats by what they met.
    pub beats: Beats,
    /// Connections.
    pub connections: Connections,
    /// Writes that are passed on to other members.
    pub forwards: Forwards,
    /// Requests that were refused for their number.
    pub limited: Limited,
    /// Held by whoever reads all sizes: one at a time, since it costs a look at every instance.
    pub reading: tokio::sync::Mutex<()>,
}

impl Meters {
    /// Counters for the routes with these labels.
    ///
    /// They are needed until the process ends, and are kept until then: so a request borrows them, and no count of
    /// references goes from core to core.
    #[must_use]
    pub fn new(routes: impl IntoIterator<Item = Label>) -> &'static Self {
        Box::leak(Box::new(Self {
            requests: Requests::new(routes),
            beats: Beats::default(),
            connections: Connections::default(),
            forwards: Forwards::default(),
            limited: Limited::default(),
            reading: tokio::sync::Mutex::default(),
        }))
    }
}
