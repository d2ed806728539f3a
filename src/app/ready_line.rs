//! What stdout says to whoever has started the process: where the node serves, and what it waits for until then.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    cluster::{Cluster, Standing},
    config::{Lookup, Settings},
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
    /// Why it has no members, where it has none.
    pub alone: Option<String>,
}

/// Why a node has no members, for somebody who thinks that it has some; none where it has.
pub fn why_alone(settings: &Settings) -> Option<String> {
    let membership = &settings.membership;
    (membership.lookup == Lookup::Standalone).then(|| match membership.standalone {
        Some(true) => "nacos.standalone=true".to_owned(),
        _ => format!("no list of members in {}", settings.config_dir.join("cluster.conf").display()),
    })
}

impl ReadyLine {
    /// Says `ready`, in the log and on stdout, once the node serves; before, where it has to load the data of other members,
    /// that it waits for them.
    pub async fn tell(self) {
        let Self { address, context_path, data, registry, cluster, alone } = self;
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
        until_loaded(cluster.clone()).await;
        let (version, data, services) = (env!("CARGO_PKG_VERSION"), data.display(), registry.len());
        if let Some(why) = alone {
            tracing::info!(version, %address, %data, services, %why, "serving alone");
        } else {
            let members = cluster.view_guard().peers.len() + 1;
            let list = cluster.lookup().map(|lookup| lookup.place).unwrap_or_default();
            tracing::info!(version, %address, %data, services, members, %list, "serving");
        }
        write_line(&format!("ready {url}"));
    }
}

fn write_line(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        tracing::warn!(%error, line, "the ready line can't be written to stdout");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_alone_says_why() {
        let mut settings = Settings { config_dir: "n1/conf".into(), ..Settings::default() };
        assert_eq!(why_alone(&settings).as_deref(), Some("no list of members in n1/conf/cluster.conf"));
        settings.membership.standalone = Some(true);
        assert_eq!(why_alone(&settings).as_deref(), Some("nacos.standalone=true"));
        settings.membership = Settings::default().membership;
        settings.membership.lookup = Lookup::File;
        assert_eq!(why_alone(&settings), None);
    }
}
