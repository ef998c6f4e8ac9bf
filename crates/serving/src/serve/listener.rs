//! Where connections come from, and how the door is shut: whoever was let in before is served.

use std::io;
use std::time::Duration;

use socket2::{SockFilter, SockRef};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};

use super::listen::{Listen, Mode};
use super::socket_file::SocketFile;
use super::tls::Tls;

/// Where connections come from.
pub struct Listener(Kind);

enum Kind {
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
    Unix(SocketFile),
}

/// Somebody who came.
pub(super) enum Accepted {
    Tcp(TcpStream),
    Tls(TcpStream, Tls),
    Unix(UnixStream),
}

/// How many may wait to be let in; the system may have a lower limit. Whoever finds no room tries again after a second.
const QUEUE: u32 = 8192;
/// How long a handshake that has begun may take to reach the queue after the door was shut.
const LAST_STEPS: Duration = Duration::from_millis(100);

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self(Kind::Tcp(listener))
    }
}

impl Listener {
    /// Listens, and says where exactly.
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
        // A server that was stopped a moment ago may start again.
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

    /// Lets nobody new in, and says how long those take at most who are on the doorstep. Closing a listener cuts off
    /// everybody in its queue, so it must be empty by then and stay so.
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

/// Drops the first packet of every new connection, and nothing else: whoever sends it tries again a second later and is
/// refused, whereas one that was answered would be cut off. Byte 13 of a TCP header holds the flags (RFC 9293, 3.1).
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
