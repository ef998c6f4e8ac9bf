//! Tokens: a full verification compared with the bare check of its signature, and a verification from the cache.

#[path = "../../../crates/access/tests/support/signer.rs"]
mod signer;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use access::{Issuer, KeySet, UnverifiedToken};
use aws_lc_rs::signature;
use aws_lc_rs::signature::{ParsedPublicKey, VerificationAlgorithm};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use signer::{RSA, Signer};
use toolcrib::{Authenticator, Clock as _, JournalLocation, KeyTiming, SecretStore, SystemClock};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::report::{BenchReport, RatioBound};

const ISSUER: &str = "https://id.example.com/realms/acme";
const AUDIENCE: &str = "https://crib.example.com/mcp";
/// Alternating rounds, and verifications in each round.
const ROUNDS: usize = 15;
const VERIFICATIONS_PER_ROUND: usize = 2_000;

pub(super) async fn run(report: &mut BenchReport) -> anyhow::Result<()> {
    let rsa: &dyn VerificationAlgorithm = &signature::RSA_PKCS1_2048_8192_SHA256;
    measure_algorithm(report, "RS256", &RSA, rsa)?;
    measure_algorithm(report, "ES256", &Signer::p256(), &signature::ECDSA_P256_SHA256_FIXED)?;
    measure_algorithm(report, "EdDSA", &Signer::ed25519(), &signature::ED25519)?;
    measure_cached_token(report).await?;
    measure_flood(report).await
}

/// A token as identity providers issue it.
fn sign_token(algorithm: &str, signer: &Signer) -> String {
    let now = SystemClock.now().as_second();
    let claims = json!({
        "iss": ISSUER, "aud": [AUDIENCE, "account"], "sub": "f3a1c2d4-0b5e-4a77-9a77-5b8f5a1f0c11",
        "exp": now + 3600, "iat": now, "jti": "0c2f8f7e-58d2-4f0a-9d3f-5c1b9b8a7d6e", "scope": "openid profile tools",
        "client_id": "crib-agent", "email": "ada@example.com", "preferred_username": "ada",
        "realm_access": {"roles": ["staff", "offline_access", "uma_authorization"]},
    });
    signer.token(&json!({"alg": algorithm, "typ": "at+jwt", "kid": "one"}), &claims)
}

fn measure_algorithm(
    report: &mut BenchReport,
    algorithm: &str,
    signer: &Signer,
    bare: &'static dyn VerificationAlgorithm,
) -> anyhow::Result<()> {
    let text = sign_token(algorithm, signer);
    let keys = KeySet::from_jwks(json!({"keys": [signer.jwk("one")]}).to_string().as_bytes())?;
    let issuer = Issuer::new(ISSUER, [AUDIENCE])?;
    let now = SystemClock.now();
    let (input, signature) = text.rsplit_once('.').expect("a token has dots");
    let signature = URL_SAFE_NO_PAD.decode(signature)?;
    let key = ParsedPublicKey::new(bare, signer.der())?;
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        ours = ours.min(mean_microseconds(|| {
            let mut token =
                UnverifiedToken::parse(std::hint::black_box(&text)).expect("it is a token");
            std::hint::black_box(token.verify(&issuer, &keys, now)).expect("it is a good one");
        }));
        theirs = theirs.min(mean_microseconds(|| {
            let input = std::hint::black_box(input.as_bytes());
            key.verify_sig(input, &signature).expect("the signature fits");
        }));
    }
    let what = format!("{algorithm}: a token verified, against the bare check of its signature");
    report.add(what, ours, theirs, "µs", RatioBound::AtMost(1.2));
    Ok(())
}

async fn measure_cached_token(report: &mut BenchReport) -> anyhow::Result<()> {
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let secrets = SecretStore::new(journal, None, SystemClock, |_| None);
    let issuer: Value = json!({
        "issuer": ISSUER, "audience": AUDIENCE, "keys": {"jwks": {"keys": [RSA.jwk("one")]}},
    });
    let authenticator = Authenticator::new(
        vec![serde_json::from_value(issuer)?],
        &HttpClient::new(EgressPolicy::default()),
        &secrets,
        Arc::new(SystemClock),
        KeyTiming::default(),
    )
    .await?;
    let text = sign_token("RS256", &RSA);
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..VERIFICATIONS_PER_ROUND {
            std::hint::black_box(authenticator.verify_token(std::hint::black_box(&text)).await?);
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / VERIFICATIONS_PER_ROUND as f64);
    }
    let what = format!("a token of {} bytes that was verified before, against 2 µs", text.len());
    report.add(what, best, 2.0, "µs", RatioBound::AtMost(1.0));
    Ok(())
}

/// Valid tokens among 10,000 invalid ones with unknown keys (JWT-06): the 99th percentile, and the number of requests
/// to the issuer.
async fn measure_flood(report: &mut BenchReport) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let fetches = Arc::new(AtomicUsize::new(0));
    serve_keys(listener, Arc::clone(&fetches));
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let secrets = SecretStore::new(journal, None, SystemClock, |_| None);
    let issuer = json!({
        "issuer": ISSUER, "audience": AUDIENCE, "keys": {"jwks_url": format!("http://{address}/")},
        "allow": [address.to_string()],
    });
    let client = HttpClient::new(EgressPolicy::default());
    let (clock, timing) = (Arc::new(SystemClock), KeyTiming::default());
    let issuers = vec![serde_json::from_value(issuer)?];
    let authenticator = Authenticator::new(issuers, &client, &secrets, clock, timing).await?;
    let good = sign_token("RS256", &RSA);
    let bad = |number: usize| {
        let header = json!({"alg": "RS256", "typ": "at+jwt", "kid": format!("{number:032x}")});
        let claims = json!({"iss": ISSUER, "aud": AUDIENCE, "exp": 1});
        let parts = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        format!("{}.AAAA", parts.join("."))
    };
    authenticator.verify_token(&good).await?;
    let (mut quiet, mut flooded) = (f64::INFINITY, f64::INFINITY);
    for round in 0..ROUNDS {
        for is_flooded in [false, true] {
            let mut times = Vec::with_capacity(VERIFICATIONS_PER_ROUND);
            for number in 0..VERIFICATIONS_PER_ROUND {
                if is_flooded {
                    let refused = authenticator
                        .verify_token(&bad(round * VERIFICATIONS_PER_ROUND + number))
                        .await;
                    anyhow::ensure!(refused.is_err(), "a made-up key was taken");
                }
                let start = Instant::now();
                authenticator.verify_token(&good).await?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
            times.sort_by(f64::total_cmp);
            let slow = times[times.len() * 99 / 100];
            let best = if is_flooded { &mut flooded } else { &mut quiet };
            *best = best.min(slow);
        }
    }
    let asked = fetches.load(Ordering::Relaxed) as f64;
    let what = format!(
        "fetches during {} tokens with made-up keys, against 2",
        ROUNDS * VERIFICATIONS_PER_ROUND
    );
    report.add(what, asked, 2.0, "", RatioBound::AtMost(1.0));
    let what = "a good token between tokens with made-up keys, 99th of 100, against without them";
    report.add(what, flooded, quiet, "µs", RatioBound::AtMost(1.1));
    Ok(())
}

/// Serves a key set for each request.
fn serve_keys(listener: TcpListener, fetches: Arc<AtomicUsize>) {
    let body = json!({"keys": [RSA.jwk("one")]}).to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            fetches.fetch_add(1, Ordering::Relaxed);
            let mut connection = connection;
            drop(connection.read(&mut [0; 4096]));
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json";
            drop(write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
}

fn mean_microseconds(mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..VERIFICATIONS_PER_ROUND).for_each(|_| once());
    start.elapsed().as_secs_f64() * 1e6 / VERIFICATIONS_PER_ROUND as f64
}
