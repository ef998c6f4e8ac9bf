//! `wycheproof`: checks Wycheproof's test vectors for JSON Web Signatures, read from an external file. Invalid
//! signatures must be refused, and valid ones accepted if we support the algorithm.
//!
//! A few vectors contradict the rules and are counted separately. Two are called invalid although they are byte for
//! byte a token that is called valid for the same key. Four are called valid although RFC 7515 and RFC 7517 forbid
//! them.

use std::path::PathBuf;

use access::{JwsAlgorithm, KeySet, verify_signature};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(clap::Args)]
pub(crate) struct WycheproofArgs {
    /// `json_web_signature_test.json` or `json_web_key_test.json`
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WycheproofVectors {
    test_groups: Vec<VectorGroup>,
}

#[derive(Deserialize)]
struct VectorGroup {
    #[serde(default)]
    private: Value,
    #[serde(default)]
    public: Value,
    tests: Vec<VectorTest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VectorTest {
    tc_id: u32,
    comment: String,
    jws: String,
    result: String,
}

#[derive(Default)]
struct VectorTally {
    refused: usize,
    taken: usize,
    unknown: usize,
    contradictory: usize,
    stricter: usize,
    wrong: Vec<String>,
}

pub(crate) fn run(orders: &WycheproofArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&orders.file)
        .with_context(|| format!("{}", orders.file.display()))?;
    let vectors: WycheproofVectors = serde_json::from_str(&text)?;
    let mut tally = VectorTally::default();
    for group in &vectors.test_groups {
        let keys = keys_of_group(group);
        for test in &group.tests {
            judge_vector(test, group, keys.as_ref(), &mut tally);
        }
    }
    let VectorTally { refused, taken, unknown, contradictory, stricter, wrong } = &tally;
    for test in wrong {
        println!("wrong: {test}");
    }
    println!(
        "invalid refused {refused} valid taken {taken} valid of unknown keys {unknown} \
         contradictory {contradictory} stricter {stricter} wrong {}",
        wrong.len()
    );
    anyhow::ensure!(wrong.is_empty(), "{} vectors are judged wrong", wrong.len());
    anyhow::ensure!(0 < refused + taken, "there are no vectors");
    Ok(())
}

/// The key or key set of a group, and its algorithm; `None` if we do not support it.
fn keys_of_group(group: &VectorGroup) -> Option<(KeySet, JwsAlgorithm)> {
    let given = if group.public.is_object() { &group.public } else { &group.private };
    let set = match given["keys"].is_array() {
        true => given.clone(),
        false => json!({ "keys": [given] }),
    };
    let algorithm = JwsAlgorithm::from_name(set["keys"][0]["alg"].as_str()?)?;
    let keys = match given["k"].as_str() {
        Some(secret) => KeySet::from_secret(&URL_SAFE_NO_PAD.decode(secret).ok()?),
        None => KeySet::from_jwks(set.to_string().as_bytes()),
    };
    keys.ok().filter(|keys| !keys.is_empty()).map(|keys| (keys, algorithm))
}

fn judge_vector(
    test: &VectorTest,
    group: &VectorGroup,
    keys: Option<&(KeySet, JwsAlgorithm)>,
    tally: &mut VectorTally,
) {
    let verified = keys
        .is_some_and(|(keys, algorithm)| verify_signature(&test.jws, keys, &[*algorithm]).is_ok());
    match (test.result.as_str(), verified, keys) {
        ("valid", true, _) => tally.taken += 1,
        ("valid", false, None) => tally.unknown += 1,
        ("valid", false, Some((_, algorithm))) if violates_rfc(test, *algorithm) => {
            tally.stricter += 1;
        }
        ("invalid", false, _) => tally.refused += 1,
        ("invalid", true, _) if group.lists_as_valid(&test.jws) => tally.contradictory += 1,
        ("valid", false, Some(_)) | ("invalid", true, _) => {
            tally.wrong.push(format!("{} {} is {}", test.tc_id, test.comment, test.result));
        }
        // Either result is right for `acceptable`.
        _ => {}
    }
}

impl VectorGroup {
    fn lists_as_valid(&self, jws: &str) -> bool {
        self.tests.iter().any(|test| test.jws == jws && test.result == "valid")
    }
}

/// True if a token is not base64url (RFC 7515, section 2), or names another algorithm than its key (RFC 7517, section
/// 4.4).
fn violates_rfc(test: &VectorTest, of_the_key: JwsAlgorithm) -> bool {
    let parts: Option<Vec<Vec<u8>>> =
        test.jws.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).ok()).collect();
    let Some(header) = parts.and_then(|parts| parts.into_iter().next()) else { return true };
    serde_json::from_slice::<Value>(&header).is_ok_and(|header| {
        header["alg"]
            .as_str()
            .and_then(JwsAlgorithm::from_name)
            .is_some_and(|named| named != of_the_key)
    })
}
