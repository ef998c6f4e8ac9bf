//! Allowed and forbidden destinations, in every spelling we could think of.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;

/// Spellings of addresses that are not public.
pub(crate) const FORBIDDEN_HOSTS: [&str; 74] = [
    // loopback, in every notation of a number
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.255.255.254",
    "0x7f.1",
    "0x7f000001",
    "0X7F.0.0.0X1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "ⓛocalhost",
    "a.localhost",
    "a.b.localhost.",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    // "this host", which is loopback on Linux
    "0",
    "0.0.0.0",
    "0.1.2.3",
    "[::]",
    // metadata and link-local
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "169.254.170.2",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fe80::1]",
    "[febf::1]",
    "metadata.google.internal",
    "metadata.google.internal.",
    "metadata.goog",
    // private
    "10.0.0.1",
    "10.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "[fc00::1]",
    "[fdff::1]",
    // protocols, documentation, benchmarks, multicast, reserved, broadcast
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[fec0::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    // IPv4 inside IPv6
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0:127.0.0.1]",
    "[::127.0.0.1]",
    "[::8.8.8.8]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::10.0.0.1]",
];

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn allowing(entries: &[&str]) -> EgressPolicy {
    let allowed = entries.iter().map(|entry| entry.parse().unwrap()).collect();
    EgressPolicy { allow_private: false, allowed }
}

fn private() -> EgressPolicy {
    EgressPolicy { allow_private: true, allowed: vec![] }
}

fn is_open(egress: &EgressPolicy, host: &str) -> bool {
    egress.check_url(&url(&format!("https://{host}/"))).is_ok()
}

fn refusal(text: &str) -> String {
    EgressPolicy::default().check_url(&url(text)).unwrap_err().to_string()
}

#[test]
fn only_public_addresses_are_allowed() {
    for host in FORBIDDEN_HOSTS {
        assert!(!is_open(&EgressPolicy::default(), host), "{host}");
    }
    for host in [
        "example.com",
        "8.8.8.8",
        "172.15.255.255",
        "172.32.0.1",
        "100.128.0.1",
        "223.255.255.255",
        "[2606:4700::1111]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
        "localhost.example.com",
        "notlocalhost",
    ] {
        assert!(is_open(&EgressPolicy::default(), host), "{host}");
    }
}

#[test]
fn every_forbidden_address_gives_the_same_error() {
    for host in ["localhost", "10.0.0.1", "169.254.169.254", "240.0.0.1"] {
        let sentence = format!(
            "`{host}` is, or leads to, an address that is not public: \
             name it under `allow`, or use `--allow-private` where there is no source"
        );
        assert_eq!(refusal(&format!("http://{host}/")), sentence);
        let addresses = [IpAddr::from([10, 9, 8, 7])];
        let looked_up = EgressPolicy::default().check_addresses(host, 80, &addresses).unwrap_err();
        assert_eq!(looked_up.to_string(), sentence);
    }
}

#[test]
fn one_forbidden_address_among_public_ones_is_refused() {
    let public = IpAddr::from([8, 8, 8, 8]);
    let check =
        |addresses: &[IpAddr]| EgressPolicy::default().check_addresses("a.test", 443, addresses);
    assert_eq!(check(&[public, public]), Ok(()));
    assert!(check(&[public, IpAddr::from([127, 0, 0, 1])]).is_err());
    assert!(check(&[IpAddr::V6(Ipv6Addr::LOCALHOST), public]).is_err());
}

#[test]
fn allow_private_allows_private_and_loopback_addresses_only() {
    let opened = ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "172.16.0.1", "192.168.0.1"];
    for host in opened.into_iter().chain(["100.64.0.1", "[fc00::1]", "[::ffff:10.0.0.1]"]) {
        assert!(is_open(&private(), host), "{host}");
    }
    for host in ["0.0.0.0", "[::]", "192.0.2.1", "224.0.0.1", "255.255.255.255", "[2002:7f00:1::]"]
    {
        assert!(!is_open(&private(), host), "{host}");
    }
}

#[test]
fn metadata_addresses_are_always_forbidden() {
    let mut everything = allowing(&["0.0.0.0/0", "::/0", "metadata.google.internal", "a.test"]);
    everything.allow_private = true;
    assert!(is_open(&everything, "240.0.0.1"));
    for host in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::169.254.169.254]",
        "metadata.google.internal",
    ] {
        assert!(!is_open(&everything, host), "{host}");
    }
    assert!(everything.check_addresses("a.test", 443, &[METADATA]).is_err());
}

#[test]
fn an_allowed_network_allows_only_itself() {
    let egress = allowing(&["10.20.0.0/16", "10.30.0.5", "fd12::/32"]);
    for host in ["10.20.0.1", "10.20.255.255", "10.30.0.5", "[fd12::1]", "[::ffff:10.20.0.1]"] {
        assert!(is_open(&egress, host), "{host}");
    }
    for host in ["10.21.0.1", "10.30.0.6", "[fd13::1]", "127.0.0.1", "localhost"] {
        assert!(!is_open(&egress, host), "{host}");
    }
    assert!(egress.check_addresses("a.test", 443, &[IpAddr::from([10, 20, 0, 1])]).is_ok());
    assert!(egress.check_addresses("a.test", 443, &[IpAddr::from([10, 21, 0, 1])]).is_err());
}

#[test]
fn an_allowed_name_may_resolve_to_private_addresses() {
    let egress = allowing(&["billing.internal"]);
    let inside = [IpAddr::from([10, 0, 0, 1])];
    for host in ["billing.internal", "billing.internal.", "Billing.Internal"] {
        assert_eq!(egress.check_addresses(host, 80, &inside), Ok(()), "{host}");
    }
    assert!(egress.check_addresses("other.internal", 80, &inside).is_err());
    assert!(egress.check_addresses("a.billing.internal", 80, &inside).is_err());
}

#[test]
fn a_destination_with_a_port_allows_no_other_port() {
    let egress = allowing(&["10.20.0.0/16:8080", "billing.internal:8443", "localhost:3000"]);
    assert!(is_open(&egress, "10.20.0.1:8080"));
    assert!(!is_open(&egress, "10.20.0.1"));
    assert!(is_open(&egress, "localhost:3000"));
    assert!(!is_open(&egress, "localhost:3001"));
    let inside = [IpAddr::from([10, 0, 0, 1])];
    assert!(egress.check_addresses("billing.internal", 8443, &inside).is_ok());
    assert!(egress.check_addresses("billing.internal", 443, &inside).is_err());
}

#[test]
fn only_http_urls_without_credentials_are_fetched() {
    for scheme in ["file", "ftp", "gopher", "data", "unix", "jar", "ws", "wss"] {
        let text = refusal(&format!("{scheme}://example.com/"));
        assert_eq!(text, format!("`{scheme}` urls are not fetched: use `https` or `http`"));
    }
    let credentials =
        "the url has a user name or a password in it: remove them and set the source's `auth`";
    assert_eq!(refusal("https://me:secret@example.com/"), credentials);
    assert_eq!(refusal("https://:secret@example.com/"), credentials);
    let long = format!("https://example.com/?q={}", "x".repeat(MAX_URL));
    assert_eq!(refusal(&long), "the url is longer than 8192 bytes: send long values in the body");
}

#[test]
fn ports_of_other_protocols_are_always_forbidden() {
    assert_eq!(
        refusal("http://example.com:6379/"),
        "port 6379 is not used for http: serve the upstream on another one"
    );
    for port in [22, 25, 3306, 5432, 11211, 27017] {
        assert!(!is_open(&allowing(&["10.0.0.0/8"]), &format!("10.0.0.1:{port}")));
    }
    for port in [80, 443, 3000, 8000, 8080, 8443, 9200] {
        assert!(is_open(&EgressPolicy::default(), &format!("example.com:{port}")));
    }
}

#[test]
fn destinations_are_printed_as_they_were_parsed() {
    for text in [
        "10.20.0.0/16",
        "10.20.0.0/16:8080",
        "10.0.0.1",
        "10.0.0.1:80",
        "fd00::1",
        "[fd00::1]:8443",
        "fd00::/8",
        "[fd00::/8]:8443",
        "billing.internal",
        "billing.internal:8443",
        "under_score",
    ] {
        assert_eq!(text.parse::<AllowedDestination>().unwrap().to_string(), text);
    }
    for (written, read) in [
        ("10.20.3.4/16", "10.20.0.0/16"),
        ("[fd00::1]", "fd00::1"),
        ("Billing.Internal.", "billing.internal"),
        ("bücher.internal", "xn--bcher-kva.internal"),
    ] {
        assert_eq!(written.parse::<AllowedDestination>().unwrap().to_string(), read);
    }
}

#[test]
fn a_text_that_is_neither_address_nor_name_is_rejected() {
    for text in [
        "",
        ".",
        "*",
        "*.internal",
        "http://billing.internal",
        "billing.internal/path",
        "billing.internal:",
        "billing.internal:0",
        "billing.internal:+80",
        "billing.internal:65536",
        "10.0.0.0/33",
        "[billing.internal]:80",
        "me@billing.internal",
        "a b",
    ] {
        assert_eq!(text.parse::<AllowedDestination>(), Err(InvalidDestination), "{text}");
    }
    assert_eq!(
        InvalidDestination.to_string(),
        "this cannot be allowed: write an address, a network or a host name, and a port if only \
         that one is meant, as in `10.20.0.0/16`, `[fd00::1]:8443` or `billing.internal:8443`"
    );
}

#[test]
fn a_policy_is_stored_with_its_destinations_as_strings() {
    let json = r#"{"allow_private":true,"allowed":["10.20.0.0/16","billing.internal:8443"]}"#;
    let egress: EgressPolicy = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&egress).unwrap(), json);
    assert_eq!(serde_json::from_str::<EgressPolicy>("{}").unwrap(), EgressPolicy::default());
    assert!(serde_json::from_str::<EgressPolicy>(r#"{"allowed":["*"]}"#).is_err());
    assert!(serde_json::from_str::<EgressPolicy>(r#"{"allow":[]}"#).is_err());
}

proptest! {
    #[test]
    fn an_ipv4_address_inside_ipv6_is_checked_like_the_ipv4_address(address: Ipv4Addr, allow_private: bool) {
        let egress = EgressPolicy { allow_private, ..allowing(&["10.20.0.0/16"]) };
        let open = |address: IpAddr| egress.check_addresses("a.test", 80, &[address]).is_ok();
        let [a, b, c, d] = address.octets();
        let wrapped = format!("64:ff9b::{a}.{b}.{c}.{d}").parse::<Ipv6Addr>().unwrap();
        prop_assert_eq!(open(address.to_ipv6_mapped().into()), open(address.into()));
        prop_assert_eq!(open(wrapped.into()), open(address.into()));
    }

    #[test]
    fn printing_and_parsing_a_network_gives_the_same_value(
        address: IpAddr,
        prefix in 0u8..=32,
        port in proptest::option::of(1u16..),
    ) {
        let network = format!("[{address}/{prefix}]");
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let allowed: AllowedDestination = format!("{network}{port}").parse().unwrap();
        prop_assert_eq!(allowed.to_string().parse(), Ok(allowed));
    }
}
