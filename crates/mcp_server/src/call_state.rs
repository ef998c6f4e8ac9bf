//! `requestState`: the state of a call that asked its client, kept by the client and encrypted by the server.
//!
//! The state is bound to the principal, to the call and to an expiry time. A modified state, another call, another
//! principal or a late answer leads to an error.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use toolcrib::StateCipher;

use super::error_response::RpcErrorResponse;

/// How long the client may take to answer.
const STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Maximum state of one call, in bytes.
const MAX_STATE_BYTES: usize = 1 << 20;
const CALL_STATE_PURPOSE: &str = "call";

/// The state of a call.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResumableCallState {
    pub(crate) answers: Map<String, Value>,
    /// The state that the tool itself returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<String>,
}

/// The state of a call with its binding.
#[derive(Serialize, Deserialize)]
struct BoundCallState {
    /// Fingerprint of the method and its parameters.
    call: String,
    until: i64,
    #[serde(flatten)]
    kept: ResumableCallState,
}

/// The fingerprint of a call: its method and parameters, without answers and state.
pub(crate) fn fingerprint_call(method: &str, params: &Map<String, Value>) -> String {
    let asked = params
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "inputResponses" | "requestState"));
    let mut asked: Vec<_> = asked.collect();
    asked.sort_unstable_by_key(|(name, _)| name.as_str());
    let text = serde_json::to_string(&(method, asked)).expect("parameters are JSON");
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encrypts the state for the client.
pub(crate) fn seal_call_state(
    seal: &StateCipher,
    principal: &str,
    call: &str,
    kept: ResumableCallState,
    now: Timestamp,
) -> Result<String, RpcErrorResponse> {
    let kept =
        BoundCallState { call: call.to_owned(), until: (now + STATE_LIFETIME).as_second(), kept };
    let text = serde_json::to_vec(&kept).expect("answers are JSON");
    if MAX_STATE_BYTES < text.len() {
        return Err(RpcErrorResponse::invalid_params("the answers are too long to go on with"));
    }
    Ok(seal.encrypt(CALL_STATE_PURPOSE, principal, &text))
}

/// Restores the state of a call and adds the answers of this request.
pub(crate) fn restore_call_state(
    seal: &StateCipher,
    principal: &str,
    call: &str,
    params: &Map<String, Value>,
    now: Timestamp,
) -> Result<ResumableCallState, RpcErrorResponse> {
    let mut kept = match params.get("requestState") {
        None => ResumableCallState::default(),
        Some(Value::String(text)) => open_call_state(seal, principal, call, text, now)?,
        Some(_) => return Err(RpcErrorResponse::invalid_params("`requestState` must be a text")),
    };
    match params.get("inputResponses") {
        None => {}
        Some(Value::Object(given)) => {
            let given = given.iter().map(|(key, answer)| (key.clone(), answer.clone()));
            kept.answers.extend(given);
        }
        Some(_) => {
            return Err(RpcErrorResponse::invalid_params("`inputResponses` must be an object"));
        }
    }
    Ok(kept)
}

fn open_call_state(
    seal: &StateCipher,
    principal: &str,
    call: &str,
    text: &str,
    now: Timestamp,
) -> Result<ResumableCallState, RpcErrorResponse> {
    let bound = seal.decrypt(CALL_STATE_PURPOSE, principal, text);
    let bound = bound.and_then(|bound| serde_json::from_slice::<BoundCallState>(&bound).ok());
    match bound {
        Some(bound) if bound.call == call && now.as_second() <= bound.until => Ok(bound.kept),
        _ => Err(RpcErrorResponse::invalid_params(
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
        let (seal, now) = (StateCipher::with_random_key(), Timestamp::UNIX_EPOCH);
        let asked = object(json!({"name": "a", "arguments": {"x": 1}}));
        let call = fingerprint_call("tools/call", &asked);
        let memory = Some("so far".to_owned());
        let kept = ResumableCallState {
            answers: object(json!({"one": {"ok": true}})),
            memory: memory.clone(),
        };
        let state = seal_call_state(&seal, "ada", &call, kept, now).unwrap();
        let again = |name: &str| {
            let responses = json!({"two": {"ok": false}});
            object(json!({
                "arguments": {"x": 1}, "name": name, "requestState": state,
                "inputResponses": responses,
            }))
        };
        let open = |principal: &str, name: &str, now| {
            let params = again(name);
            restore_call_state(
                &seal,
                principal,
                &fingerprint_call("tools/call", &params),
                &params,
                now,
            )
        };
        let all = object(json!({"one": {"ok": true}, "two": {"ok": false}}));
        assert_eq!(open("ada", "a", now), Ok(ResumableCallState { answers: all, memory }));
        assert!(open("eve", "a", now).is_err());
        assert!(open("ada", "b", now).is_err());
        assert!(open("ada", "a", now + Duration::from_secs(3601)).is_err());
        for params in [json!({"requestState": 1}), json!({"inputResponses": null})] {
            assert!(restore_call_state(&seal, "ada", &call, &object(params), now).is_err());
        }
    }
}
