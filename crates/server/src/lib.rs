//! A listening node: sockets, TLS, connections, and graceful shutdown.

pub mod accept_loop;
pub mod body_peek;
pub mod connection;
pub mod connection_activity;
pub mod file_descriptors;
pub mod listen_address;
pub mod listener;
pub mod observed_body;
pub mod repoll;
pub mod socket_file;
pub mod tls;

pub use accept_loop::serve_connections;
pub use listener::ServerListener;
