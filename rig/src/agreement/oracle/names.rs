//! The names of tools (A5).

use sha2::{Digest as _, Sha256};

use super::OracleGrant;

/// Maximum length of a generated name. Names from the source may be longer.
const MAX_NAME_LENGTH: usize = 64;
/// A longer name is truncated to this length, followed by `_` and eight hexadecimal digits.
const TRUNCATED_LENGTH: usize = 55;

/// The plain, qualified and unique name of a tool.
pub(in crate::agreement) fn name_forms(id: &str, source: &str, name: &str) -> [String; 3] {
    let whole = format!("{source}__{name}");
    let unique = unique_tool_name(id, source, name);
    let qualified = if whole.chars().count() <= MAX_NAME_LENGTH { whole } else { unique.clone() };
    [name.to_owned(), qualified, unique]
}

/// A name that models accept: other characters than ASCII letters, digits, `_` and `-` become `_`; it begins with a
/// letter or `_`.
pub(in crate::agreement) fn unique_tool_name(id: &str, source: &str, name: &str) -> String {
    let whole = format!("{source}__{name}");
    let whole: String = whole
        .chars()
        .map(|c| if c.is_ascii() && (c.is_alphanumeric() || "_-".contains(c)) { c } else { '_' })
        .collect();
    let begins_well = whole.starts_with(|c: char| c == '_' || c.is_alphabetic());
    let whole = if begins_well { whole } else { format!("_{whole}") };
    let start: String = whole.chars().take(TRUNCATED_LENGTH).collect();
    let digest = Sha256::digest(id.as_bytes());
    let digits: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{start}_{digits}")
}

/// The meta tools (A6): no other tool is shown under their names.
pub(super) const META_TOOLS: [&str; 2] = ["tool_search", "execute_tool"];

/// The first form that no other granted tool has in any of its forms.
pub(super) fn choose_shown_name(tool: &OracleGrant<'_>, granted: &[OracleGrant<'_>]) -> String {
    let is_taken = |form: &String| {
        let mut others = granted.iter().filter(|other| other.id != tool.id);
        META_TOOLS.contains(&form.as_str()) || others.any(|other| other.name_forms.contains(form))
    };
    let free = tool.name_forms.iter().find(|form| !is_taken(form));
    free.unwrap_or(&tool.name_forms[2]).clone()
}
