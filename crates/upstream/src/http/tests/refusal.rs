//! Forbidden destinations are not connected to, however they are spelled, resolved or requested.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::server::{Server, ok, reply};
use super::{
    EgressPolicy, ExchangeLimits, HttpClient, HttpError, LookupFn, UpstreamRequest,
    UpstreamResponse, body, client, client_with, get, soon, url,
};
use crate::egress::EgressError;
use crate::egress::tests::FORBIDDEN_HOSTS;

fn is_forbidden(answer: &Result<UpstreamResponse, HttpError>) -> bool {
    matches!(answer, Err(HttpError::EgressDenied(EgressError::Forbidden { .. })))
}

fn nobody_came(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).unwrap();
    matches!(listener.accept(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn no_spelling_of_a_forbidden_address_is_connected_to() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = HttpClient::new(EgressPolicy::default());
    for host in FORBIDDEN_HOSTS {
        let url = url(&format!("http://{host}:{port}/"));
        let document = client.get_document(&url, ExchangeLimits::default()).await;
        assert!(is_forbidden(&document), "{host}");
        assert!(is_forbidden(&get(&client, url).await), "{host}");
    }
    assert!(nobody_came(&listener));
}

#[tokio::test]
async fn a_name_with_one_forbidden_address_is_not_connected_to() {
    let mixed: [LookupFn; 3] = [
        |_| Ok(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, 1])]),
        |_| Ok(vec!["fd00::1".parse().unwrap(), IpAddr::from([127, 0, 0, 1])]),
        |_| Ok(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([169, 254, 169, 254])]),
    ];
    for lookup in mixed {
        let server = Server::replying([ok("")]).await;
        let client = client_with("127.0.0.1", lookup);
        let answer = get(&client, url(&format!("http://api.test:{}/", server.port))).await;
        assert_eq!(
            body(answer).unwrap_err(),
            "`api.test` is, or leads to, an address that is not public: \
             name it under `allow`, or use `--allow-private` where there is no source"
        );
        assert!(server.requests().is_empty());
    }
}

#[tokio::test]
async fn a_name_is_resolved_and_checked_again_for_every_connection() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let rebinding: LookupFn = |_| {
        let last = if ASKED.fetch_add(1, Ordering::Relaxed) == 0 { 1 } else { 2 };
        Ok(vec![IpAddr::from([127, 0, 0, last])])
    };
    let server = Server::replying([reply("200 OK", "Connection: close\r\n", "first")]).await;
    let client = client_with("127.0.0.1", rebinding);
    let url = url(&format!("http://api.test:{}/", server.port));
    assert_eq!(body(get(&client, url.clone()).await), Ok("first".to_owned()));
    assert!(is_forbidden(&get(&client, url).await));
    assert_eq!((ASKED.load(Ordering::Relaxed), server.requests().len()), (2, 1));
}

#[tokio::test]
async fn an_allowed_port_allows_no_other_port_of_a_name() {
    let lookup: LookupFn = |_| Ok(vec![IpAddr::from([127, 0, 0, 1])]);
    let [open, shut] = [Server::replying([ok("in")]).await, Server::replying([ok("in")]).await];
    for target in ["127.0.0.0/8", "api.test"] {
        let client = client_with(&format!("{target}:{}", open.port), lookup);
        let url = |server: &Server| url(&format!("http://api.test:{}/", server.port));
        assert_eq!(body(get(&client, url(&open)).await), Ok("in".to_owned()));
        assert!(is_forbidden(&get(&client, url(&shut)).await));
    }
    assert!(shut.requests().is_empty());
}

#[tokio::test]
async fn policies_do_not_share_connections() {
    let server = Server::replying([ok("in")]).await;
    let url = url(&format!("http://localhost:{}/", server.port));
    let open = client();
    assert_eq!(body(get(&open, url.clone()).await), Ok("in".to_owned()));
    assert!(is_forbidden(&get(&open.with_egress(EgressPolicy::default()), url).await));
}

#[tokio::test]
async fn a_destination_allowed_for_one_source_is_forbidden_for_others() {
    let server = Server::replying([ok("in")]).await;
    let shut = HttpClient::new(EgressPolicy::default());
    let open = shut.with_allowed([format!("127.0.0.1:{}", server.port).parse().unwrap()]);
    assert_eq!(body(get(&open, server.url("/")).await), Ok("in".to_owned()));
    assert!(is_forbidden(&get(&shut, server.url("/")).await));
}

#[tokio::test]
async fn a_configured_proxy_is_used_only_for_allowed_destinations() {
    let lookup: LookupFn = |name| match name {
        "public.test" => Ok(vec![IpAddr::from([8, 8, 8, 8])]),
        _ => Ok(vec![IpAddr::from([10, 0, 0, 1])]),
    };
    let proxy = Server::replying([ok("through")]).await;
    let client = client_with("10.20.0.0/16", lookup).with_proxy(&proxy.url("/")).ok().unwrap();
    assert_eq!(body(get(&client, url("http://public.test/")).await), Ok("through".to_owned()));
    assert!(is_forbidden(&get(&client, url("http://inside.test/")).await));
    assert!(is_forbidden(&get(&client, url("http://10.0.0.1/")).await));
    let requests = proxy.requests();
    assert!(requests[0].starts_with("GET http://public.test/ HTTP/1.1") && requests.len() == 1);
    assert!(matches!(client.with_proxy(&url("socks5://127.0.0.1/")), Err(HttpError::InvalidProxy)));
}

#[test]
fn proxies_in_the_environment_are_ignored() {
    let name = "http::tests::refusal::proxies_in_the_environment_are_ignored";
    if std::env::var_os("HTTP_PROXY").is_some() {
        return asks_directly();
    }
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    #[expect(
        clippy::disallowed_methods,
        reason = "only a process of its own has its own environment"
    )]
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .envs(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map(|key| (key, &address)))
        .output()
        .unwrap();
    let output = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
    assert!(nobody_came(&proxy));
}

#[tokio::main(flavor = "current_thread")]
async fn asks_directly() {
    let server = Server::replying([ok("direct")]).await;
    let answer = client().send(UpstreamRequest::get(server.url("/")), soon()).await;
    assert_eq!(body(answer), Ok("direct".to_owned()));
}
