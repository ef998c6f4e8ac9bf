//! The accept loop: limits the number of connections, closes idle ones, and drains all of them when the server stops.

use std::sync::Arc;
use std::time::Duration;

use config::connection_limits::ConnectionLimits;
use endpoint::load_shedding::LoadShedder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::connection::{RequestHandler, drive_connection};
use crate::listener::{AcceptedConnection, ServerListener};

/// Delay after the kernel failed to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves until `stopped` resolves. Every client that has connected by then may still send a request and is answered.
pub async fn serve_connections(
    listener: impl Into<ServerListener>,
    handler: impl RequestHandler,
    limits: ConnectionLimits,
    stopped: impl Future<Output = ()>,
) {
    serve_with_load_shedding(listener, handler, limits, Arc::default(), stopped).await;
}

/// Like `serve_connections`, with a load shedder that the caller also reads.
pub async fn serve_with_load_shedding(
    listener: impl Into<ServerListener>,
    handler: impl RequestHandler,
    limits: ConnectionLimits,
    pressure: Arc<LoadShedder>,
    stopped: impl Future<Output = ()>,
) {
    let (listener, places) = (listener.into(), Arc::new(Semaphore::new(limits.max_connections)));
    let stopping = watch::Sender::new(false);
    let mut watch = JoinSet::new();
    watch.spawn(Arc::clone(&pressure).adjust_limit_forever());
    let mut connections = JoinSet::new();
    let welcome = |connections: &mut JoinSet<()>, accepted, place| {
        while connections.try_join_next().is_some() {}
        let pressure = Arc::clone(&pressure);
        let attended =
            drive_connection(accepted, handler.clone(), pressure, limits, stopping.subscribe());
        connections.spawn(async move {
            let _place: OwnedSemaphorePermit = place;
            attended.await;
        });
    };
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            (accepted, place) = accept_with_permit(&listener, &places) => welcome(&mut connections, accepted, place),
            () = &mut stopped => break,
        }
    }
    stopping.send_replace(true);
    let last = async {
        let last_steps = listener.stop_new_connections();
        loop {
            let place = acquire_permit(&places).await;
            let Ok(accepted) = tokio::time::timeout(last_steps, accept_with_retry(&listener)).await
            else {
                break;
            };
            welcome(&mut connections, accepted, place);
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    };
    if tokio::time::timeout(limits.drain_timeout, last).await.is_err() {
        tracing::warn!("some requests did not end in time and are dropped");
    }
    connections.shutdown().await;
}

/// Accepts the next connection as soon as a permit is free.
async fn accept_with_permit(
    listener: &ServerListener,
    places: &Arc<Semaphore>,
) -> (AcceptedConnection, OwnedSemaphorePermit) {
    let place = acquire_permit(places).await;
    (accept_with_retry(listener).await, place)
}

async fn acquire_permit(places: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(places).acquire_owned().await.expect("the places are never closed")
}

async fn accept_with_retry(listener: &ServerListener) -> AcceptedConnection {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // The peer has already disconnected, or too many files are open: both are temporary.
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted: {error}");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
