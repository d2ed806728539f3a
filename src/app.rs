//! Builds the parts in order, wires them, waits, stops them: alone knows all modules.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre_middleware::collect::{Limits, Routed};
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::{
    api::{Api, routes::Table},
    base::clock::Clock,
    config::Loaded,
    model::{Registry, change::Changes, switches::Switches},
    stack,
};

/// Serves as the settings say until the process is told to stop.
pub fn run(loaded: Loaded) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("no threads for the server: {error}")),
    };
    match runtime.block_on(serve(loaded)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(reason: &str) -> ExitCode {
    eprintln!("nacre doesn't start: {reason}");
    ExitCode::FAILURE
}

async fn serve(loaded: Loaded) -> std::io::Result<()> {
    let settings = loaded.settings;
    let address = SocketAddr::new(settings.server.address.unwrap_or(IpAddr::from([0, 0, 0, 0])), settings.server.port);
    let changes = Arc::new(Changes::default());
    let api = Arc::new(Api {
        clock: Clock::system(),
        registry: Arc::new(Registry::new(Arc::clone(&changes), 512)),
        switches: Arc::new(ArcSwap::from_pointee(Switches::default())),
    });
    let table = Arc::new(Table::new("/nacos"));
    let limits = Limits { max_body_bytes: 10 << 20, body_timeout: Duration::from_secs(30) };
    let service = stack::v1::<Incoming>(api, limits);
    let listener = TcpListener::bind(address).await?;
    println!("ready http://{}/nacos", listener.local_addr()?);
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (service, table) = (service.clone(), Arc::clone(&table));
        let _connection = tokio::spawn(async move {
            let entry = service_fn(move |request: hyper::Request<Incoming>| {
                let facts = table.find(&request);
                service.clone().call(Routed { request, peer, facts })
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .pipeline_flush(true)
                .max_buf_size(640 << 10)
                .serve_connection(TokioIo::new(stream), entry);
            let _ = connection.await;
        });
    }
}
