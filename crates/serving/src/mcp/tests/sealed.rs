//! Cursors, sessions and call state: a sealed value opens only unchanged and only for its principal.

use jiff::Timestamp;
use proptest::prelude::{
    ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};
use toolcrib::{Abilities, Seal};

use super::text;
use crate::mcp::pages::ListOf;
use crate::mcp::sessions::{Session, Sessions};
use crate::mcp::state;

const LISTS: [ListOf; 4] = [ListOf::Tools, ListOf::Prompts, ListOf::Resources, ListOf::Templates];

/// Whether this text opens as any sealed value for the principal.
fn opens(seal: &Seal, principal: &str, given: &str) -> bool {
    let params = Map::from_iter([("requestState".to_owned(), Value::from(given))]);
    let is_cursor = LISTS.iter().any(|list| seal.open(list.member(), principal, given).is_some());
    let is_session = Sessions::new().open(seal, principal, given).is_some();
    let call = state::fingerprint("tools/call", &params);
    let now = Timestamp::UNIX_EPOCH;
    is_cursor || is_session || state::answers(seal, principal, &call, &params, now).is_ok()
}

/// Texts that resemble sealed values, and arbitrary others.
fn forged() -> impl Strategy<Value = String> {
    let place = any::<u32>().prop_map(|number| json!(["tool", number]).to_string());
    prop_oneof![text(), "[A-Za-z0-9_-]{0,200}", "[A-Za-z0-9+/=]{0,80}", place]
}

/// All kinds of sealed values for a principal.
fn given(seal: &Seal, principal: &str) -> Vec<String> {
    let call = state::fingerprint("tools/call", &Map::new());
    let state = state::close(seal, principal, &call, state::Kept::default(), Timestamp::UNIX_EPOCH);
    let session = Session::new("2025-11-25", Abilities::default()).close(seal, principal);
    let mut given = vec![state.unwrap(), session];
    given.extend(LISTS.iter().map(|list| seal.close(list.member(), principal, b"[\"a\",1000]")));
    given
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn only_sealed_values_open(given in forged(), principal in text()) {
        prop_assert!(!opens(&Seal::random(), &principal, &given));
    }

    #[test]
    fn a_sealed_value_opens_only_for_its_principal(holder in text(), other in text()) {
        let seal = Seal::random();
        for text in given(&seal, &holder) {
            prop_assert!(opens(&seal, &holder, &text));
            prop_assert_eq!(opens(&seal, &other, &text), other == holder);
            prop_assert!(!opens(&Seal::random(), &holder, &text));
        }
    }

    #[test]
    fn a_modified_value_does_not_open(
        at in any::<prop::sample::Index>(),
        letter in "[A-Za-z0-9_-]",
        how in 0..3_u8,
    ) {
        let seal = Seal::random();
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
