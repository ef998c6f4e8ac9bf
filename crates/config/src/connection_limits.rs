//! Limits and timeouts of connections.

use std::time::Duration;

/// Limits and time-outs of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum concurrent connections; further ones wait in the accept queue of the kernel.
    pub max_connections: usize,
    /// Maximum concurrent requests on one HTTP/2 connection.
    pub max_streams: u32,
    /// Maximum duration of a TLS handshake, and of receiving a request head.
    pub head_timeout: Duration,
    /// How long a connection may be idle, or may accept no byte of its response.
    pub idle_timeout: Duration,
    /// How long requests may continue after the stop signal.
    pub drain_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_connections: 16_384,
            max_streams: 100,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }
}
