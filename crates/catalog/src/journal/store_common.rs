//! Behaviour that all stores share: waiting for new events, and rejecting events out of order.

use tokio::sync::watch;

use super::{JournalError, Position, RecordedEvent, StreamVersion, WAKE_UP_AT_LEAST_EVERY};

/// Rejects an event that is not the next one of the journal and of its stream.
pub(super) fn check_next_event(
    event: &RecordedEvent,
    position: Position,
    version: StreamVersion,
) -> Result<(), JournalError> {
    if event.position == position && event.version == version {
        return Ok(());
    }
    let (stream, given) = (&event.stream, event.position);
    let cause = format!(
        "event {given} (version {} of `{stream}`) does not follow: position {position} and version {version} come next",
        event.version
    );
    Err(JournalError::DoesNotFollow { cause })
}

/// Returns when the head is after a position, or after a timeout.
pub(super) async fn wait_for_head(mut head: watch::Receiver<Position>, after: Position) {
    let moved = async {
        // The sender is gone: only the timeout remains.
        if head.wait_for(|head| after < *head).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    // In both cases the caller checks the journal.
    tokio::time::timeout(WAKE_UP_AT_LEAST_EVERY, moved).await.ok();
}
