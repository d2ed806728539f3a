//! Builds the parts in order, wires them, waits, stops them: alone knows all modules.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitCode,
    sync::Arc,
};

use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use nacre_middleware::collect::{Limits, Routed};
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::{
    api::{Api, routes::Table},
    base::clock::Clock,
    config::{Loaded, own_address},
    cp::{self, Applied},
    model::{Registry, change::Changes},
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

/// Why the server doesn't start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Store(#[from] cp::OpenError),
}

async fn serve(loaded: Loaded) -> Result<(), StartError> {
    let settings = Arc::new(loaded.settings);
    let listening = settings.server.address.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    let listener = TcpListener::bind(SocketAddr::new(listening, settings.server.port)).await?;
    let port = listener.local_addr()?.port();
    let own = own_address::find(&settings.own_address)?;
    let clock = Clock::system();
    let changes = Arc::new(Changes::default());
    let applied = Applied {
        registry: Arc::new(Registry::new(Arc::clone(&changes), settings.naming.max_name_bytes)),
        switches: Arc::default(),
        namespaces: Arc::default(),
        clock: clock.clone(),
    };
    let api = Arc::new(Api {
        clock,
        registry: Arc::clone(&applied.registry),
        switches: Arc::clone(&applied.switches),
        namespaces: Arc::clone(&applied.namespaces),
        cp: cp::Handle::open(&settings.data_dir, applied)?,
        own_address: format!("{}:{port}", own.host).into(),
        settings: Arc::clone(&settings),
    });
    let table = Arc::new(Table::new(settings.server.context_path.as_str()));
    let limits =
        Limits { max_body_bytes: settings.http.max_body_bytes, body_timeout: settings.http.body_timeout };
    let service = stack::v1::<Incoming>(api, limits);
    println!("ready http://{}:{port}{}", own.host, settings.server.context_path.as_str());
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
