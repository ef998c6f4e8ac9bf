//! `requestState`: the state of a call that asked its client, kept by the client and encrypted by the server.
//!
//! The state is bound to the principal, to the call and to an expiry time. A modified state, another call, another
//! principal or a late answer leads to an error.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolcrib::Seal;

use super::error::RpcError;

/// How long the client may take to answer.
const GOOD_FOR: Duration = Duration::from_secs(60 * 60);
/// Maximum state of one call, in bytes.
const LIMIT: usize = 1 << 20;
const PURPOSE: &str = "call";

/// The state of a call.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) answers: Map<String, Value>,
    /// The state that the tool itself returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<String>,
}

/// The state of a call with its binding.
#[derive(Serialize, Deserialize)]
struct Bound {
    /// Fingerprint of the method and its parameters.
    call: String,
    until: i64,
    #[serde(flatten)]
    kept: Kept,
}

/// The fingerprint of a call: its method and parameters, without answers and state.
pub(crate) fn fingerprint(method: &str, params: &Map<String, Value>) -> String {
    let asked = params
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "inputResponses" | "requestState"));
    let mut asked: Vec<_> = asked.collect();
    asked.sort_unstable_by_key(|(name, _)| name.as_str());
    let text = serde_json::to_string(&(method, asked)).expect("parameters are JSON");
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encrypts the state for the client.
pub(crate) fn close(
    seal: &Seal,
    principal: &str,
    call: &str,
    kept: Kept,
    now: Timestamp,
) -> Result<String, RpcError> {
    let kept = Bound { call: call.to_owned(), until: (now + GOOD_FOR).as_second(), kept };
    let text = serde_json::to_vec(&kept).expect("answers are JSON");
    if LIMIT < text.len() {
        return Err(RpcError::invalid_params("the answers are too long to go on with"));
    }
    Ok(seal.close(PURPOSE, principal, &text))
}

/// Restores the state of a call and adds the answers of this request.
pub(crate) fn answers(
    seal: &Seal,
    principal: &str,
    call: &str,
    params: &Map<String, Value>,
    now: Timestamp,
) -> Result<Kept, RpcError> {
    let mut kept = match params.get("requestState") {
        None => Kept::default(),
        Some(Value::String(text)) => open(seal, principal, call, text, now)?,
        Some(_) => return Err(RpcError::invalid_params("`requestState` must be a text")),
    };
    match params.get("inputResponses") {
        None => {}
        Some(Value::Object(given)) => {
            let given = given.iter().map(|(key, answer)| (key.clone(), answer.clone()));
            kept.answers.extend(given);
        }
        Some(_) => return Err(RpcError::invalid_params("`inputResponses` must be an object")),
    }
    Ok(kept)
}

fn open(
    seal: &Seal,
    principal: &str,
    call: &str,
    text: &str,
    now: Timestamp,
) -> Result<Kept, RpcError> {
    let bound = seal.open(PURPOSE, principal, text);
    let bound = bound.and_then(|bound| serde_json::from_slice::<Bound>(&bound).ok());
    match bound {
        Some(bound) if bound.call == call && now.as_second() <= bound.until => Ok(bound.kept),
        _ => Err(RpcError::invalid_params(
            "`requestState` is not of this call, or too old: begin without it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn state_is_valid_only_for_the_same_call_and_principal_in_time() {
        let (seal, now) = (Seal::random(), Timestamp::UNIX_EPOCH);
        let asked = object(json!({"name": "a", "arguments": {"x": 1}}));
        let call = fingerprint("tools/call", &asked);
        let memory = Some("so far".to_owned());
        let kept = Kept { answers: object(json!({"one": {"ok": true}})), memory: memory.clone() };
        let state = close(&seal, "ada", &call, kept, now).unwrap();
        let again = |name: &str| {
            let responses = json!({"two": {"ok": false}});
            object(json!({
                "arguments": {"x": 1}, "name": name, "requestState": state,
                "inputResponses": responses,
            }))
        };
        let open = |principal: &str, name: &str, now| {
            let params = again(name);
            answers(&seal, principal, &fingerprint("tools/call", &params), &params, now)
        };
        let all = object(json!({"one": {"ok": true}, "two": {"ok": false}}));
        assert_eq!(open("ada", "a", now), Ok(Kept { answers: all, memory }));
        assert!(open("eve", "a", now).is_err());
        assert!(open("ada", "b", now).is_err());
        assert!(open("ada", "a", now + Duration::from_secs(3601)).is_err());
        for params in [json!({"requestState": 1}), json!({"inputResponses": null})] {
            assert!(answers(&seal, "ada", &call, &object(params), now).is_err());
        }
    }
}
