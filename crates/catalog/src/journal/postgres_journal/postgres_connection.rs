//! The PostgreSQL connection: opened on demand, and reopened after it was lost.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{JournalError, postgres_schema};

/// The URL of a PostgreSQL journal. Its `Display` omits the password.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    root_certificates: Option<String>,
}

impl FromStr for PostgresUrl {
    type Err = JournalError;

    /// Reads `postgres://user:password@host:port/database?sslmode=require&sslrootcert=FILE`.
    fn from_str(text: &str) -> Result<Self, JournalError> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let ours = |part: &&str| part.starts_with("sslrootcert=");
        let root_certificates = query.split('&').find(ours).and_then(|part| part.split_once('='));
        let others: Vec<_> =
            query.split('&').filter(|part| !part.is_empty() && !ours(part)).collect();
        let parsed = format!("{address}?{}", others.join("&")).parse::<Config>();
        let mut config = parsed.map_err(|error| JournalError::CannotOpen {
            place: "postgres".to_owned(),
            cause: format!("its URL: {}", error_chain(&error)),
        })?;
        config.connect_timeout(Duration::from_secs(5));
        config.keepalives_idle(Duration::from_secs(20));
        config.tcp_user_timeout(Duration::from_secs(30));
        config.application_name("toolcrib");
        Ok(Self { config, root_certificates: root_certificates.map(|(_, file)| file.to_owned()) })
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
            #[cfg(unix)]
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().unwrap_or(&5432);
        write!(f, "postgres://{host}:{port}/{}", self.config.get_dbname().unwrap_or(""))
    }
}
impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Time limit for a reply of the server. The server's own limits (30 s) are slightly shorter.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(35);

/// A connection that is reopened when it is lost.
pub struct PostgresConnection {
    url: PostgresUrl,
    tls: MakeRustlsConnect,
    state: Mutex<SessionState>,
    /// The schema that contains the tables, once it is known.
    schema: Arc<OnceLock<String>>,
    /// Backend process id of the session: notifications from it report our own appends.
    backend_pid: AtomicI32,
}

/// The live session, or the error of the last attempt to open one.
#[derive(Default)]
struct SessionState {
    session: Option<Arc<PostgresSession>>,
    failed: Option<(Instant, JournalError)>,
}

/// For this time after a failed attempt, waiting callers get the same error instead of trying to connect themselves.
const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// A live connection with its prepared statements by SQL text.
pub(super) struct PostgresSession {
    client: Client,
    prepared: Mutex<HashMap<String, Statement>>,
}

impl PostgresSession {
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn run_statement(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let mut prepared = self.prepared.lock().await;
        let statement = match prepared.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.client.prepare(sql).await?;
                prepared.insert(sql.to_owned(), statement.clone());
                statement
            }
        };
        drop(prepared);
        self.client.query(&statement, parameters).await
    }
}

pub(super) type ConnectionDriver =
    Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl PostgresConnection {
    pub fn new(url: PostgresUrl) -> Result<Self, JournalError> {
        let tls = MakeRustlsConnect::new(tls_config(&url)?);
        let schema = Arc::default();
        Ok(Self { url, tls, state: Mutex::default(), schema, backend_pid: AtomicI32::new(0) })
    }

    /// A separate connection to the same database.
    pub(super) fn separate_connection(&self) -> Self {
        Self {
            url: self.url.clone(),
            tls: self.tls.clone(),
            state: Mutex::default(),
            schema: Arc::clone(&self.schema),
            backend_pid: AtomicI32::new(0),
        }
    }

    /// A new connection whose driver the caller has to poll.
    pub(super) async fn connect_undriven(
        &self,
    ) -> Result<(Client, ConnectionDriver), JournalError> {
        self.url
            .config
            .connect(self.tls.clone())
            .await
            .map_err(|error| self.map_error(&error, false))
    }

    /// A new connection with our settings; a background task drives it.
    pub async fn open_client(&self) -> Result<Client, JournalError> {
        let (client, wire) = self.connect_undriven().await?;
        // Errors reach the caller through the client, so the result of the driver is ignored.
        tokio::spawn(async move { drop(wire.await) });
        let sql = |error: tokio_postgres::Error| self.map_error(&error, false);
        client.batch_execute(postgres_schema::SESSION_SETTINGS_SQL).await.map_err(sql)?;
        let schema = match self.schema.get() {
            Some(schema) => schema.clone(),
            None => {
                let row =
                    client.query_one(postgres_schema::FIND_SCHEMA_SQL, &[]).await.map_err(sql)?;
                let found: Option<String> = row.get(0);
                let found = found.ok_or_else(|| JournalError::CannotOpen {
                    place: self.display_url(),
                    cause: "no schema is selected: set the search path of the user".to_owned(),
                })?;
                self.schema.get_or_init(|| found).clone()
            }
        };
        // A schema that is created later, or that comes first on a changed search path, must not hide the journal.
        let path = format!("SET search_path TO \"{}\"", schema.replace('"', "\"\""));
        client.batch_execute(&path).await.map_err(sql)?;
        Ok(client)
    }

    /// The shared session, reopened if it was lost.
    pub(super) async fn shared_session(&self) -> Result<Arc<PostgresSession>, JournalError> {
        let mut connected = self.state.lock().await;
        if let Some(live) = connected.session.as_ref().filter(|session| !session.client.is_closed())
        {
            return Ok(Arc::clone(live));
        }
        if let Some((at, error)) = &connected.failed
            && at.elapsed() < RECONNECT_AFTER
        {
            return Err(error.clone());
        }
        match self.open_session().await {
            Ok(session) => {
                *connected = SessionState { session: Some(Arc::clone(&session)), failed: None };
                Ok(session)
            }
            Err(error) => {
                connected.failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn open_session(&self) -> Result<Arc<PostgresSession>, JournalError> {
        let connect = async {
            let client = self.open_client().await?;
            let row = client.query_one("SELECT pg_backend_pid()", &[]).await;
            let row = row.map_err(|error| self.map_error(&error, false))?;
            self.backend_pid.store(row.get(0), Ordering::Relaxed);
            Ok(Arc::new(PostgresSession { client, prepared: Mutex::default() }))
        };
        tokio::time::timeout(SERVER_TIMEOUT, connect)
            .await
            .map_err(|_| self.timeout_error(false))?
    }

    pub fn timeout_error(&self, maybe_stored: bool) -> JournalError {
        let (place, cause) =
            (self.display_url(), format!("it has been silent for {SERVER_TIMEOUT:?}"));
        JournalError::Unavailable { place, cause, maybe_stored }
    }

    /// Runs a read-only query, and retries it once if the connection turns out to be lost.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, JournalError> {
        let session = self.shared_session().await?;
        match self.run_in_session(&session, sql, parameters, false).await {
            Err(error) if session.client.is_closed() => {
                tracing::debug!(%error, "the connection is gone, trying another");
                let session = self.shared_session().await?;
                self.run_in_session(&session, sql, parameters, false).await
            }
            result => result,
        }
    }

    /// Runs a statement that changes something, once: the caller decides whether to repeat it.
    pub(super) async fn execute(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, JournalError> {
        let session = self.shared_session().await?;
        self.run_in_session(&session, sql, parameters, true).await
    }

    /// Runs a statement with a time limit. If the server does not reply in time, the connection is discarded.
    pub(super) async fn run_in_session(
        &self,
        session: &Arc<PostgresSession>,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
        writing: bool,
    ) -> Result<Vec<Row>, JournalError> {
        match tokio::time::timeout(SERVER_TIMEOUT, session.run_statement(sql, parameters)).await {
            Ok(result) => result.map_err(|error| self.map_error(&error, writing)),
            Err(_) => {
                self.discard_session(session).await;
                Err(self.timeout_error(writing))
            }
        }
    }

    /// Stops using a session. Its connection closes when the last holder drops it.
    pub(super) async fn discard_session(&self, session: &Arc<PostgresSession>) {
        let mut connected = self.state.lock().await;
        if connected.session.as_ref().is_some_and(|known| Arc::ptr_eq(known, session)) {
            connected.session = None;
        }
    }

    /// Asks the server to cancel the current query of a client.
    pub async fn cancel_query(&self, client: &Client) {
        let token = client.cancel_token();
        match tokio::time::timeout(SERVER_TIMEOUT, token.cancel_query(self.tls.clone())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a query that nobody wants goes on"),
            Err(_) => tracing::debug!("a query that nobody wants goes on: the server is silent"),
        }
    }

    pub(super) fn backend_pid(&self) -> i32 {
        self.backend_pid.load(Ordering::Relaxed)
    }

    pub fn display_url(&self) -> String {
        self.url.to_string()
    }

    /// Maps a failed call to the error that tells the reader how to react. `writing`: the change may have been stored.
    pub fn map_error(&self, error: &tokio_postgres::Error, writing: bool) -> JournalError {
        let (place, cause) = (self.display_url(), error_chain(error));
        let Some(code) = error.code() else {
            return JournalError::Unavailable { place, cause, maybe_stored: writing };
        };
        let refused = JournalError::Unavailable {
            place: place.clone(),
            cause: cause.clone(),
            maybe_stored: false,
        };
        match *code {
            SqlState::DISK_FULL => return JournalError::Full { place },
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
                return JournalError::Damaged { place, cause };
            }
            // The server reports these before a commit, so nothing is stored, and a retry may succeed.
            SqlState::QUERY_CANCELED | SqlState::READ_ONLY_SQL_TRANSACTION => return refused,
            _ => {}
        }
        match code.code().get(..2) {
            // Rolled back, out of resources, or not available: a retry may succeed.
            Some("40" | "53" | "55") => refused,
            // The connection or the server is shutting down, possibly after the commit.
            Some("08" | "57") => JournalError::Unavailable { place, cause, maybe_stored: writing },
            Some("28" | "3D") => JournalError::CannotOpen { place, cause },
            _ => JournalError::Refused { place, cause },
        }
    }
}

/// The message with its causes: that of the driver alone says only "db error".
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

fn tls_config(url: &PostgresUrl) -> Result<rustls::ClientConfig, JournalError> {
    let cannot = |cause: String| JournalError::CannotOpen { place: url.to_string(), cause };
    let mut roots = rustls::RootCertStore::empty();
    match &url.root_certificates {
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let certificates =
                read.map_err(|error| cannot(format!("sslrootcert `{file}`: {error}")))?;
            roots.add_parsable_certificates(certificates);
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| cannot(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
