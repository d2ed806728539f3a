//! The one seam to sockets: binding and connecting.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// Listens on `address`, or on all addresses of both families.
///
/// # Errors
/// As the operating system says: in use, not ours, not allowed.
pub fn listen(address: Option<IpAddr>, port: u16) -> io::Result<TcpListener> {
    match address {
        Some(address) => bind(SocketAddr::new(address, port), false),
        // A host without IPv6 can't make such a socket at all.
        None => bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port), true).or_else(|error| match error
            .kind()
        {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            _ => bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port), false),
        }),
    }
}

fn bind(address: SocketAddr, both_families: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if both_families {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Connects to `to`, from the address `from` where it is of the same family, at any port.
///
/// # Errors
/// As the operating system says; see [`is_unreachable`] for what says that nobody is there.
pub async fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to the first of these addresses that answers, from the address `from` as [`connect`] does.
///
/// # Errors
/// What the last one said, or that there is none.
pub async fn connect_to_one_of(
    addresses: impl Iterator<Item = SocketAddr>,
    from: Option<IpAddr>,
) -> io::Result<TcpStream> {
    let mut outcome = Err(io::Error::new(io::ErrorKind::HostUnreachable, "the name has no address"));
    for address in addresses {
        outcome = connect(address, from).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Whether a failure to connect means that nobody listens there, and not that this host has no files or ports left.
#[must_use]
pub fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
        NetworkUnreachable,
    };
    matches!(
        error.kind(),
        ConnectionRefused
            | ConnectionReset
            | ConnectionAborted
            | BrokenPipe
            | HostUnreachable
            | NetworkUnreachable
    )
}

/// Whether an address is one of this host's: whether a socket can be bound to it.
#[must_use]
pub fn is_of_this_host(address: IpAddr) -> bool {
    !address.is_unspecified() && std::net::UdpSocket::bind(SocketAddr::new(address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_comes_from_the_address_that_was_asked_for() {
        let listener = listen(Some([127, 0, 20, 1].into()), 0).unwrap();
        let to = listener.local_addr().unwrap();
        let _stream = connect(to, Some([127, 0, 20, 2].into())).await.unwrap();
        assert_eq!(listener.accept().await.unwrap().1.ip(), IpAddr::from([127, 0, 20, 2]));
        drop(listener);
        assert!(is_unreachable(&connect(to, None).await.unwrap_err()));
        // An address of documentation: no host has it.
        let strange = connect(to, Some([192, 0, 2, 1].into())).await.unwrap_err();
        assert!(!is_unreachable(&strange), "{strange}");
    }

    #[test]
    fn the_addresses_of_this_host_are_known() {
        assert!(is_of_this_host([127, 0, 20, 7].into()));
        assert!(!is_of_this_host([192, 0, 2, 1].into()));
        assert!(!is_of_this_host([0, 0, 0, 0].into()));
    }

    #[tokio::test]
    async fn both_families_are_served_where_no_address_is_given() {
        let listener = listen(None, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let taken = listen(None, port).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(taken, Err(io::ErrorKind::AddrInUse));
    }
}
