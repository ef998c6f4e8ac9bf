//! Masks credentials that an upstream repeats in its response.
//!
//! Hardly any response contains a credential, so that is checked first, at the cost of one search per form of each
//! secret.

use std::borrow::Cow;
use std::cmp::Reverse;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use memchr::memchr;
use memchr::memmem::{Finder, find_iter};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::Credentials;
use crate::template::{cookie_encoded, percent_encoded};

/// The replacement for a credential.
const MASK_TEXT: &str = "***";
/// The minimum length of a secret that is masked in results, in bytes; shorter ones would match too much.
const MIN_MASKED_BYTES: usize = 8;

/// Searches for the credentials of one call in every form in which an upstream is likely to repeat them.
#[derive(Default)]
pub struct CredentialMask {
    /// The longest first, because one form may be part of another.
    forms: Vec<Finder<'static>>,
}

impl CredentialMask {
    /// A mask for these secrets, except very short ones.
    pub fn from_secrets<'a>(secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let secrets = secrets.into_iter().map(SecretString::expose_secret);
        let forms = secret_forms(secrets.filter(|secret| MIN_MASKED_BYTES <= secret.len()));
        Self { forms: forms.iter().map(|form| Finder::new(form).into_owned()).collect() }
    }

    /// Whether JSON may contain a secret: it occurs in the bytes, or there is an escape, which could hide it.
    pub(crate) fn may_occur_in_json(&self, bytes: &[u8]) -> bool {
        !self.forms.is_empty() && (memchr(b'\\', bytes).is_some() || self.occurs_in(bytes))
    }

    /// Masks a text.
    pub fn mask_text(&self, text: &mut String) {
        if let Cow::Owned(masked) = self.mask_bytes(text.as_bytes()) {
            *text = String::from_utf8_lossy(&masked).into_owned();
        }
    }

    /// Masks a value, including names and numbers.
    pub fn mask_json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                if self.occurs_in(number.to_string().as_bytes()) {
                    *value = Value::from(MASK_TEXT);
                }
            }
            Value::String(text) => self.mask_text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.mask_json(value)),
            Value::Object(members) => self.mask_fields(members),
        }
    }

    /// Masks the fields of an object.
    pub fn mask_fields(&self, members: &mut Map<String, Value>) {
        if self.forms.is_empty() {
            return;
        }
        members.values_mut().for_each(|value| self.mask_json(value));
        if members.keys().any(|name| self.occurs_in(name.as_bytes())) {
            let named = std::mem::take(members).into_iter().map(|(mut name, value)| {
                self.mask_text(&mut name);
                (name, value)
            });
            *members = named.collect();
        }
    }

    /// Masks bytes.
    pub(crate) fn mask_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut masked = Cow::Borrowed(bytes);
        for form in &self.forms {
            if form.find(&masked).is_some() {
                masked = Cow::Owned(replace_form(&masked, form.needle()));
            }
        }
        masked
    }

    /// Whether bytes contain a secret.
    pub fn occurs_in(&self, bytes: &[u8]) -> bool {
        self.forms.iter().any(|form| form.find(bytes).is_some())
    }
}

fn replace_form(bytes: &[u8], form: &[u8]) -> Vec<u8> {
    let (mut masked, mut rest) = (Vec::with_capacity(bytes.len()), 0);
    for place in find_iter(bytes, form) {
        masked.extend(bytes.get(rest..place).into_iter().flatten());
        masked.extend(MASK_TEXT.as_bytes());
        rest = place + form.len();
    }
    masked.extend(bytes.get(rest..).into_iter().flatten());
    masked
}

/// Masks credentials in a text of an upstream, as sent or as JSON escapes them. The text must be complete: the start of
/// a truncated secret would remain.
pub fn without_credentials(text: &str, credentials: &Credentials) -> String {
    mask_credentials(text, credentials).into_owned()
}

/// Masks credentials; copies the text only if it contains one, because it may be long.
pub(crate) fn mask_credentials<'a>(text: &'a str, credentials: &Credentials) -> Cow<'a, str> {
    let forms = secret_forms(credentials.values().map(SecretString::expose_secret));
    forms.iter().fold(Cow::Borrowed(text), |text, form| match text.contains(form) {
        true => Cow::Owned(text.replace(form, MASK_TEXT)),
        false => text,
    })
}

/// Masks a truncated text and drops its end, which may be the start of a secret. Returns an empty text if there is an
/// escape, as in truncated JSON: it could hide a secret.
pub(crate) fn mask_truncated<'a>(text: &'a str, credentials: &Credentials) -> Cow<'a, str> {
    let forms = secret_forms(credentials.values().map(SecretString::expose_secret));
    let Some(longest) = forms.first() else { return Cow::Borrowed(text) };
    if text.contains('\\') {
        return Cow::Borrowed("");
    }
    let mut masked = mask_credentials(text, credentials).into_owned();
    masked.truncate(masked.floor_char_boundary(masked.len().saturating_sub(longest.len())));
    Cow::Owned(masked)
}

/// The distinct forms of secrets, the longest first. For most secrets, several encodings are identical.
fn secret_forms<'a>(secrets: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut forms: Vec<String> = Vec::new();
    for secret in secrets.filter(|secret| !secret.is_empty()) {
        forms.extend([secret.to_owned(), percent_encoded(secret), cookie_encoded(secret)]);
        forms.extend([&BASE64_STANDARD, &BASE64_STANDARD_NO_PAD].map(|it| it.encode(secret)));
        forms.push(BASE64_URL_SAFE_NO_PAD.encode(secret));
        let json = Value::from(secret).to_string();
        forms
            .extend(json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).map(Into::into));
    }
    forms.sort_by(|one, other| (Reverse(one.len()), one).cmp(&(Reverse(other.len()), other)));
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "s3cret/of+ours=";

    fn mask(secrets: &[&str]) -> CredentialMask {
        let secrets: Vec<SecretString> = secrets.iter().map(|it| (*it).into()).collect();
        CredentialMask::from_secrets(&secrets)
    }

    #[test]
    fn a_secret_is_masked_everywhere_in_a_value() {
        let base64 = BASE64_STANDARD.encode(SECRET);
        let mut value = json!({"a": [SECRET, {"b": format!("Basic {base64}!")}], SECRET: 1,
            "encoded": percent_encoded(SECRET), "twice": format!("{SECRET}{SECRET}"), "n": 12345678.5});
        mask(&[SECRET, "12345678"]).mask_json(&mut value);
        let expected = json!({"a": ["***", {"b": "Basic ***!"}], "encoded": "***",
            "twice": "******", "n": "***", "***": 1});
        assert_eq!(value, expected);
    }

    #[test]
    fn a_value_without_a_secret_is_unchanged() {
        let value = json!({"a": ["s3cret", 7, null, true], "of ours": {"text": "…"}});
        let mut masked = value.clone();
        mask(&[SECRET]).mask_json(&mut masked);
        assert_eq!(masked, value);
        assert!(matches!(mask(&[SECRET]).mask_bytes(b"nothing"), Cow::Borrowed(b"nothing")));
    }

    #[test]
    fn very_short_secrets_are_not_masked() {
        let cases = [("", "a 12345678"), ("1234567", "a 12345678"), ("12345678", "a ***")];
        for (secret, expected) in cases {
            let mut text = "a 12345678".to_owned();
            mask(&[secret]).mask_text(&mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn json_is_searched_if_it_contains_the_secret_or_an_escape() {
        let mask = mask(&["secret/of-ours"]);
        for (json, may) in [
            (r#"{"a": "secret/of-ours"}"#, true),
            (r#"{"a": "secret\/of-ours"}"#, true),
            (r#"{"a": "secret of ours"}"#, false),
        ] {
            assert_eq!(mask.may_occur_in_json(json.as_bytes()), may, "{json}");
        }
        assert!(!CredentialMask::default().may_occur_in_json(br#""\n""#));
    }

    proptest! {
        #[test]
        fn every_form_of_a_secret_is_masked(
            secret in "[ -)+-~]{8,20}", before in "[ -~]{0,9}", after in "[ -~]{0,9}"
        ) {
            let mask = mask(&[&secret]);
            for form in secret_forms([&*secret].into_iter()) {
                let mut text = format!("{before}{form}{after}");
                mask.mask_text(&mut text);
                prop_assert!(!mask.occurs_in(text.as_bytes()), "{text}");
            }
        }
    }
}
