//! A listening node: sockets, TLS, connections, and graceful shutdown.

pub mod accept_loop;
mod body_peek;
mod connection;
mod connection_activity;
pub mod file_descriptors;
pub mod listen_address;
pub mod listener;
mod observed_body;
mod repoll;
mod socket_file;
pub mod tls;

pub use accept_loop::serve_connections;
pub use listener::ServerListener;
