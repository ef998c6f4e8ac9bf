//! What a call needs on its way to an upstream: permits, credentials, connections, secrets, telemetry, the call log.

pub mod call_failures;
pub mod call_recorder;
pub mod compiled_tool;
pub mod compiled_tool_cache;
pub mod identity;
pub mod journal_location;
pub mod parking_lot;
pub mod principal;
pub mod secrets;
pub mod source_gates;
pub mod state_cipher;
pub mod telemetry;
pub mod upstream_connections;
pub mod upstream_credentials;
