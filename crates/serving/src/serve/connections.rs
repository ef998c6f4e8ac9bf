//! Connections: so many at once, none that says nothing, and none cut off when the server stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{Answers, attend};
use super::listener::{Accepted, Listener};
use super::pressure::Pressure;

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there are at once; others wait in the queue of the system.
    pub places: usize,
    /// How many requests there are at once on a connection of HTTP/2.
    pub streams: u32,
    /// How long a handshake, or the head of a request, may take.
    pub head_within: Duration,
    /// How long a connection may do nothing, or take nothing of what it is answered.
    pub idle: Duration,
    /// How long requests may go on after the server was told to stop.
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

/// How long to wait after the system refused a connection.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// Serves until told to stop, then lets everybody who came by then ask and be answered.
pub async fn serve(
    listener: impl Into<Listener>,
    doors: impl Answers,
    limits: Limits,
    stopped: impl Future<Output = ()>,
) {
    serve_under(listener, doors, limits, Arc::default(), stopped).await;
}

/// The same, where somebody else looks at how many wait.
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

/// The next connection, when there is a place for it.
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
            // A peer that is gone already, or too many open files: both pass.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted: {error}");
                tokio::time::sleep(AFTER_A_FAILURE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
