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

pub use algorithm::JwsAlgorithm;
pub use explain::{MatcherVerdict, PolicyVerdict, explain_policy};
pub use issuer::{InvalidIssuer, Issuer, TokenType};
pub use keys::{InvalidKeySet, KeySet};
pub use policies::{Grant, GrantKey, PolicySet};
pub use signed::{MAX_TOKEN, verify_signature};
pub use token::{UnverifiedToken, VerifiedToken};
pub use token_error::TokenError;

#[cfg(test)]
#[path = "../tests/support/signer.rs"]
mod signer;
