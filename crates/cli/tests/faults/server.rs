//! The temporary PostgreSQL server of the test command, and databases on it.

use std::sync::Arc;

use catalog::journal::{Journal, PostgresJournal};
use tokio_postgres::{Client, NoTls};

use crate::program::variable;

fn url() -> String {
    variable("TOOLCRIB_TEST_POSTGRES").expect(
        "run the tests through `cargo xtask test`, or start a server with `cargo xtask postgres`",
    )
}

/// Address as `host:port`.
pub(crate) fn address() -> String {
    let url = url();
    let (_, rest) = url.rsplit_once('@').unwrap();
    rest.split('/').next().unwrap().to_owned()
}

pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Creates an empty database and returns its URL.
pub(crate) async fn database(name: &str) -> String {
    let server = url();
    let client = client(&server).await;
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    format!("{}/{name}", server.rsplit_once('/').unwrap().0)
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Journal> {
    Arc::new(PostgresJournal::connect(url.parse().unwrap()).await.unwrap())
}
