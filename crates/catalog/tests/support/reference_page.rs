//! Compares a page below `docs/reference` with the text generated from the code.

use std::fs;
use std::path::Path;

/// Fails if the page differs from the generated text. `INSTA_UPDATE=always` writes it, as it does golden files.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn assert_page(name: &str, made: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var("INSTA_UPDATE").is_ok_and(|wish| wish == "always") {
        fs::write(&page, made).expect("the page can be written");
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    let same = made.lines().zip(written.lines()).take_while(|(made, written)| made == written);
    let line = same.count();
    assert!(
        made == written,
        "docs/reference/{name} is not what the code says, from line {} on: it says\n  {}\n\
         `INSTA_UPDATE=always` writes the page anew; read what has changed",
        line + 1,
        made.lines().nth(line).unwrap_or("nothing more"),
    );
}
