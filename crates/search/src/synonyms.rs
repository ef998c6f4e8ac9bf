//! Synonyms in the field of tools, between the words of queries and those of tool names.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use super::stem_families::stem_of;

/// Each line lists words of one meaning. They are general words; none was added for the sake of one particular tool.
#[rustfmt::skip]
const MEANINGS: &[&[&str]] = &[
    &["create", "make", "add", "new", "generate", "build", "insert", "compose"],
    &["delete", "remove", "erase", "clear", "drop", "discard"],
    &["get", "fetch", "retrieve", "obtain", "read", "show", "view", "display", "return"],
    &["list", "enumerate", "browse"],
    &["search", "find", "lookup", "query", "discover"],
    &["update", "edit", "modify", "change", "alter", "set", "adjust"],
    &["send", "post", "submit", "deliver"],
    &["start", "begin", "launch", "open", "run", "execute"],
    &["stop", "end", "close", "terminate", "cancel"],
    &["convert", "transform", "translate", "turn"],
    &["calculate", "compute", "evaluate", "estimate", "determine"],
    &["compare", "diff", "difference"],
    &["verify", "validate", "check", "confirm", "test"],
    &["analyze", "analyse", "analysis", "examine", "inspect"],
    &["summarize", "summary", "overview", "digest"],
    &["recommend", "suggest", "recommendation", "suggestion", "advice", "tip"],
    &["schedule", "plan", "arrange"],
    &["save", "store", "write", "persist", "record"],
    &["download", "export"],
    &["upload", "import"],
    &["join", "merge", "combine", "concatenate"],
    &["picture", "image", "photo", "photograph"],
    &["folder", "directory"],
    &["file", "document"],
    &["spreadsheet", "excel", "workbook", "sheet", "xlsx"],
    &["presentation", "slide", "powerpoint", "ppt", "deck"],
    &["movie", "film"],
    &["tv", "television", "series"],
    &["price", "cost", "fee"],
    &["buy", "purchase", "order", "shop", "shopping"],
    &["trip", "travel", "journey", "vacation", "holiday"],
    &["car", "vehicle", "automobile"],
    &["message", "chat", "conversation"],
    &["mail", "email"],
    &["person", "people", "user", "member", "contact"],
    &["company", "business", "organization", "firm"],
    &["graph", "chart", "plot", "diagram"],
    &["error", "bug", "issue", "problem"],
    &["job", "career", "vacancy", "employment"],
    &["site", "website", "webpage", "page", "url", "link", "web"],
    &["place", "location", "position"],
    &["article", "news"],
    &["popular", "trend", "trending", "top"],
    &["ticket", "task", "todo"],
    &["repository", "repo"],
    &["database", "db", "sql"],
    &["event", "meeting", "appointment", "calendar"],
    &["number", "count", "amount", "quantity"],
    &["identifier", "id"],
    &["information", "info", "detail", "data"],
    &["rating", "review", "score", "rank", "ranking"],
    &["comment", "note", "remark", "reply"],
    &["size", "dimension", "width", "height"],
    &["delay", "wait", "sleep"],
    &["command", "shell", "console"],
];

static BY_STEM: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut by_stem: HashMap<String, Vec<String>> = HashMap::new();
    for meaning in MEANINGS {
        let stems: BTreeSet<String> =
            meaning.iter().map(|word| stem_of(word).into_owned()).collect();
        for stem in &stems {
            let others = stems.iter().filter(|other| *other != stem).cloned();
            by_stem.entry(stem.clone()).or_default().extend(others);
        }
    }
    by_stem
});

/// The synonyms of a stem, as stems.
pub(super) fn find_synonyms(stem: &str) -> &'static [String] {
    BY_STEM.get(stem).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stem_has_two_meanings_and_no_synonym_is_listed_twice() {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for (line, meaning) in MEANINGS.iter().enumerate() {
            for word in *meaning {
                let other = seen.insert(stem_of(word).into_owned(), line);
                assert!(other.is_none_or(|other| other == line), "{word} is in {other:?} too");
            }
        }
        for (stem, others) in BY_STEM.iter() {
            let once: BTreeSet<&String> = others.iter().collect();
            assert_eq!(once.len(), others.len(), "{stem}");
        }
    }
}
