//! The program from the outside: the real binary, run in a folder of its own.

mod bad_input;
mod export_import;
mod help;
mod look;
mod secret;
mod support;
