//! PostgreSQL databases for the tests of several crates.

use tokio_postgres::NoTls;

#[expect(clippy::disallowed_methods, reason = "the test command says where its server is")]
fn server() -> String {
    std::env::var("TOOLCRIB_TEST_POSTGRES").expect(
        "run the tests through `cargo xtask test`, or start a server with `cargo xtask postgres`",
    )
}

/// Creates an empty database for one test and returns its URL.
pub(crate) async fn database(name: &str) -> String {
    let server = server();
    let (client, connection) = tokio_postgres::connect(&server, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    format!("{}/{name}", server.rsplit_once('/').unwrap().0)
}
