//! The accept loop: limits the number of connections, closes idle ones, and drains all of them when the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{Answers, attend};
use super::listener::{Accepted, Listener};
use super::pressure::Pressure;

/// Limits and time-outs of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum concurrent connections; further ones wait in the accept queue of the kernel.
    pub places: usize,
    /// Maximum concurrent requests on one HTTP/2 connection.
    pub streams: u32,
    /// Maximum duration of a TLS handshake, and of receiving a request head.
    pub head_within: Duration,
    /// How long a connection may be idle, or may accept no byte of its response.
    pub idle: Duration,
    /// How long requests may continue after the stop signal.
    pub last_answers: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            places: 16_384,
            streams: 100,
            head_within: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            last_answers: Duration::from_secs(30),
        }
    }
}

/// Delay after the kernel failed to accept a connection.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// Serves until `stopped` resolves. Every client that has connected by then may still send a request and is answered.
pub async fn serve(
    listener: impl Into<Listener>,
    doors: impl Answers,
    limits: Limits,
    stopped: impl Future<Output = ()>,
) {
    serve_under(listener, doors, limits, Arc::default(), stopped).await;
}

/// Like `serve_connections`, with a load shedder that the caller also reads.
pub(crate) async fn serve_under(
    listener: impl Into<Listener>,
    doors: impl Answers,
    limits: Limits,
    pressure: Arc<Pressure>,
    stopped: impl Future<Output = ()>,
) {
    let (listener, places) = (listener.into(), Arc::new(Semaphore::new(limits.places)));
    let stopping = watch::Sender::new(false);
    let mut watch = JoinSet::new();
    watch.spawn(Arc::clone(&pressure).watch());
    let mut connections = JoinSet::new();
    let welcome = |connections: &mut JoinSet<()>, accepted, place| {
        while connections.try_join_next().is_some() {}
        let pressure = Arc::clone(&pressure);
        let attended = attend(accepted, doors.clone(), pressure, limits, stopping.subscribe());
        connections.spawn(async move {
            let _place: OwnedSemaphorePermit = place;
            attended.await;
        });
    };
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            (accepted, place) = accept(&listener, &places) => welcome(&mut connections, accepted, place),
            () = &mut stopped => break,
        }
    }
    stopping.send_replace(true);
    let last = async {
        let last_steps = listener.shut();
        loop {
            let place = free(&places).await;
            let Ok(accepted) = tokio::time::timeout(last_steps, next(&listener)).await else {
                break;
            };
            welcome(&mut connections, accepted, place);
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    };
    if tokio::time::timeout(limits.last_answers, last).await.is_err() {
        tracing::warn!("some requests did not end in time and are dropped");
    }
    connections.shutdown().await;
}

/// Accepts the next connection as soon as a permit is free.
async fn accept(listener: &Listener, places: &Arc<Semaphore>) -> (Accepted, OwnedSemaphorePermit) {
    let place = free(places).await;
    (next(listener).await, place)
}

async fn free(places: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(places).acquire_owned().await.expect("the places are never closed")
}

async fn next(listener: &Listener) -> Accepted {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The peer has already disconnected, or too many files are open: both are temporary.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted: {error}");
                tokio::time::sleep(AFTER_A_FAILURE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
