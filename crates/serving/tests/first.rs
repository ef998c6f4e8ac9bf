//! The first five minutes: from one command to the first call, without a configuration, a file or another server.

mod demo;
mod running;
mod stdio;
mod targets;
