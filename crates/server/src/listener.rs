//! The listener: accepts connections, and stops accepting without cutting off clients that are already connecting.

use std::io;
use std::time::Duration;

use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};

use crate::listen_address::{ListenAddress, SocketMode};
use crate::socket_file::SocketFile;
use crate::tls::ReloadingTls;

/// A bound listener of any kind.
pub struct ServerListener(ListenerKind);

enum ListenerKind {
    Tcp(TcpListener),
    Tls(TcpListener, ReloadingTls),
    Unix(SocketFile),
}

/// A new connection from a client.
pub(super) enum AcceptedConnection {
    Tcp(TcpStream),
    Tls(TcpStream, ReloadingTls),
    Unix(UnixStream),
}

/// Length of the accept queue; the kernel may have a lower limit. If the queue is full, clients retry after a second.
const ACCEPT_QUEUE_LENGTH: u32 = 8192;
/// When the listener stops, time for a TCP handshake in progress to reach the accept queue.
const HANDSHAKE_GRACE: Duration = Duration::from_millis(100);

impl From<TcpListener> for ServerListener {
    fn from(listener: TcpListener) -> Self {
        Self(ListenerKind::Tcp(listener))
    }
}

impl ServerListener {
    /// Binds the address, and returns the actual one, with the port that the kernel chose.
    pub fn bind(
        listen: &ListenAddress,
        mode: SocketMode,
        tls: Option<ReloadingTls>,
    ) -> io::Result<(Self, ListenAddress)> {
        let address = match listen {
            ListenAddress::Tcp(address) => *address,
            ListenAddress::Unix(path) => {
                return Ok((
                    Self(ListenerKind::Unix(SocketFile::bind(path, mode)?)),
                    listen.clone(),
                ));
            }
        };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections in `TIME_WAIT`.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(ACCEPT_QUEUE_LENGTH)?;
        let listen = ListenAddress::Tcp(listener.local_addr()?);
        let kind = match tls {
            Some(tls) => ListenerKind::Tls(listener, tls),
            None => ListenerKind::Tcp(listener),
        };
        Ok((Self(kind), listen))
    }

    pub(super) async fn accept(&self) -> io::Result<AcceptedConnection> {
        match &self.0 {
            ListenerKind::Tcp(listener) => Ok(AcceptedConnection::Tcp(listener.accept().await?.0)),
            ListenerKind::Tls(listener, tls) => {
                Ok(AcceptedConnection::Tls(listener.accept().await?.0, tls.clone()))
            }
            ListenerKind::Unix(socket) => {
                Ok(AcceptedConnection::Unix(socket.listener().accept().await?.0))
            }
        }
    }

    /// Stops new connections, and returns how long handshakes in progress may still take. Closing a listener resets
    /// every connection in its queue. Therefore the queue must be empty by then, and stay empty.
    pub(super) fn stop_new_connections(&self) -> Duration {
        let shut = match &self.0 {
            ListenerKind::Tcp(listener) | ListenerKind::Tls(listener, _) => {
                SockRef::from(listener).attach_filter(&DROP_SYN_FILTER)
            }
            ListenerKind::Unix(socket) => socket.remove(),
        };
        match shut {
            Ok(()) => HANDSHAKE_GRACE,
            Err(error) => {
                tracing::debug!(%error, "new connections cannot be held off: {error}");
                Duration::ZERO
            }
        }
    }
}

/// Socket filter that drops only the first packet of every new connection. The client retries a second later and is
/// rejected; without the filter, its connection would be accepted and reset. Byte 13 of a TCP header holds the flags
/// (RFC 9293, 3.1).
const DROP_SYN_FILTER: [SockFilter; 4] = [
    SockFilter::new(LOAD_BYTE, 0, 0, 13),
    SockFilter::new(JUMP_IF_ANY_BIT, 0, 1, 0x02),
    SockFilter::new(RETURN, 0, 0, 0),
    SockFilter::new(RETURN, 0, 0, u32::MAX),
];
/// `BPF_LD | BPF_B | BPF_ABS`
const LOAD_BYTE: u16 = 0x30;
/// `BPF_JMP | BPF_JSET | BPF_K`
const JUMP_IF_ANY_BIT: u16 = 0x45;
/// `BPF_RET | BPF_K`
const RETURN: u16 = 0x06;
