//! Leases between nodes: advisory locks of one connection, which PostgreSQL releases when that connection ends.

use std::sync::Arc;

use super::JournalError;
use super::postgres_connection::{PostgresConnection, PostgresSession};
use crate::journal::lease::{LocalLease, LocalLeases};

const TRY_LOCK_SQL: &str = "SELECT pg_try_advisory_lock(hashtextextended('toolcrib lease ' || current_schema() || ' ' || $1, 0))";
const UNLOCK_SQL: &str = "SELECT pg_advisory_unlock(hashtextextended('toolcrib lease ' || current_schema() || ' ' || $1, 0))";

/// An advisory lock for one name.
pub(in crate::journal) struct AdvisoryLock {
    connection: Arc<PostgresConnection>,
    session: Arc<PostgresSession>,
    /// PostgreSQL grants the same lock twice to one connection, so this process tracks its own names.
    local_lease: Option<LocalLease>,
}

/// Acquires the advisory lock for a name, unless it is taken.
pub(super) async fn acquire_lock(
    link: Arc<PostgresConnection>,
    leases: &LocalLeases,
    name: String,
) -> Result<Option<AdvisoryLock>, JournalError> {
    let Some(place) = leases.reserve_name(name) else { return Ok(None) };
    let ended = format!("lease `{}`", place.name());
    // The caller may be cancelled before the reply arrives. The task then drops the lock, which releases it.
    let asked = tokio::spawn(request_lock(link, place));
    asked.await.unwrap_or_else(|error| {
        let cause = error.to_string();
        Err(JournalError::Unavailable { place: ended, cause, maybe_stored: false })
    })
}

async fn request_lock(
    link: Arc<PostgresConnection>,
    place: LocalLease,
) -> Result<Option<AdvisoryLock>, JournalError> {
    let session = link.shared_session().await?;
    let rows = link.run_in_session(&session, TRY_LOCK_SQL, &[&place.name()], false).await;
    if rows.is_err() {
        // The server may have granted the lock nevertheless: close the connection, which releases it.
        link.discard_session(&session).await;
    }
    let is_ours = rows?.first().is_some_and(|row| row.get(0));
    Ok(is_ours.then(|| AdvisoryLock { connection: link, session, local_lease: Some(place) }))
}

impl AdvisoryLock {
    pub(in crate::journal) fn is_held(&self) -> bool {
        !self.session.is_closed()
    }
}

impl Drop for AdvisoryLock {
    fn drop(&mut self) {
        // Without a runtime, the connection is closing too, and PostgreSQL releases the lock.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (link, session) = (Arc::clone(&self.connection), Arc::clone(&self.session));
        let Some(place) = self.local_lease.take() else { return };
        runtime.spawn(async move {
            if let Err(error) =
                link.run_in_session(&session, UNLOCK_SQL, &[&place.name()], false).await
            {
                tracing::debug!(%error, "a lease is given back with its connection");
                link.discard_session(&session).await;
            }
            drop(place);
        });
    }
}
