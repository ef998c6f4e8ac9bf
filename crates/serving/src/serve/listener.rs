//! The listener: accepts connections, and stops accepting without cutting off clients that are already connecting.

use std::io;
use std::time::Duration;

use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};

use super::listen::{Listen, Mode};
use super::socket_file::SocketFile;
use super::tls::Tls;

/// A bound listener of any kind.
pub struct Listener(Kind);

enum Kind {
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
    Unix(SocketFile),
}

/// A new connection from a client.
pub(super) enum Accepted {
    Tcp(TcpStream),
    Tls(TcpStream, Tls),
    Unix(UnixStream),
}

/// Length of the accept queue; the kernel may have a lower limit. If the queue is full, clients retry after a second.
const QUEUE: u32 = 8192;
/// When the listener stops, time for a TCP handshake in progress to reach the accept queue.
const LAST_STEPS: Duration = Duration::from_millis(100);

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(Kind::Tcp(listener))
    }
}

impl Listener {
    /// Binds the address, and returns the actual one, with the port that the kernel chose.
    pub(super) fn open(
        listen: &Listen,
        mode: Mode,
        tls: Option<Tls>,
    ) -> io::Result<(Self, Listen)> {
        let address = match listen {
            Listen::Tcp(address) => *address,
            Listen::Unix(path) => {
                return Ok((Self(Kind::Unix(SocketFile::bind(path, mode)?)), listen.clone()));
            }
        };
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart must not wait for connections in `TIME_WAIT`.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(QUEUE)?;
        let listen = Listen::Tcp(listener.local_addr()?);
        let kind = match tls {
            Some(tls) => Kind::Tls(listener, tls),
            None => Kind::Tcp(listener),
        };
        Ok((Self(kind), listen))
    }

    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match &self.0 {
            Kind::Tcp(listener) => Ok(Accepted::Tcp(listener.accept().await?.0)),
            Kind::Tls(listener, tls) => Ok(Accepted::Tls(listener.accept().await?.0, tls.clone())),
            Kind::Unix(socket) => Ok(Accepted::Unix(socket.listener().accept().await?.0)),
        }
    }

    /// Stops new connections, and returns how long handshakes in progress may still take. Closing a listener resets
    /// every connection in its queue. Therefore the queue must be empty by then, and stay empty.
    pub(super) fn shut(&self) -> Duration {
        let shut = match &self.0 {
            Kind::Tcp(listener) | Kind::Tls(listener, _) => {
                SockRef::from(listener).attach_filter(&WITHOUT_SYN)
            }
            Kind::Unix(socket) => socket.remove(),
        };
        match shut {
            Ok(()) => LAST_STEPS,
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
const WITHOUT_SYN: [SockFilter; 4] = [
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
