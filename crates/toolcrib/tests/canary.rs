//! Leak test: canary secrets are entered through every input, and searched for in every output and store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::{Debug, Write as _};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use catalog::source::{SourceCommand, SyncError};
use model::{NewSource, SourceUrl, UpstreamAuth};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio_postgres::NoTls;
use toolcrib::{
    Catalog, ChangeContext, Command, JournalLocation, SealingKey, SecretStore, SystemClock,
};

const ENVIRONMENT: &str = "canary-in-the-environment-81f3";
const FILE: &str = "canary-in-a-file-2c77";
const SEALED: &str = "canary-sealed-9e05";
const KEY: &str = "canary-key-4b6d-4b6d-4b6d-4b6d-4b6d";
const PASSWORD: &str = "canary-password-70aa";
const GIVEN: &str = "canary-given-as-it-is-13d8";
const NUMBER: &str = "7310048812";
const ALL: [&str; 7] = [ENVIRONMENT, FILE, SEALED, KEY, PASSWORD, GIVEN, NUMBER];

/// Everything that was logged or returned.
#[derive(Clone, Default)]
struct CapturedOutput(Arc<Mutex<String>>);

impl CapturedOutput {
    fn append_debug(&self, said: impl Debug) {
        writeln!(self.0.lock().unwrap(), "{said:?}").unwrap();
    }
}

impl io::Write for CapturedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn search(place: &str, text: &[u8]) {
    for canary in ALL {
        let plain = canary.as_bytes();
        let hex: String = plain.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = "Y2FuYXJ5"; // base64 of the prefix `canary`
        for form in [plain, hex.as_bytes(), base64.as_bytes()] {
            let found = text.windows(form.len()).any(|window| window == form);
            assert!(!found, "`{canary}` stands in {place}");
        }
    }
}

/// Literal secrets in place of references. All are refused.
fn literal_secrets() -> Vec<Value> {
    let url = "https://id.example.com/token";
    let mut all = Vec::new();
    for secret in [json!(GIVEN), json!(NUMBER.parse::<u64>().unwrap()), json!([GIVEN])] {
        all.extend([
            json!({"kind": "api_key", "location": "header", "name": "X-Key", "value": secret}),
            json!({"kind": "basic", "username": "me", "password": secret}),
            json!({"kind": "bearer", "token": secret}),
            json!({"kind": "client_credentials", "token_url": url, "client_id": "c", "client_secret": secret}),
            json!({"kind": "token_exchange", "token_url": url, "client_id": "c", "audience": "a", "client_secret": secret}),
        ]);
    }
    all
}

fn source(id: &str, auth: &Value, settings: &Value) -> Result<NewSource, serde_json::Error> {
    let profile =
        json!({"name": id, "url": "https://api.example.com", "auth": auth, "settings": settings});
    serde_json::from_str(&json!({"id": id, "profile": profile}).to_string())
}

async fn run_all_operations(place: &JournalLocation, folder: &Path, heard: &CapturedOutput) {
    let journal = place.open(SystemClock).await.unwrap();
    let key = SealingKey::new(&SecretString::from(KEY)).unwrap();
    heard.append_debug(&key);
    let environment = |name: &str| (name == "TOKEN").then(|| ENVIRONMENT.to_owned());
    let secrets = SecretStore::new(Arc::clone(&journal), Some(key), SystemClock, environment);
    let file = folder.join("outside").join("token");
    heard.append_debug(secrets.seal_secret("billing", &SecretString::from(SEALED)).await.unwrap());

    for auth in literal_secrets() {
        heard.append_debug(
            serde_json::from_str::<UpstreamAuth>(&auth.to_string()).unwrap_err().to_string(),
        );
        heard.append_debug(
            source("refused", &auth, &json!({"kind": "openapi"})).unwrap_err().to_string(),
        );
    }
    let with_password = format!("https://me:{PASSWORD}@api.example.com/");
    let error = with_password.parse::<SourceUrl>().unwrap_err();
    heard.append_debug((error.to_string(), &error));
    let command =
        json!({"kind": "mcp", "command": {"program": "server", "environment": {"API_KEY": GIVEN}}});
    heard.append_debug(
        source("refused", &json!({"kind": "none"}), &command).unwrap_err().to_string(),
    );

    let catalog = Catalog::open(journal).await.unwrap();
    let references =
        ["env:TOKEN".to_owned(), format!("file:{}", file.display()), "sealed:billing".to_owned()];
    for (reference, number) in references.iter().zip(0..) {
        let auth = json!({"kind": "bearer", "token": reference});
        let command = json!({"kind": "mcp", "command": {"program": "server", "environment": {"KEY": reference}}});
        let new = source(&format!("source-{number}"), &auth, &command).unwrap();
        heard.append_debug(&new);
        let register = Command::Source(new.id.clone(), SourceCommand::Register(new.profile));
        let key = format!("register {number}");
        heard.append_debug(
            catalog.execute(register, ChangeContext::by_actor("admin"), Some(&key)).await.unwrap(),
        );

        let value = secrets.read_secret(&reference.parse().unwrap()).await.unwrap();
        heard.append_debug(&value);
        let answer = format!("401 Unauthorized: `{}` is not a token", value.expose_secret());
        let error =
            SyncError { code: "spec_fetch_failed".into(), message: secrets.redact(&answer).into() };
        let fail = Command::Source(new.id, SourceCommand::FailSync(error));
        heard.append_debug(
            catalog.execute(fail, ChangeContext::by_actor("refresher"), None).await.unwrap(),
        );
    }
    for missing in ["env:OTHER", "file:/not/there", "sealed:other"] {
        heard.append_debug(
            secrets.read_secret(&missing.parse().unwrap()).await.unwrap_err().to_string(),
        );
    }
    catalog.checkpoint_now().await.unwrap();
    let journal = Arc::clone(catalog.journal());
    toolcrib::export_journal(&*journal, |line| {
        heard.append_debug(line);
        Ok(())
    })
    .await
    .unwrap();
    for entry in catalog.snapshot().sources() {
        heard.append_debug(entry);
    }
    heard.append_debug(
        toolcrib::verify_journal(&*journal, &catalog.snapshot(), |_| {}).await.unwrap(),
    );
    // Replace the secret, then remove it: the old value must not survive anywhere either.
    secrets.seal_secret("billing", &SecretString::from(SEALED)).await.unwrap();
    secrets.remove_secret("billing").await.unwrap();
    catalog.close().await;
}

fn capture_output() -> (CapturedOutput, tracing::subscriber::DefaultGuard) {
    let heard = CapturedOutput::default();
    let log = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || log.clone());
    (heard, tracing::subscriber::set_default(subscriber.finish()))
}

fn folder_with_file() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("outside")).unwrap();
    std::fs::write(folder.path().join("outside").join("token"), FILE).unwrap();
    folder
}

#[tokio::test]
async fn no_secret_reaches_a_file_or_an_output_with_sqlite() {
    let (heard, _guard) = capture_output();
    let folder = folder_with_file();
    let database = folder.path().join("canary.db");
    let place = database.display().to_string().parse().unwrap();
    run_all_operations(&place, folder.path(), &heard).await;
    search("what was said", heard.0.lock().unwrap().as_bytes());
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            search(&path.display().to_string(), &std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    assert!(1 < files, "the database and its lock file at least");
}

#[expect(clippy::disallowed_methods, reason = "the test command says where its server is")]
fn server() -> String {
    std::env::var("TOOLCRIB_TEST_POSTGRES").expect(
        "run the tests through `cargo xtask test`, or start a server with `cargo xtask postgres`",
    )
}

#[tokio::test]
async fn no_secret_reaches_a_table_or_an_output_with_postgresql() {
    let (heard, _guard) = capture_output();
    let folder = folder_with_file();
    let server = server();
    let (admin, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    admin.batch_execute("DROP DATABASE IF EXISTS canary WITH (FORCE)").await.unwrap();
    admin.batch_execute("CREATE DATABASE canary").await.unwrap();
    let url = format!("{}/canary", server.rsplit_once('/').unwrap().0);
    let with_password = url.replace("postgres@", &format!("postgres:{PASSWORD}@"));
    let place: JournalLocation = with_password.parse().unwrap();
    heard.append_debug((&place, place.to_string()));
    run_all_operations(&place, folder.path(), &heard).await;
    let wrong: JournalLocation = format!("postgres://me:{PASSWORD}@127.0.0.1:1/x").parse().unwrap();
    heard.append_debug(wrong.open(SystemClock).await.err().unwrap());
    search("what was said", heard.0.lock().unwrap().as_bytes());

    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let tables = "SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'toolcrib_%'";
    let tables = client.query(tables, &[]).await.unwrap();
    assert!(5 <= tables.len());
    for table in tables {
        let table: &str = table.get(0);
        for row in client.query(&format!("SELECT t::text FROM {table} t"), &[]).await.unwrap() {
            search(table, row.get::<_, &str>(0).as_bytes());
        }
    }
}
