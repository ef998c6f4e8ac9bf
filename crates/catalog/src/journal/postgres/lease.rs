//! Leases between nodes: advisory locks of one connection, which PostgreSQL releases when that connection ends.

use std::sync::Arc;

use super::JournalError;
use super::link::{Link, Session};
use crate::journal::lease::{Leases, Place};

const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended('toolcrib lease ' || current_schema() || ' ' || $1, 0))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtextextended('toolcrib lease ' || current_schema() || ' ' || $1, 0))";

/// An advisory lock for one name.
pub(in crate::journal) struct Lock {
    link: Arc<Link>,
    session: Arc<Session>,
    /// PostgreSQL grants the same lock twice to one connection, so this process tracks its own names.
    place: Option<Place>,
}

/// Acquires the advisory lock for a name, unless it is taken.
pub(super) async fn take(
    link: Arc<Link>,
    leases: &Leases,
    name: String,
) -> Result<Option<Lock>, JournalError> {
    let Some(place) = leases.place(name) else { return Ok(None) };
    let ended = format!("lease `{}`", place.name());
    // The caller may be cancelled before the reply arrives. The task then drops the lock, which releases it.
    let asked = tokio::spawn(ask(link, place));
    asked.await.unwrap_or_else(|error| {
        let cause = error.to_string();
        Err(JournalError::Unavailable { place: ended, cause, maybe_stored: false })
    })
}

async fn ask(link: Arc<Link>, place: Place) -> Result<Option<Lock>, JournalError> {
    let session = link.session().await?;
    let rows = link.ask(&session, LOCK, &[&place.name()], false).await;
    if rows.is_err() {
        // The server may have granted the lock nevertheless: close the connection, which releases it.
        link.give_up(&session).await;
    }
    let is_ours = rows?.first().is_some_and(|row| row.get(0));
    Ok(is_ours.then(|| Lock { link, session, place: Some(place) }))
}

impl Lock {
    pub(in crate::journal) fn is_held(&self) -> bool {
        !self.session.is_closed()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Without a runtime, the connection is closing too, and PostgreSQL releases the lock.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (link, session) = (Arc::clone(&self.link), Arc::clone(&self.session));
        let Some(place) = self.place.take() else { return };
        runtime.spawn(async move {
            if let Err(error) = link.ask(&session, UNLOCK, &[&place.name()], false).await {
                tracing::debug!(%error, "a lease is given back with its connection");
                link.give_up(&session).await;
            }
            drop(place);
        });
    }
}
