//! The wake-up: a connection that listens, and a timer for when it hears nothing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio_postgres::{AsyncMessage, Client};

use super::link::Link;
use super::{JournalError, Position, read};
use crate::journal::WAKE_UP_AT_LEAST_EVERY;

/// Keeps `head` up to date until nobody wants it. A lost connection is made again; meanwhile the timer looks.
pub(super) async fn listen(link: Arc<Link>, head: watch::Sender<Position>) {
    let mut ears = None;
    loop {
        if ears.is_none() {
            ears = open_ears(&link).await.ok();
        }
        wait(&mut ears).await;
        match read::head(&link).await {
            Ok(found) => raise(&head, found),
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be read; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Tells the other nodes, a moment after something was stored: a hint, so not part of what was stored. Many appends in
/// a row are told once.
pub(super) async fn tell(link: Arc<Link>, stored: Arc<Notify>) {
    loop {
        stored.notified().await;
        if let Err(error) = link.execute("NOTIFY toolcrib_journal", &[]).await {
            tracing::debug!(%error, "the other nodes were not told; their timers will");
        }
        tokio::time::sleep(TELL_AT_MOST_EVERY).await;
    }
}

/// Nodes that are told more often than this would do little else.
const TELL_AT_MOST_EVERY: Duration = Duration::from_millis(5);

/// Moves the known head forward, never back.
pub(super) fn raise(head: &watch::Sender<Position>, found: Position) {
    head.send_if_modified(|known| {
        let newer = *known < found;
        *known = found.max(*known);
        newer
    });
}

/// A listening connection: it lives as long as its client.
struct Ears {
    _client: Client,
    signals: mpsc::Receiver<()>,
}

/// Until something is heard, the connection is gone, or the timer fires.
async fn wait(ears: &mut Option<Ears>) {
    let timer = tokio::time::sleep(WAKE_UP_AT_LEAST_EVERY);
    let Some(Ears { signals, .. }) = ears else {
        return timer.await;
    };
    tokio::select! {
        () = timer => {}
        signal = signals.recv() => if signal.is_none() {
            *ears = None;
        }
    }
}

async fn open_ears(link: &Arc<Link>) -> Result<Ears, JournalError> {
    let (client, mut wire) = link.connect().await?;
    let (sender, signals) = mpsc::channel(1);
    let ours = Arc::clone(link);
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| wire.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            let AsyncMessage::Notification(notification) = message else { continue };
            if notification.process_id() != ours.process() {
                // A full channel already says that there is something to look at.
                sender.try_send(()).ok();
            }
        }
    });
    client
        .batch_execute("LISTEN toolcrib_journal")
        .await
        .map_err(|error| link.failure(&error, false))?;
    Ok(Ears { _client: client, signals })
}
