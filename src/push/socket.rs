//! The one UDP socket: pushes leave from it, acknowledgements come to it.
//!
//! Source: Nacos 1.4.8 naming module, push service, which has one such socket, too; compat file `push`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;

/// What the system is asked to hold of packets that leave, and of acknowledgements that come, in bytes; it may give
/// less.
const BUFFER_BYTES: usize = 8 << 20;

/// A UDP socket that speaks to IPv4 and, where the machine does, to IPv6.
#[derive(Debug)]
pub struct PushSocket {
    socket: UdpSocket,
    is_v6: bool,
}

/// Opens it at `address`, or at all addresses of both families; at `port`, or at any other where that is taken.
///
/// # Errors
/// As the operating system says: no socket is left, the address isn't ours.
pub fn open(address: Option<IpAddr>, port: u16) -> io::Result<PushSocket> {
    let wanted = address.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
    bind(SocketAddr::new(wanted, port)).or_else(|error| match (address, error.kind()) {
        // The port is of no account: clients answer to wherever a packet came from.
        (_, io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied) if port != 0 => {
            tracing::info!(port, %error, "pushes leave from another UDP port than server.port");
            open(address, 0)
        }
        // A host without IPv6 can't make such a socket at all.
        (None, _) => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)).or_else(|error| match port {
            0 => Err(error),
            _ => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)),
        }),
        (Some(_), _) => Err(error),
    })
}

fn bind(address: SocketAddr) -> io::Result<PushSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // Small buffers only lose packets sooner.
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(PushSocket { socket: UdpSocket::from_std(socket.into())?, is_v6: address.is_ipv6() })
}

impl PushSocket {
    /// Where packets come from.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends one datagram without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while the system takes no more; else what it says of this address.
    pub fn try_send(&self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        let to = match to {
            SocketAddr::V4(v4) if self.is_v6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            to => to,
        };
        self.socket.try_send_to(bytes, to).map(drop)
    }

    /// Ready when the system takes more.
    ///
    /// # Errors
    /// As the operating system says.
    pub async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Ready when a datagram is there.
    ///
    /// # Errors
    /// As the operating system says.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Takes a datagram that is there; one that is longer than `into` is cut.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where none is.
    pub fn try_receive(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (length, from) = self.socket.try_recv_from(into)?;
        Ok((length, SocketAddr::new(from.ip().to_canonical(), from.port())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_of_no_account() {
        let first = open(None, 0).unwrap();
        let port = first.local_addr().unwrap().port();
        let second = open(None, port).unwrap();
        assert_ne!(second.local_addr().unwrap().port(), port);
    }

    #[tokio::test]
    async fn datagrams_go_and_come_in_both_families() {
        let socket = open(None, 0).unwrap();
        let port = socket.local_addr().unwrap().port();
        let mut tried = 0;
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(client) = std::net::UdpSocket::bind(local) else { continue };
            let address = client.local_addr().unwrap();
            socket.writable().await.unwrap();
            socket.try_send(b"hello", address).unwrap();
            let mut buffer = [0; 16];
            assert_eq!(client.recv(&mut buffer).unwrap(), 5);
            client.send_to(b"thanks", (address.ip(), port)).unwrap();
            socket.readable().await.unwrap();
            assert_eq!(socket.try_receive(&mut buffer).unwrap(), (6, address));
            tried += 1;
        }
        assert!(tried > 0);
    }
}
