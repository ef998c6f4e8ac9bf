//! The admin API from the outside: the real program, real sockets, one file for each kind of thing.

mod access;
mod agents;
mod documents;
mod drain;
mod formats;
mod groups;
mod health;
mod issuer;
mod keys;
mod labels;
mod names;
mod nodes;
mod policies;
mod requests;
mod resource;
mod roles;
mod server;
mod socket;
mod sources;
mod start;
mod tls;
mod tokens;
mod tools;
