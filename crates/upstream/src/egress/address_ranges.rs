//! IP address ranges: public, private, and never reachable.
//!
//! They follow the IANA special-purpose registries (RFC 6890). In IPv6 only the global unicast block counts as public,
//! so that unknown ranges are not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Networks in which the programs of one owner talk to each other.
const PRIVATE_RANGES: [IpNet; 7] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([100, 64, 0, 0], 10), // shared by carriers
    v4([127, 0, 0, 0], 8),
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    v6([0xfc00, 0], 7),
];

/// Addresses where clouds hand out credentials without authentication, and link-local addresses in general.
const METADATA_RANGES: [IpNet; 6] = [
    v4([169, 254, 0, 0], 16),
    v4([100, 100, 100, 200], 32), // Alibaba
    v4([168, 63, 129, 16], 32),   // Azure
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), 128), // AWS
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), 128), // Google
    v6([0xfe80, 0], 10),
];

/// Neither public nor private.
const SPECIAL_RANGES: [IpNet; 13] = [
    v4([0, 0, 0, 0], 8),       // "this host": loopback on Linux
    v4([192, 0, 0, 0], 24),    // protocol assignments
    v4([192, 0, 2, 0], 24),    // documentation
    v4([192, 88, 99, 0], 24),  // 6to4 relays
    v4([198, 18, 0, 0], 15),   // benchmarks
    v4([198, 51, 100, 0], 24), // documentation
    v4([203, 0, 113, 0], 24),  // documentation
    v4([224, 0, 0, 0], 4),     // multicast
    v4([240, 0, 0, 0], 4),     // reserved, and broadcast
    v6([0x2001, 0], 23),       // Teredo and other protocol assignments
    v6([0x2001, 0xdb8], 32),   // documentation
    v6([0x2002, 0], 16),       // 6to4: an IPv4 address in disguise
    v6([0x3fff, 0], 20),       // documentation
];

const GLOBAL_UNICAST: IpNet = v6([0x2000, 0], 3);

/// The well-known NAT64 prefix (RFC 6052): such an address leads to the IPv4 address in its last 32 bits.
const NAT64: IpNet = v6([0x64, 0xff9b], 96);

/// The address that a connection really reaches, without IPv4-mapping or NAT64.
pub(super) fn unwrap_address(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(inner) if NAT64.contains(&address) => {
            let [.., a, b, c, d] = inner.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        canonical => canonical,
    }
}

pub(super) fn is_metadata(address: IpAddr) -> bool {
    METADATA_RANGES.iter().any(|range| range.contains(&address))
}

pub(super) fn is_private(address: IpAddr) -> bool {
    PRIVATE_RANGES.iter().any(|range| range.contains(&address))
}

pub(super) fn is_public(address: IpAddr) -> bool {
    let routed = address.is_ipv4() || GLOBAL_UNICAST.contains(&address);
    let special = SPECIAL_RANGES.iter().any(|range| range.contains(&address));
    routed && !special && !is_private(address) && !is_metadata(address)
}

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> IpNet {
    IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix)
}

const fn v6([a, b]: [u16; 2], prefix: u8) -> IpNet {
    IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0)), prefix)
}
