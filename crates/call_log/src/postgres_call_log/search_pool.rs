//! Searching the call log: each search has its own connection, so that none queues behind another, and the server
//! cancels it when its caller goes away. Statements are not prepared, because each search needs a plan for its own
//! values.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::journal::{JournalError, PostgresConnection, SERVER_TIMEOUT};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::call_filter::SqlParameter;

/// Upper bound for concurrent searches of one node; others wait.
const CONCURRENT_SEARCHES: usize = 4;

/// Time limit of a search, and of waiting for a permit. The server enforces the former.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// A pool of connections for searches.
pub(super) struct PostgresSearchPool {
    connection: Arc<PostgresConnection>,
    permits: Semaphore,
    /// At most one idle connection is kept for the next search.
    idle: Mutex<Option<Arc<Client>>>,
}

/// A search in progress on the server; dropping this cancels it.
struct CancellableSearch {
    connection: Arc<PostgresConnection>,
    /// `None` once the search has finished.
    client: Option<Arc<Client>>,
}

/// Why a search failed, and whether its connection is lost.
struct SearchFailure {
    error: JournalError,
    is_gone: bool,
}

impl Drop for CancellableSearch {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        // Without a runtime, the connection is closing too.
        let Ok(runtime) = Handle::try_current() else { return };
        let link = Arc::clone(&self.connection);
        runtime.spawn(async move { link.cancel_query(&client).await });
    }
}

impl PostgresSearchPool {
    pub(super) fn new(link: Arc<PostgresConnection>) -> Self {
        Self {
            connection: link,
            permits: Semaphore::new(CONCURRENT_SEARCHES),
            idle: Mutex::default(),
        }
    }

    /// Runs a search, and retries it once if an idle connection turns out to be lost.
    pub(super) async fn run_search(
        &self,
        sql: &str,
        values: &[SqlParameter],
    ) -> Result<Vec<Row>, JournalError> {
        let place = timeout(SEARCH_TIMEOUT, self.permits.acquire()).await;
        let _place = place.map_err(|_| self.timeout_error())?.expect("the places are never closed");
        if let Some(kept) = self.take_idle() {
            match self.search_with(kept, sql, values).await {
                Err(SearchFailure { error, is_gone: true }) => {
                    tracing::debug!(%error, "the connection is gone, trying another");
                }
                answer => return answer.map_err(|failed| failed.error),
            }
        }
        let fresh = timeout(SERVER_TIMEOUT, self.open_client())
            .await
            .map_err(|_| self.connection.timeout_error(false))??;
        self.search_with(fresh, sql, values).await.map_err(|failed| failed.error)
    }

    async fn search_with(
        &self,
        client: Arc<Client>,
        sql: &str,
        values: &[SqlParameter],
    ) -> Result<Vec<Row>, SearchFailure> {
        let link = Arc::clone(&self.connection);
        let mut running = CancellableSearch { connection: link, client: Some(Arc::clone(&client)) };
        let typed: Vec<_> = values.iter().map(typed_parameter).collect();
        let answer = timeout(SERVER_TIMEOUT, client.query_typed(sql, &typed)).await;
        let silent =
            |_| SearchFailure { error: self.connection.timeout_error(false), is_gone: false };
        let answer = answer.map_err(silent)?;
        // The server has replied, so there is nothing to cancel.
        running.client = None;
        let is_gone = client.is_closed() || answer.as_ref().is_err_and(ends_the_connection);
        if !is_gone {
            self.return_idle(client);
        }
        answer.map_err(|error| match error.code() {
            Some(&SqlState::QUERY_CANCELED) => {
                SearchFailure { error: self.timeout_error(), is_gone }
            }
            _ => SearchFailure { error: self.connection.map_error(&error, false), is_gone },
        })
    }

    fn take_idle(&self) -> Option<Arc<Client>> {
        let kept = self.idle.lock().expect("no one panics while holding the readers").take();
        kept.filter(|client| !client.is_closed())
    }

    /// Keeps the connection for the next search; if one is already kept, it is closed.
    fn return_idle(&self, client: Arc<Client>) {
        let mut idle = self.idle.lock().expect("no one panics while holding the readers");
        idle.get_or_insert(client);
    }

    async fn open_client(&self) -> Result<Arc<Client>, JournalError> {
        let client = self.connection.open_client().await?;
        let limit = SEARCH_TIMEOUT.as_millis();
        let settings =
            format!("SET statement_timeout = {limit}; SET plan_cache_mode = force_custom_plan");
        let set = client.batch_execute(&settings).await;
        set.map_err(|error| self.connection.map_error(&error, false))?;
        Ok(Arc::new(client))
    }

    fn timeout_error(&self) -> JournalError {
        JournalError::TookTooLong { place: self.connection.display_url(), limit: SEARCH_TIMEOUT }
    }
}

/// True if the error closes the connection: the server may announce that shortly before it does.
fn ends_the_connection(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error().map(|said| said.parsed_severity()) {
        Some(severity) => matches!(severity, Some(Severity::Fatal | Severity::Panic)),
        None => error.is_closed(),
    }
}

fn typed_parameter(value: &SqlParameter) -> (&(dyn ToSql + Sync), Type) {
    match value {
        SqlParameter::Text(text) => (text, Type::TEXT),
        SqlParameter::Number(number) => (number, Type::INT8),
    }
}
