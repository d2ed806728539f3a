//! Builds the parts in order, wires them, waits, stops them: alone knows all modules.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre_middleware::collect::{Limits, Routed};
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::{
    api::{Api, routes::Table},
    base::clock::Clock,
    model::{Registry, change::Changes, switches::Switches},
    stack,
};

/// Serves on `address` until the process ends.
///
/// # Errors
/// What binding the address gave.
pub async fn run(address: SocketAddr) -> std::io::Result<()> {
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
