//! Connections to the servers that requests are passed on to.

use std::{
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{BoxFuture, FutureExt as _};
use nacre_middleware::pool::{ConnectFault, Origin};
use tokio::net::TcpStream;
use tower_service::Service;

use super::net;

/// Connects by TCP. How long that may take is for the caller; a name is resolved for each connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dial {
    /// The address to connect from; any, where it is none of this host's.
    pub from: Option<IpAddr>,
}

impl Dial {
    async fn connect(self, to: &Origin) -> Result<TcpStream, ConnectFault> {
        let connected = match to.address {
            Some(address) => net::connect(address, self.from).await,
            None => {
                let addresses = tokio::net::lookup_host(&*to.authority).await;
                let addresses = addresses.map_err(|error| ConnectFault::Unresolved(error.to_string()))?;
                net::connect_to_one_of(addresses, self.from).await
            }
        };
        connected.map_err(|error| {
            let text = error.to_string();
            if net::is_unreachable(&error) {
                ConnectFault::Refused(text)
            } else {
                ConnectFault::Impossible(text)
            }
        })
    }
}

impl Service<Arc<Origin>> for Dial {
    type Response = TcpStream;
    type Error = ConnectFault;
    type Future = BoxFuture<'static, Result<TcpStream, ConnectFault>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectFault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Arc<Origin>) -> Self::Future {
        let dial = *self;
        async move { dial.connect(&to).await }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_listens_is_reached_and_who_doesnt_has_refused() {
        let listener = net::listen(Some([127, 0, 0, 1].into()), 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        for authority in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
            Dial::default().call(Arc::new(Origin::plain(&authority))).await.unwrap();
        }
        drop(listener);
        let fault = async |authority: &str| {
            Dial::default().call(Arc::new(Origin::plain(authority))).await.unwrap_err()
        };
        let refused = fault(&format!("127.0.0.1:{port}")).await;
        assert!(matches!(refused, ConnectFault::Refused(_)), "{refused}");
        let unresolved = fault("name.invalid:80").await;
        assert!(matches!(unresolved, ConnectFault::Unresolved(_)), "{unresolved}");
    }
}
