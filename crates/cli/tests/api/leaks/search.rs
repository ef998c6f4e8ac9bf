//! Searches texts for secrets in every readable encoding.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Secret that must not appear, and its name in failure messages.
pub(super) struct Canary {
    pub(super) name: &'static str,
    forms: Vec<String>,
}

impl Canary {
    pub(super) fn new(name: &'static str, secret: &str) -> Self {
        let hex = |byte: u8| format!("{byte:02x}");
        let percent = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        };
        let hexadecimal: String = secret.bytes().map(hex).collect();
        let mut forms = vec![secret.to_owned(), secret.bytes().map(percent).collect()];
        forms.extend([hexadecimal.to_uppercase(), hexadecimal]);
        forms.extend((0..3).flat_map(|before| in_base64(secret, before)));
        Self { name, forms }
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form))
    }
}

/// Base64 of the secret at this byte offset in a longer text, without characters that depend on its neighbours.
fn in_base64(secret: &str, before: usize) -> [String; 2] {
    let whole = [&vec![0; before], secret.as_bytes()].concat();
    let own = (before * 8).div_ceil(6)..whole.len() * 8 / 6;
    let cut = |text: String| text.chars().take(own.end).skip(own.start).collect();
    [cut(STANDARD_NO_PAD.encode(&whole)), cut(URL_SAFE_NO_PAD.encode(&whole))]
}

/// `NAME stands in PLACE` for each canary found in one of these texts.
pub(super) fn found(canaries: &[Canary], texts: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (place, text) in texts {
        let those = canaries.iter().filter(|canary| canary.is_in(text));
        found.extend(those.map(|canary| format!("{} stands in {place}", canary.name)));
    }
    found
}

/// Contents of every file in a folder and its subfolders.
pub(super) fn files(folder: &Path) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(files(&path));
        // A file that was deleted meanwhile is covered by the other search.
        } else if let Ok(bytes) = fs::read(&path) {
            texts.push((path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    texts
}

#[test]
fn a_planted_canary_is_found_in_every_form() {
    let secret = "canary/planted+5e1d=";
    let canaries = [Canary::new("it", secret), Canary::new("another", "canary-elsewhere-77")];
    let hexadecimal: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut planted = vec![
        secret.to_owned(),
        hexadecimal.to_uppercase(),
        hexadecimal,
        "?key=canary%2Fplanted%2B5e1d%3D&".to_owned(),
    ];
    for before in ["", "a", "ab", "me:"] {
        let pair = format!("{before}{secret}, and more");
        planted.extend([STANDARD_NO_PAD.encode(&pair), URL_SAFE_NO_PAD.encode(&pair)]);
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    for text in planted {
        // Surrounded by bytes that are not UTF-8.
        let bytes = [&[0xff, 0, 0xfe][..], text.as_bytes(), &[0xff]].concat();
        fs::write(folder.path().join("below/file"), bytes).unwrap();
        let found = found(&canaries, &files(folder.path()));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("it stands in ") && found[0].ends_with("file"), "{found:?}");
    }
    fs::write(folder.path().join("below/file"), "canary/plant").unwrap();
    assert!(found(&canaries, &files(folder.path())).is_empty());
}
