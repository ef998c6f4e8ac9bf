//! Access control: verifies tokens, reads their claims and resolves the grant. No I/O and no clock; callers pass both
//! in.

mod algorithm;
mod claims;
mod explain;
mod header;
mod issuer;
mod keys;
mod policies;
mod signed;
mod token;
mod token_error;

pub use algorithm::Algorithm;
pub use explain::{MatcherVerdict, PolicyVerdict, explain};
pub use issuer::{InvalidIssuer, Issuer, TokenType};
pub use keys::{InvalidKeys, KeySet};
pub use policies::{Grant, Key, Policies};
pub use signed::{MAX_TOKEN, verify_signature};
pub use token::{Token, Verified};
pub use token_error::TokenError;

#[cfg(test)]
#[path = "../tests/support/signer.rs"]
mod signer;
