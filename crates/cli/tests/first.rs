//! The first five minutes: from one command to the first call, without configuration, files or another server.

mod demo;
mod running;
mod stdio;
mod targets;
