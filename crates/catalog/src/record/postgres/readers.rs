//! Searching the call log: each search has its own connection, so that none queues behind another, and the server
//! cancels it when its caller goes away. Statements are not prepared, because each search needs a plan for its own
//! values.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::journal::{JournalError, PostgresLink, SILENCE};
use crate::record::filter::Value;

/// Upper bound for concurrent searches of one node; others wait.
const AT_ONCE: usize = 4;

/// Time limit of a search, and of waiting for a permit. The server enforces the former.
const SEARCH: Duration = Duration::from_secs(30);

/// A pool of connections for searches.
pub(super) struct Readers {
    link: Arc<PostgresLink>,
    places: Semaphore,
    /// At most one idle connection is kept for the next search.
    idle: Mutex<Option<Arc<Client>>>,
}

/// A search in progress on the server; dropping this cancels it.
struct Running {
    link: Arc<PostgresLink>,
    /// `None` once the search has finished.
    client: Option<Arc<Client>>,
}

/// Why a search failed, and whether its connection is lost.
struct Failed {
    error: JournalError,
    is_gone: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        // Without a runtime, the connection is closing too.
        let Ok(runtime) = Handle::try_current() else { return };
        let link = Arc::clone(&self.link);
        runtime.spawn(async move { link.cancel(&client).await });
    }
}

impl Readers {
    pub(super) fn of(link: Arc<PostgresLink>) -> Self {
        Self { link, places: Semaphore::new(AT_ONCE), idle: Mutex::default() }
    }

    /// Runs a search, and retries it once if an idle connection turns out to be lost.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, JournalError> {
        let place = timeout(SEARCH, self.places.acquire()).await;
        let _place = place.map_err(|_| self.too_long())?.expect("the places are never closed");
        if let Some(kept) = self.kept() {
            match self.ask(kept, sql, values).await {
                Err(Failed { error, is_gone: true }) => {
                    tracing::debug!(%error, "the connection is gone, trying another");
                }
                answer => return answer.map_err(|failed| failed.error),
            }
        }
        let fresh = timeout(SILENCE, self.fresh()).await.map_err(|_| self.link.silent(false))??;
        self.ask(fresh, sql, values).await.map_err(|failed| failed.error)
    }

    async fn ask(
        &self,
        client: Arc<Client>,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, Failed> {
        let link = Arc::clone(&self.link);
        let mut running = Running { link, client: Some(Arc::clone(&client)) };
        let typed: Vec<_> = values.iter().map(typed).collect();
        let answer = timeout(SILENCE, client.query_typed(sql, &typed)).await;
        let silent = |_| Failed { error: self.link.silent(false), is_gone: false };
        let answer = answer.map_err(silent)?;
        // The server has replied, so there is nothing to cancel.
        running.client = None;
        let is_gone = client.is_closed() || answer.as_ref().is_err_and(ends_the_connection);
        if !is_gone {
            self.keep(client);
        }
        answer.map_err(|error| match error.code() {
            Some(&SqlState::QUERY_CANCELED) => Failed { error: self.too_long(), is_gone },
            _ => Failed { error: self.link.failure(&error, false), is_gone },
        })
    }

    fn kept(&self) -> Option<Arc<Client>> {
        let kept = self.idle.lock().expect("no one panics while holding the readers").take();
        kept.filter(|client| !client.is_closed())
    }

    /// Keeps the connection for the next search; if one is already kept, it is closed.
    fn keep(&self, client: Arc<Client>) {
        let mut idle = self.idle.lock().expect("no one panics while holding the readers");
        idle.get_or_insert(client);
    }

    async fn fresh(&self) -> Result<Arc<Client>, JournalError> {
        let client = self.link.fresh().await?;
        let limit = SEARCH.as_millis();
        let settings =
            format!("SET statement_timeout = {limit}; SET plan_cache_mode = force_custom_plan");
        let set = client.batch_execute(&settings).await;
        set.map_err(|error| self.link.failure(&error, false))?;
        Ok(Arc::new(client))
    }

    fn too_long(&self) -> JournalError {
        JournalError::TookTooLong { place: self.link.place(), limit: SEARCH }
    }
}

/// True if the error closes the connection: the server may announce that shortly before it does.
fn ends_the_connection(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error().map(|said| said.parsed_severity()) {
        Some(severity) => matches!(severity, Some(Severity::Fatal | Severity::Panic)),
        None => error.is_closed(),
    }
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Text(text) => (text, Type::TEXT),
        Value::Number(number) => (number, Type::INT8),
    }
}
