//! TCP proxy to the database server that can cut connections, stall them, or lose responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::server;

/// Treatment of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    Open,
    /// Connections are closed, including new ones.
    Cut,
    /// Existing connections lose the next response and are closed. New connections work.
    LosesAnswers,
    /// Connections stay open, but responses are held back until the mode changes.
    Silent,
}

pub(crate) struct Proxy {
    port: u16,
    way: watch::Sender<ProxyPhase>,
    lost: Arc<AtomicUsize>,
}

/// Mode and the number of changes before it: a connection made during a fault works until the next fault.
#[derive(Clone, Copy)]
struct ProxyPhase {
    way: ProxyMode,
    number: usize,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, watched) = watch::channel(ProxyPhase { way: ProxyMode::Open, number: 0 });
        let lost = Arc::new(AtomicUsize::new(0));
        tokio::spawn(accept(listener, watched, Arc::clone(&lost)));
        Self { port, way, lost }
    }

    pub(crate) fn set(&self, way: ProxyMode) {
        self.way.send_modify(|now| *now = ProxyPhase { way, number: now.number + 1 });
    }

    /// Number of connections closed because their response had to be lost.
    pub(crate) fn lost_count(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }

    /// URL of the same database through this proxy.
    pub(crate) fn proxied_url(&self, url: &str) -> String {
        url.replace(&server::address(), &format!("127.0.0.1:{}", self.port))
    }
}

async fn accept(listener: TcpListener, way: watch::Receiver<ProxyPhase>, lost: Arc<AtomicUsize>) {
    loop {
        let (near, _) = listener.accept().await.unwrap();
        if way.borrow().way != ProxyMode::Cut {
            tokio::spawn(forward(near, way.clone(), Arc::clone(&lost)));
        }
    }
}

/// Forwards until one side closes or the proxy is cut.
async fn forward(near: TcpStream, mut way: watch::Receiver<ProxyPhase>, lost: Arc<AtomicUsize>) {
    let Ok(far) = TcpStream::connect(server::address()).await else { return };
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let bad = way.clone();
    tokio::select! {
        _ = way.wait_for(|now| now.way == ProxyMode::Cut) => {}
        () = requests(near_read, far_write) => {}
        () = answers(far_read, near_write, bad, lost) => {}
    }
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    tokio::io::copy(&mut from, &mut to).await.ok();
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<ProxyPhase>,
    lost: Arc<AtomicUsize>,
) {
    let made_in = way.borrow().number;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let Ok(now) = way.wait_for(|now| now.way != ProxyMode::Silent).await.map(|now| *now) else {
            return;
        };
        if now.way == ProxyMode::LosesAnswers && made_in < now.number {
            lost.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
