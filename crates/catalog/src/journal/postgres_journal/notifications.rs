//! Wake-up signals: a connection that listens for notifications, and a timer in case one is lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio_postgres::{AsyncMessage, Client};

use super::postgres_connection::PostgresConnection;
use super::{JournalError, Position, postgres_queries};
use crate::journal::WAKE_UP_AT_LEAST_EVERY;

/// Keeps `head` up to date until the task is aborted. A lost connection is reopened; meanwhile the timer triggers
/// reads.
pub(super) async fn follow_head(link: Arc<PostgresConnection>, head: watch::Sender<Position>) {
    let mut ears = None;
    loop {
        if ears.is_none() {
            ears = open_listener(&link).await.ok();
        }
        wait_for_signal(&mut ears).await;
        match postgres_queries::read_head(&link).await {
            Ok(found) => advance_head(&head, found),
            Err(error) => {
                tracing::warn!(%error, "the journal cannot be read; trying again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Notifies the other nodes shortly after an append. The notification is only a hint, so it is not part of the
/// transaction. Several appends in quick succession cause one notification.
pub(super) async fn send_notifications(link: Arc<PostgresConnection>, stored: Arc<Notify>) {
    loop {
        stored.notified().await;
        if let Err(error) = link.execute("NOTIFY toolcrib_journal", &[]).await {
            tracing::debug!(%error, "the other nodes were not told; their timers will");
        }
        tokio::time::sleep(NOTIFY_AT_MOST_EVERY).await;
    }
}

/// Minimum time between notifications; with more of them, nodes would do little else than react.
const NOTIFY_AT_MOST_EVERY: Duration = Duration::from_millis(5);

/// Moves the known head forward, never back.
pub(super) fn advance_head(head: &watch::Sender<Position>, found: Position) {
    head.send_if_modified(|known| {
        let newer = *known < found;
        *known = found.max(*known);
        newer
    });
}

/// A connection that listens for notifications as long as its client exists.
struct NotificationListener {
    _client: Client,
    signals: mpsc::Receiver<()>,
}

/// Waits for a notification, the loss of the connection, or the timer.
async fn wait_for_signal(ears: &mut Option<NotificationListener>) {
    let timer = tokio::time::sleep(WAKE_UP_AT_LEAST_EVERY);
    let Some(NotificationListener { signals, .. }) = ears else {
        return timer.await;
    };
    tokio::select! {
        () = timer => {}
        signal = signals.recv() => if signal.is_none() {
            *ears = None;
        }
    }
}

async fn open_listener(
    link: &Arc<PostgresConnection>,
) -> Result<NotificationListener, JournalError> {
    let (client, mut wire) = link.connect_undriven().await?;
    let (sender, signals) = mpsc::channel(1);
    let ours = Arc::clone(link);
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| wire.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            let AsyncMessage::Notification(notification) = message else { continue };
            if notification.process_id() != ours.backend_pid() {
                // If the channel is full, a signal is already pending.
                sender.try_send(()).ok();
            }
        }
    });
    client
        .batch_execute("LISTEN toolcrib_journal")
        .await
        .map_err(|error| link.map_error(&error, false))?;
    Ok(NotificationListener { _client: client, signals })
}
