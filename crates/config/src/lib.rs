//! The declarative configuration file: read, validate, plan, apply, export.

pub mod config_error;
pub mod config_follower;
pub mod config_plan;
pub mod connection_limits;
pub mod declared_config;
pub mod file_stamp;
pub mod sentence_model;
pub mod server_settings;

pub use connection_limits::ConnectionLimits;
