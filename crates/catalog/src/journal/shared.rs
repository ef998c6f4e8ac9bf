//! What every store does in the same way: waiting for more, and refusing what does not follow.

use tokio::sync::watch;

use super::{JournalError, Position, Recorded, Version, WAKE_UP_AT_LEAST_EVERY};

/// Refuses an event that is not the next one.
pub(super) fn follows(
    event: &Recorded,
    position: Position,
    version: Version,
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

/// Returns when the head is after a position, or after a while.
pub(super) async fn wait_for(mut head: watch::Receiver<Position>, after: Position) {
    let moved = async {
        // Nobody tells us: only the timer does.
        if head.wait_for(|head| after < *head).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    // In time or not, the caller looks again.
    tokio::time::timeout(WAKE_UP_AT_LEAST_EVERY, moved).await.ok();
}
