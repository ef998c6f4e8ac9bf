//! API keys: created here, shown once, stored only as a hash afterwards.
//!
//! A key is `tcrib_ID_SECRET`. The secret has 256 random bits, so a plain SHA-256 is enough: guessing is infeasible.

use aws_lc_rs::{constant_time, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use catalog::Snapshot;
use catalog::api_key::{ApiKey, ApiKeyCommand};
use jiff::Timestamp;
use model::{Digest, KeyId, KeyProfile};
use secrecy::SecretString;

const PREFIX: &str = "tcrib_";
const SECRET_BYTES: usize = 32;

/// Creates a key: the text for its holder, shown once, and the command for the catalog.
pub fn new_api_key(id: &KeyId, profile: KeyProfile) -> (SecretString, ApiKeyCommand) {
    let mut secret = [0; SECRET_BYTES];
    rand::fill(&mut secret).expect("the machine has random numbers");
    let text = format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
    let hash = Digest::of_bytes(&text);
    (text.into(), ApiKeyCommand::Create { profile, hash })
}

/// Whether a bearer credential has the form of one of our keys.
pub(crate) fn is_api_key(bearer: &str) -> bool {
    bearer.starts_with(PREFIX)
}

/// The presented key, if it exists and is valid. The caller cannot learn which of the two failed.
pub(crate) fn find_valid_key<'a>(
    snapshot: &'a Snapshot,
    bearer: &str,
    now: Timestamp,
) -> Option<&'a ApiKey> {
    // An id contains no underscore.
    let (id, _) = bearer.strip_prefix(PREFIX)?.split_once('_')?;
    // Hash before the lookup, so that an unknown id takes as long as a known one (timing attack).
    let presented = Digest::of_bytes(bearer);
    let key = snapshot.key(&id.parse().ok()?)?;
    let same = constant_time::verify_slices_are_equal(presented.as_bytes(), key.hash.as_bytes());
    (same.is_ok() && key.is_valid_at(now)).then_some(key)
}
