//! `server`: the measured servers, each in a separate process. It prints its address and exits when its input ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use config::ConnectionLimits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpListener;

use super::measured_crib;

#[derive(clap::Args)]
pub(crate) struct BenchServerArgs {
    #[command(subcommand)]
    kind: BenchServerKind,
}

#[derive(clap::Subcommand)]
enum BenchServerKind {
    /// Ours, with a crib to be measured.
    Toolcrib {
        /// Where the tool that is forwarded leads.
        #[arg(long)]
        upstream: Option<SocketAddr>,
    },
    /// Reads the body and answers the bytes of a file, at every path.
    Bare {
        answer: PathBuf,
        /// After so many milliseconds.
        #[arg(long, default_value_t = 0)]
        takes: u64,
        /// Accepts connections as axum does, and not as we do.
        #[arg(long)]
        of_axum: bool,
    },
    /// Sends what it is asked on and answers what comes back, unchecked.
    Forwarder { upstream: SocketAddr },
}

/// The message that a server prints when it is ready.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadyMessage {
    pub(crate) address: SocketAddr,
    pub(crate) keys: BTreeMap<String, String>,
}

/// Exits when standard input ends, so that no server outlives its parent.
pub(crate) fn exit_with_stdin() {
    std::thread::spawn(|| {
        drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        std::process::exit(0);
    });
}

pub(crate) async fn run(orders: BenchServerArgs) -> anyhow::Result<()> {
    exit_with_stdin();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let ready = |keys| -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(&ReadyMessage { address, keys })?);
        Ok(())
    };
    let (limits, never) = (ConnectionLimits::default(), std::future::pending());
    let serving = match orders.kind {
        BenchServerKind::Toolcrib { upstream } => {
            let made = measured_crib::build_crib(upstream).await?;
            let (doors, _) =
                http_api::build_endpoints(made.crib, endpoint::ServerOptions::default());
            ready(made.keys)?;
            tokio::spawn(server::serve_connections(listener, doors, limits, never))
        }
        BenchServerKind::Bare { answer, takes, of_axum: true } => {
            let router = bare_router(&answer, takes)?;
            ready(BTreeMap::new())?;
            tokio::spawn(async { axum::serve(listener, router).await.unwrap_or_default() })
        }
        BenchServerKind::Bare { answer, takes, of_axum: false } => {
            let router = bare_router(&answer, takes)?;
            ready(BTreeMap::new())?;
            tokio::spawn(server::serve_connections(listener, router, limits, never))
        }
        BenchServerKind::Forwarder { upstream } => {
            let router = forwarder_router(upstream)?;
            ready(BTreeMap::new())?;
            tokio::spawn(server::serve_connections(listener, router, limits, never))
        }
    };
    Ok(serving.await?)
}

fn bare_router(answer: &Path, takes: u64) -> anyhow::Result<Router> {
    let answer = Bytes::from(std::fs::read(answer)?);
    Ok(Router::new()
        .fallback(any(move |State(answer): State<Bytes>, _asked: Bytes| async move {
            if takes != 0 {
                tokio::time::sleep(Duration::from_millis(takes)).await;
            }
            ([(CONTENT_TYPE, "application/json")], answer)
        }))
        .with_state(answer))
}

#[derive(Clone)]
struct ForwarderState {
    client: reqwest::Client,
    upstream: SocketAddr,
}

fn forwarder_router(upstream: SocketAddr) -> anyhow::Result<Router> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let onward = ForwarderState { client, upstream };
    Ok(Router::new().fallback(any(forward_request)).with_state(onward))
}

async fn forward_request(State(onward): State<ForwarderState>, asked: Bytes) -> Response {
    match onward.send_upstream(&asked).await {
        Ok(answer) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

impl ForwarderState {
    /// Sends the request that our tool sends for the same call.
    async fn send_upstream(&self, asked: &[u8]) -> anyhow::Result<Bytes> {
        let mut asked: Value = serde_json::from_slice(asked)?;
        let mut arguments = asked["params"]["arguments"].take();
        let shop = arguments.as_object_mut().and_then(|members| members.shift_remove("shop"));
        let shop = shop.as_ref().and_then(Value::as_str).unwrap_or_default();
        let url = format!("http://{}/shops/{shop}/orders", self.upstream);
        let request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        let answer = request.body(arguments.to_string()).send().await?.error_for_status()?;
        Ok(answer.bytes().await?)
    }
}
