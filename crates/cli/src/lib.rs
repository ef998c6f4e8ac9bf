//! The program `toolcrib`: arguments, verbs, output.

mod admin_client;
mod arguments;
mod cli_error;
mod demo;
mod destinations;
mod dispatch;
mod environment;
mod hidden_files;
mod inspected_target;
mod local_targets;
mod output;
mod program;
mod progress;
mod shell_text;
mod text_table;
mod verbs;

pub use program::run_program;
