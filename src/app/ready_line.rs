//! What stdout says to whoever has started the process: where the node serves, and what it waits for until then.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    cluster::{Cluster, Standing},
    membership::until_loaded,
    model::Registry,
};

/// A node that is about to serve.
pub struct ReadyLine {
    /// Its host and port, as others know it.
    pub address: String,
    /// What stands before `/v1/ns`.
    pub context_path: String,
    /// Where its data lie.
    pub data: PathBuf,
    /// What it serves.
    pub registry: Arc<Registry>,
    /// From whom it loads what they have.
    pub cluster: Cluster,
}

impl ReadyLine {
    /// Says `ready`, in the log and on stdout, once the node serves; before, where it has to load the data of other members,
    /// that it waits for them.
    pub async fn tell(self) {
        let Self { address, context_path, data, registry, cluster } = self;
        let url = format!("http://{address}{context_path}");
        if cluster.view_guard().standing == Standing::Starting {
            let others = cluster.view_guard().peers.len();
            tracing::info!(
                %address,
                others,
                "waiting for the data of the other members; where none answers it serves without them after 10 s"
            );
            write_line(&format!("waiting {url} for the data of other members: {others}"));
        }
        until_loaded(cluster).await;
        let services = registry.len();
        tracing::info!(version = env!("CARGO_PKG_VERSION"), %address, data = %data.display(), services, "serving");
        write_line(&format!("ready {url}"));
    }
}

fn write_line(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        tracing::warn!(%error, line, "the ready line can't be written to stdout");
    }
}
