//! Tests of which `Host` and `Origin` headers the server accepts.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;

use super::*;

fn asked(host: &str, origin: Option<&str>) -> Request {
    let mut request = Request::get("/").header(HOST, host);
    if let Some(origin) = origin {
        request = request.header(ORIGIN, origin);
    }
    request.body(Body::empty()).unwrap()
}

/// 200, or the status of the problem.
fn status(names: &ServerNames, request: &Request) -> u16 {
    match names.check_request(request) {
        Ok(()) => StatusCode::OK.as_u16(),
        Err(problem) => problem.into_response().status().as_u16(),
    }
}

fn names(address: &str, names: &[&str], needs_credential: bool) -> ServerNames {
    let names = names.iter().map(|name| name.parse().unwrap()).collect();
    let origins = vec!["https://chat.example.com".parse().unwrap()];
    ServerNames::new(names, origins, None).listening_on(address.parse().unwrap(), needs_credential)
}

#[test]
fn a_server_accepts_only_its_names() {
    let local = names("127.0.0.1:8080", &[], true);
    let local_with_name = names("127.0.0.1:8080", &["crib.example.com"], false);
    let elsewhere = names("0.0.0.0:8080", &[], true);
    let anonymous = names("0.0.0.0:8080", &[], false);
    let named = names("0.0.0.0:8080", &["crib.example.com"], true);
    let all = [&local, &local_with_name, &elsewhere, &anonymous, &named];
    for (host, expected) in [
        ("localhost", [200; 5]),
        ("LOCALHOST:80", [200; 5]),
        ("127.0.0.2:80", [200; 5]),
        ("[::1]:8080", [200; 5]),
        ("192.0.2.1:8080", [421, 421, 200, 200, 200]),
        ("[2001:db8::1]", [421, 421, 200, 200, 200]),
        ("Crib.Example.com:443", [421, 200, 200, 421, 200]),
        ("evil.example", [421, 421, 200, 421, 421]),
        ("localhost.evil.example", [421, 421, 200, 421, 421]),
        ("127.0.0.1.evil.example", [421, 421, 200, 421, 421]),
    ] {
        assert_eq!(all.map(|names| status(names, &asked(host, None))), expected, "{host}");
    }
}

#[test]
fn a_malformed_or_repeated_host_is_rejected() {
    let any = names("0.0.0.0:8080", &[], true);
    for host in [
        "",
        " ",
        "localhost/admin?x=",
        "a#b",
        "a?b",
        "a@localhost",
        "localhost:80@evil",
        "a b",
        "a,b",
        "a:",
        "a:b",
        "a:+1",
        "a:99999",
        "::1",
        "[::1",
        "[localhost]",
        "a\\b",
        "%6c",
        "a;x",
    ] {
        assert_eq!(status(&any, &asked(host, None)), 400, "{host:?}");
    }
    let twice = Request::get("/").header(HOST, "localhost").header(HOST, "localhost");
    assert_eq!(status(&any, &twice.body(Body::empty()).unwrap()), 400);
    let none = |version| Request::get("/").version(version).body(Body::empty()).unwrap();
    assert_eq!(status(&any, &none(Version::HTTP_11)), 400);
    assert_eq!(status(&any, &none(Version::HTTP_2)), 400);
    assert_eq!(status(&any, &none(Version::HTTP_10)), 200);
}

#[test]
fn an_absolute_target_must_match_the_host_header() {
    let local = ServerNames::default();
    let ask = |target: &str, host: Option<&str>| {
        let mut request = Request::get(target);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        status(&local, &request.body(Body::empty()).unwrap())
    };
    assert_eq!(ask("http://localhost:80/", Some("LOCALHOST:80")), 200);
    assert_eq!(ask("http://localhost/", None), 200);
    assert_eq!(ask("http://localhost/", Some("127.0.0.1")), 400);
    assert_eq!(ask("http://evil.example/", Some("localhost")), 400);
    assert_eq!(ask("http://evil.example/", None), 421);
    assert_eq!(ask("http://a@localhost/", None), 400);
}

#[test]
fn only_own_and_allowed_origins_are_accepted() {
    let local = names("127.0.0.1:8080", &[], true);
    let any = names("0.0.0.0:8080", &[], true);
    for (host, origin, expected) in [
        ("localhost:8080", "http://localhost:8080", [200, 200]),
        ("localhost:8080", "http://127.0.0.1:5173", [200, 200]),
        ("crib.example", "https://crib.example", [421, 200]),
        ("crib.example", "http://crib.example:80", [421, 200]),
        ("crib.example:8443", "https://crib.example:8443", [421, 200]),
        ("crib.example:8443", "https://crib.example", [421, 403]),
        ("crib.example", "http://localhost:3000", [421, 403]),
        ("localhost", "https://chat.example.com", [200, 200]),
        ("localhost", "https://chat.example.com:443", [200, 200]),
        ("localhost", "http://chat.example.com", [403, 403]),
        ("localhost", "https://evil.example", [403, 403]),
        ("localhost", "http://localhost.evil", [403, 403]),
        ("localhost", "http://localhost@evil", [403, 403]),
        ("localhost", "null", [403, 403]),
        ("localhost", "", [403, 403]),
        ("localhost", "localhost", [403, 403]),
        ("localhost", "file://localhost", [403, 403]),
    ] {
        let found = [&local, &any].map(|names| status(names, &asked(host, Some(origin))));
        assert_eq!(found, expected, "{origin} at {host}");
    }
}

#[test]
fn a_public_url_is_an_origin_byte_for_byte() {
    for good in ["https://crib.example.com", "http://localhost:8080", "https://[2001:db8::1]:8443"]
    {
        assert_eq!(good.parse::<PublicUrl>().unwrap().to_string(), good);
    }
    assert_eq!("https://a.example/".parse::<PublicUrl>().unwrap().to_string(), "https://a.example");
    for bad in [
        "crib.example.com",
        "https://crib.example.com/mcp",
        "https://Crib.example.com",
        "https://crib.example.com:443",
        "https://a@crib.example.com",
        "https://crib.example.com?x",
        "https://crib.example.com#x",
        "ftp://crib.example.com",
        "https://",
        "",
    ] {
        assert_eq!(bad.parse::<PublicUrl>(), Err(super::public_url::InvalidPublicUrl), "{bad}");
    }
    let of =
        |address: &str, tls| PublicUrl::from_listener(address.parse().unwrap(), tls).to_string();
    assert_eq!(of("127.0.0.1:8080", false), "http://127.0.0.1:8080");
    assert_eq!(of("0.0.0.0:8443", true), "https://localhost:8443");
    assert_eq!(of("[2001:db8::1]:443", true), "https://[2001:db8::1]");
}
