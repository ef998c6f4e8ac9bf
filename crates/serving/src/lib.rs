//! The doors, and the program `toolcrib`.
//!
//! [`router`] is everything the server answers; [`program`] is the command line around it.

mod admin;
mod agents;
mod answer;
mod app;
mod around;
mod body;
mod call;
mod caller;
mod change;
mod cli;
mod config;
mod deadline;
mod discover;
mod docs_page;
mod etag;
mod explain;
mod failure;
mod format;
mod health;
mod http_manifest;
mod journal;
mod mcp;
mod names;
mod openapi;
mod out;
mod page;
mod prepared;
mod problem;
mod program;
mod progress;
mod protected_resource;
mod query;
mod route;
mod router;
mod schemas;
mod secret;
mod serve;
mod sight;
mod stdio;
mod stream;
mod table;
mod target;
mod watching;
mod whoami;
mod work;

pub use app::{App, Options};
pub use names::{HostName, Names, Origin, PublicUrl};
pub use program::program;
pub use protected_resource::{ProtectedResource, Scope};
pub use router::router;
pub use serve::connections::{Limits, serve};
pub use serve::listener::Listener;
