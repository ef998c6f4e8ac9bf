//! Cursors, sessions and call state: a sealed value opens only unchanged and only for its principal.

use jiff::Timestamp;
use proptest::prelude::{
    ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};
use toolcrib::{CallerCapabilities, StateCipher};

use super::text;
use crate::call_state;
use crate::list_pages::McpListKind;
use crate::mcp_sessions::{McpSession, McpSessions};

const LISTS: [McpListKind; 4] =
    [McpListKind::Tools, McpListKind::Prompts, McpListKind::Resources, McpListKind::Templates];

/// Whether this text opens as any sealed value for the principal.
fn opens(seal: &StateCipher, principal: &str, given: &str) -> bool {
    let params = Map::from_iter([("requestState".to_owned(), Value::from(given))]);
    let is_cursor =
        LISTS.iter().any(|list| seal.decrypt(list.result_field(), principal, given).is_some());
    let is_session = McpSessions::new().open_session(seal, principal, given).is_some();
    let call = call_state::fingerprint_call("tools/call", &params);
    let now = Timestamp::UNIX_EPOCH;
    is_cursor
        || is_session
        || call_state::restore_call_state(seal, principal, &call, &params, now).is_ok()
}

/// Texts that resemble sealed values, and arbitrary others.
fn forged() -> impl Strategy<Value = String> {
    let place = any::<u32>().prop_map(|number| json!(["tool", number]).to_string());
    prop_oneof![text(), "[A-Za-z0-9_-]{0,200}", "[A-Za-z0-9+/=]{0,80}", place]
}

/// All kinds of sealed values for a principal.
fn given(seal: &StateCipher, principal: &str) -> Vec<String> {
    let call = call_state::fingerprint_call("tools/call", &Map::new());
    let state = call_state::seal_call_state(
        seal,
        principal,
        &call,
        call_state::ResumableCallState::default(),
        Timestamp::UNIX_EPOCH,
    );
    let session =
        McpSession::new("2025-11-25", CallerCapabilities::default()).to_session_id(seal, principal);
    let mut given = vec![state.unwrap(), session];
    given.extend(
        LISTS.iter().map(|list| seal.encrypt(list.result_field(), principal, b"[\"a\",1000]")),
    );
    given
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn only_sealed_values_open(given in forged(), principal in text()) {
        prop_assert!(!opens(&StateCipher::with_random_key(), &principal, &given));
    }

    #[test]
    fn a_sealed_value_opens_only_for_its_principal(holder in text(), other in text()) {
        let seal = StateCipher::with_random_key();
        for text in given(&seal, &holder) {
            prop_assert!(opens(&seal, &holder, &text));
            prop_assert_eq!(opens(&seal, &other, &text), other == holder);
            prop_assert!(!opens(&StateCipher::with_random_key(), &holder, &text));
        }
    }

    #[test]
    fn a_modified_value_does_not_open(
        at in any::<prop::sample::Index>(),
        letter in "[A-Za-z0-9_-]",
        how in 0..3_u8,
    ) {
        let seal = StateCipher::with_random_key();
        for text in given(&seal, "ada") {
            let at = at.index(text.len());
            let (start, rest) = text.split_at(at);
            let changed = match how {
                0 => format!("{start}{letter}{}", rest.get(1..).unwrap_or_default()),
                1 => format!("{start}{letter}{rest}"),
                _ => format!("{start}{}", rest.get(1..).unwrap_or_default()),
            };
            prop_assert!(changed == text || !opens(&seal, "ada", &changed), "{text} {changed}");
        }
    }
}
