//! The cache key of a grant: the claims that policies read, unhashed if short. Two callers share a grant only if no
//! policy can distinguish them.

use model::Digest;
use serde_json::Value;

/// Longest key in bytes that is not replaced by its SHA-256.
const MAX_PLAIN_LENGTH: usize = 256;

/// The cache key of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantKey(Box<[u8]>);

impl GrantKey {
    pub(super) fn from_claims<'a>(claims: impl Iterator<Item = Option<&'a Value>>) -> Self {
        let mut text = Vec::with_capacity(MAX_PLAIN_LENGTH);
        for claim in claims {
            match claim {
                None => text.push(b'-'),
                Some(value) => encode_value(&mut text, value),
            }
        }
        if MAX_PLAIN_LENGTH < text.len() {
            // No plain key starts with this byte.
            text = [&b"#"[..], Digest::of_bytes(&text).as_bytes()].concat();
        }
        Self(text.into())
    }

    /// Memory use in bytes.
    pub fn memory_size(&self) -> usize {
        self.0.len()
    }
}

/// Writes type and length before the content, so different values never have the same encoding.
fn encode_value(text: &mut Vec<u8>, value: &Value) {
    let mut sized = |mark: u8, size: usize| {
        text.push(mark);
        text.extend_from_slice(&(size as u64).to_le_bytes());
    };
    match value {
        Value::Null => text.push(b'0'),
        Value::Bool(false) => text.push(b'f'),
        Value::Bool(true) => text.push(b't'),
        Value::Number(number) => {
            let number = number.to_string();
            sized(b'n', number.len());
            text.extend_from_slice(number.as_bytes());
        }
        Value::String(string) => {
            sized(b's', string.len());
            text.extend_from_slice(string.as_bytes());
        }
        Value::Array(elements) => {
            sized(b'[', elements.len());
            elements.iter().for_each(|element| encode_value(text, element));
        }
        Value::Object(members) => {
            sized(b'{', members.len());
            for (name, member) in members {
                text.extend_from_slice(&(name.len() as u64).to_le_bytes());
                text.extend_from_slice(name.as_bytes());
                encode_value(text, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn key(claims: &[Option<Value>]) -> GrantKey {
        GrantKey::from_claims(claims.iter().map(Option::as_ref))
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-2_i64..3).prop_map(Value::from),
            "[a0-]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab]{0,2}", inner, 0..3)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_when_the_claims_are(
            one in prop::collection::vec(prop::option::of(any_value()), 0..4),
            two in prop::collection::vec(prop::option::of(any_value()), 0..4),
        ) {
            prop_assert_eq!(key(&one) == key(&two), one == two);
        }
    }

    #[test]
    fn a_long_claim_is_hashed_and_still_distinguished() {
        let long = |end: &str| key(&[Some(json!(format!("{}{end}", "x".repeat(1000))))]);
        assert_eq!(long("a"), long("a"));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").memory_size() < 64);
    }
}
