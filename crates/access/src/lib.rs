//! Access control: verifies tokens, reads their claims and resolves the grant. No I/O and no clock; callers pass both
//! in.

mod access_token;
mod claim_checks;
mod compact_jws;
mod issuer;
mod jws_algorithm;
mod jws_header;
mod key_set;
mod policy_explanation;
mod policy_set;
mod token_error;

pub use access_token::{UnverifiedToken, VerifiedToken};
pub use compact_jws::{MAX_TOKEN, verify_signature};
pub use issuer::{InvalidIssuer, Issuer, TokenType};
pub use jws_algorithm::JwsAlgorithm;
pub use key_set::{InvalidKeySet, KeySet};
pub use policy_explanation::{MatcherVerdict, PolicyVerdict, explain_policy};
pub use policy_set::{Grant, GrantKey, PolicySet};
pub use token_error::TokenError;

#[cfg(test)]
#[path = "../tests/support/signer.rs"]
mod signer;
