//! Tests of the guarantees of index and ranking.

use std::borrow::Cow;
use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Tools with a name, keywords and a description, in the order of their slots.
fn index(tools: &[(&str, &[&str], &str)]) -> SearchIndex {
    let mut index = SearchIndex::default();
    for (slot, tool) in (0..).zip(tools) {
        index.put_tool(slot, &document(tool));
    }
    index
}

fn document((name, keywords, description): &(&str, &[&str], &str)) -> SearchDocument {
    let mut document = SearchDocument::new(name, name);
    keywords.iter().for_each(|keyword| document.add_keyword(keyword));
    document.add_text(SearchField::Description, description);
    document
}

fn all(index: &SearchIndex) -> ToolSet {
    (0..index.slot_count() as Slot).filter(|slot| !index.tool_id(*slot).is_empty()).collect()
}

/// The result of a search, with scores.
fn found<'a>(index: &'a SearchIndex, query: &str) -> Vec<(&'a str, f32)> {
    let found = search_tools(&[(index, &all(index))], query, 10);
    found.into_iter().map(|it| (index.tool_id(it.slot), it.score)).collect()
}

fn first<'a>(index: &'a SearchIndex, query: &str) -> &'a str {
    found(index, query).first().map_or("", |(id, _)| id)
}

#[test]
fn a_query_of_one_word_gets_the_scores_of_the_table() {
    let index = index(&[
        ("order", &[], ""),
        ("order_pizza", &[], ""),
        ("a", &["Order"], ""),
        ("reorder", &[], ""),
        ("b", &["my orders"], ""),
        ("c", &[], "Takes an order."),
        ("d", &[], "For reordering."),
        ("odrer", &[], ""),
        ("other", &["x"], "y"),
    ]);
    assert_eq!(
        found(&index, " ORDER "),
        [
            ("order", 1.0),
            ("order_pizza", 0.9),
            ("a", 0.85),
            ("reorder", 0.8),
            ("b", 0.7),
            ("c", 0.6),
            ("d", 0.5),
            ("odrer", 0.4 * 0.8),
        ]
    );
}

#[test]
fn one_or_two_letters_match_only_the_beginning_of_texts() {
    let index = index(&[
        ("e", &[], ""),
        ("echo", &[], ""),
        ("send", &["e"], ""),
        ("tell", &["ears"], ""),
        ("c", &[], "Part e of it"),
        ("d", &["here"], "Every one ends here"),
    ]);
    assert_eq!(
        found(&index, "e"),
        [("e", 1.0), ("echo", 0.9), ("send", 0.85), ("tell", 0.7), ("c", 0.6)]
    );
}

#[test]
fn filler_words_and_words_with_symbols_match_descriptions() {
    let index = index(&[
        ("one", &[], "Shows help for a command"),
        ("two", &[], "Sends an e-mail."),
        ("three", &[], "Runs C++ and node.js"),
        ("four", &[], "Many e-mails"),
    ]);
    for (query, id) in [("help", "one"), ("node.js", "three"), ("c++", "three")] {
        assert_eq!(found(&index, query).first(), Some(&(id, 0.6)), "{query}");
    }
    assert_eq!(found(&index, "e-mail"), [("two", 0.6), ("four", 0.5)]);
    assert_eq!(found(&index, "comman"), [("one", 0.5)]);
    // They do not affect any other query.
    assert_eq!(found(&index, "help me with this for a while"), []);
}

#[test]
fn long_names_are_equal_only_if_they_are_equal_to_the_end() {
    let (one, two) = (format!("{}_one", "long".repeat(15)), format!("{}_two", "long".repeat(15)));
    let index = index(&[(&one, &[], ""), (&two, &[], "")]);
    let query = one.replace('_', "-");
    let hits = found(&index, &query);
    assert_eq!(hits[0], (one.as_str(), 0.95));
    assert!(hits[1..].iter().all(|(_, score)| *score < 0.95), "{hits:?}");
}

#[test]
fn the_rarest_words_of_a_long_query_count() {
    let several = |word: &str| -> String {
        (b'a'..b'u').map(char::from).map(|it| format!("{word}{it}{it} {word}x{it}{it} ")).collect()
    };
    let (common, unknown) = (several("common"), several("unknowable"));
    let index = index(&[("a", &[], &common), ("b", &[], &common), ("c", &[], "Something rare")]);
    // Neither words of every tool nor unknown words displace the informative one.
    for query in [format!("{common} rare"), format!("{unknown} rare")] {
        assert!(found(&index, &query).iter().any(|(id, _)| *id == "c"), "{query}");
    }
}

#[test]
fn no_tool_takes_long_to_index() {
    let words = |from: usize| (0..1_000).map(move |n| format!("w{}x ", from + n)).collect();
    let texts: Vec<String> = (0..300).map(|n| words(1_000 * n)).collect();
    let mut document = SearchDocument::new("a", "a");
    texts.iter().for_each(|text| document.add_text(SearchField::Description, text));
    texts.iter().for_each(|text| document.add_keyword(text));
    let length: usize = document.texts.iter().map(|(_, text)| text.len()).sum();
    assert!(length <= 64 * 1024 && document.keywords.is_empty(), "{length}");
    let mut index = SearchIndex::default();
    index.put_tool(0, &document);
    assert!(index.words_at(0) <= 2_000, "{}", index.words_at(0));
    index.remove_tool(0);
    assert!(index.is_bare());
}

#[test]
fn the_best_hit_does_not_depend_on_the_limit() {
    let index = index(&[("odrer", &[], ""), ("c", &[], "Takes an order.")]);
    assert_eq!(found(&index, "order"), [("c", 0.6), ("odrer", 0.4 * 0.8)]);
    let best = search_tools(&[(&index, &all(&index))], "order", 1);
    assert_eq!((index.tool_id(best[0].slot), best[0].score), ("c", 0.6));
}

#[test]
fn a_name_is_found_in_any_notation_and_with_a_typo() {
    let index = index(&[
        ("read_file", &[], "Get the content"),
        ("readSheet", &[], "Reads a file with a sheet"),
        ("write_file", &[], "Put the content"),
    ]);
    for query in ["read_file", "readFile", "Read File", "read-file", "raed file", "readfil"] {
        assert_eq!(first(&index, query), "read_file", "{query}");
    }
    assert_eq!(found(&index, "readFile")[0].1, 0.95);
}

#[test]
fn words_are_found_by_stem_with_a_typo_and_by_synonym() {
    let index = index(&[
        ("weather", &[], "Tells the temperature of tomorrow"),
        ("remove_user", &[], "For administrators"),
        ("invoices", &[], "Creates bills for customers"),
    ]);
    for (query, name) in [
        ("temperatures for tomorow", "weather"),
        ("please delete this person", "remove_user"),
        ("I want to create a bill", "invoices"),
    ] {
        assert_eq!(first(&index, query), name, "{query}");
    }
    assert!(found(&index, "quantum chromodynamics").is_empty());
    assert!(found(&index, "").is_empty() && found(&index, " \u{0} ?! ").is_empty());
}

#[test]
fn parameters_and_their_examples_are_searched_to_a_limited_depth() {
    let mut index = SearchIndex::default();
    let mut document = SearchDocument::new("a", "do_it");
    document.add_parameters(&json!({"properties": {
        "iban": {"type": "string", "description": "Where money goes"},
        "mode": {"enum": ["express"]},
        "to": {"properties": {"town": {"description": "A municipality"}}},
    }}));
    index.put_tool(0, &document);
    index.put_tool(1, &SearchDocument::new("b", "other"));
    for query in ["which iban", "money goes", "express mode", "some town", "municipality there"] {
        assert_eq!(first(&index, query), "a", "{query}");
    }
}

#[test]
fn other_languages_are_searched_too() {
    let index = index(&[
        ("a", &[], "天気予報を調べる"),
        ("b", &[], "Größe einer Datei ändern"),
        ("c", &[], "найти файл"),
    ]);
    for (query, name) in [("東京の天気", "a"), ("GRÖSSE größe ändern", "b"), ("Файл найти", "c")]
    {
        assert_eq!(first(&index, query), name, "{query}");
    }
}

#[test]
fn several_indexes_are_searched_as_one() {
    let [one, two] = [("pay", "Pays a bill"), ("bill", "Writes a bill")].map(|(name, text)| {
        let mut index = SearchIndex::default();
        index.put_tool(0, &document(&(name, &[], text)));
        index
    });
    let both = index(&[("pay", &[], "Pays a bill"), ("bill", &[], "Writes a bill")]);
    for query in ["bill", "write bills", "pay the bill"] {
        let apart = search_tools(&[(&one, &all(&one)), (&two, &all(&two))], query, 10);
        let apart: Vec<_> = apart
            .iter()
            .map(|it| ([&one, &two][it.index_number].tool_id(it.slot), it.score))
            .collect();
        assert_eq!(apart, found(&both, query), "{query}");
    }
}

#[test]
fn every_query_is_answered_within_seconds() {
    let index = index(&[("a.*b", &["("], "Some text"), ("grep", &[], "Finds [a-z]+ in files")]);
    let queries = [
        "x".repeat(1 << 20),
        "find files ".repeat(100_000),
        (0..10_000).map(|number| format!("w{number} ")).collect(),
        "\u{0}\u{7f}\n\t\u{202e}\u{feff}".repeat(1_000),
        ".*(a+)+$ [[[ \\ {{{ %s ' \" ; --".repeat(1_000),
        "🦀🦀🦀 é̩̍̏".repeat(1_000),
    ];
    let mut many = SearchIndex::default();
    for slot in 0..2_000 {
        let text = format!("Finds files and text, number {slot} of many in w{}", slot % 100);
        many.put_tool(slot, &document(&(&format!("find_{slot}"), &["("], &text)));
    }
    for (query, index) in queries.iter().flat_map(|query| [(query, &index), (query, &many)]) {
        let begin = std::time::Instant::now();
        search_tools(&[(index, &all(index))], query, 10);
        assert!(begin.elapsed().as_secs() < 5, "{:?}", query.get(..20));
    }
    assert_eq!(first(&index, ".*"), "a.*b");
    assert_eq!(first(&index, "("), "a.*b");
}

/// Few words, so that tools have much in common.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("create"),
        Just("creates"),
        Just("make"),
        Just("file"),
        Just("flie"),
        Just("filename"),
        Just("report"),
        Just("reports"),
        Just("the"),
        Just("get"),
        Just("retrieve"),
    ];
    proptest::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

fn tools() -> impl Strategy<Value = Vec<(String, String, String)>> {
    let name = words().prop_map(|words| words.replace(' ', "_"));
    proptest::collection::vec((name, words(), words()), 1..12)
}

fn numbered(
    number: usize,
    (name, keyword, description): &(String, String, String),
) -> SearchDocument {
    let mut document = SearchDocument::new(&format!("{number:03}"), name);
    document.add_keyword(keyword);
    document.add_text(SearchField::Description, description);
    document
}

/// Any string, often one with a meaning elsewhere: regular expressions, templates, SQL, control characters.
fn anything() -> impl Strategy<Value = String> {
    let odd = prop_oneof![
        Just(".*(a+)+$"),
        Just("[[["),
        Just("\\"),
        Just("{{ x }}"),
        Just("'; --"),
        Just("\u{0}"),
        Just("\u{202e}"),
        Just("\n"),
        Just("İ"),
        Just("ß"),
        Just("ﬃ"),
        Just("🦀"),
        Just("天気"),
        Just("e\u{301}"),
        Just("read_file"),
    ];
    let odd = proptest::collection::vec(odd, 0..20).prop_map(|parts| parts.concat());
    prop_oneof![any::<String>(), odd, words()]
}

proptest! {
    // A fuzz target: set `PROPTEST_CASES=1000000` in the environment for a longer run.
    #[test]
    fn any_text_can_be_indexed_and_searched(
        texts in proptest::collection::vec((anything(), anything(), anything()), 1..6), query in anything(),
    ) {
        let mut index = SearchIndex::default();
        for (slot, (name, keyword, description)) in (0..).zip(&texts) {
            let mut document = SearchDocument::new(&slot.to_string(), name);
            document.add_keyword(keyword);
            document.add_text(SearchField::Description, description);
            document.add_parameters(&json!({"properties": {name: {"description": keyword, "enum": [description]}}}));
            index.put_tool(slot, &document);
        }
        for (_, score) in found(&index, &query) {
            prop_assert!(0.0 < score && score <= 1.0);
        }
        // A query with the whole name finds the tool, if the name contains any letter or digit.
        for (name, ..) in &texts {
            let hits = found(&index, name);
            let can_be_said = name.chars().any(char::is_alphanumeric);
            prop_assert!(!can_be_said || !hits.is_empty(), "{name:?}");
        }
        (0..texts.len() as Slot).for_each(|slot| index.remove_tool(slot));
        prop_assert!(index.is_bare());
    }

    #[test]
    fn a_search_reveals_nothing_about_tools_outside_its_scope(
        tools in tools(), more in tools(), query in words(), limit in 1_usize..6,
    ) {
        // Index the tools alone, and also between other tools.
        let (mut alone, mut among) = (SearchIndex::default(), SearchIndex::default());
        for (number, tool) in more.iter().enumerate() {
            among.put_tool(2 * number as Slot + 1, &numbered(900 + number, tool));
        }
        for (number, tool) in tools.iter().enumerate() {
            alone.put_tool(number as Slot, &numbered(number, tool));
            among.put_tool(2 * number as Slot, &numbered(number, tool));
        }
        let few: ToolSet = (0..tools.len() as Slot).map(|slot| 2 * slot).collect();
        let one = search_tools(&[(&alone, &all(&alone))], &query, limit);
        let two = search_tools(&[(&among, &few)], &query, limit);
        let seen = |index: &SearchIndex, found: &[SearchHit]| -> Vec<(String, u32)> {
            found.iter().map(|it| (index.tool_id(it.slot).to_owned(), it.score.to_bits())).collect()
        };
        prop_assert_eq!(seen(&alone, &one), seen(&among, &two));
    }

    #[test]
    fn a_smaller_limit_gives_the_first_hits_of_a_larger_one(tools in tools(), query in words(), limit in 1_usize..6) {
        let mut index = SearchIndex::default();
        for (number, tool) in tools.iter().enumerate() {
            index.put_tool(number as Slot, &numbered(number, tool));
        }
        let many = search_tools(&[(&index, &all(&index))], &query, 100);
        let few = search_tools(&[(&index, &all(&index))], &query, limit);
        prop_assert_eq!(&many[..limit.min(many.len())], &few[..]);
    }

    #[test]
    fn a_changed_index_equals_a_fresh_one(
        before in tools(), after in tools(), gone in proptest::collection::btree_set(0_u32..12, 0..5), query in words(),
    ) {
        let (mut changed, mut fresh) = (SearchIndex::default(), SearchIndex::default());
        for (number, tool) in before.iter().enumerate() {
            changed.put_tool(number as Slot, &numbered(number, tool));
        }
        let kept = changed.clone();
        let is_before = found(&kept, &query).into_iter().map(|(id, score)| (id.to_owned(), score)).collect::<Vec<_>>();
        for slot in 0..before.len().max(after.len()) as Slot {
            changed.remove_tool(slot);
        }
        for (number, tool) in after.iter().enumerate().filter(|(number, _)| !gone.contains(&(*number as Slot))) {
            changed.put_tool(number as Slot, &numbered(number, tool));
            fresh.put_tool(number as Slot, &numbered(number, tool));
        }
        prop_assert_eq!(found(&changed, &query), found(&fresh, &query));
        let still: Vec<_> = found(&kept, &query).into_iter().map(|(id, score)| (id.to_owned(), score)).collect();
        prop_assert_eq!(is_before, still);
        // Words without tools leave no trace.
        for slot in 0..12 {
            changed.remove_tool(slot);
        }
        prop_assert!(changed.is_bare());
    }

    #[test]
    fn tools_added_in_a_batch_equal_tools_added_one_by_one(
        tools in proptest::collection::vec((0_u32..12, tools()), 1..4), query in words(),
    ) {
        // In any order, with some slots replaced.
        let all: Vec<(Slot, SearchDocument)> = tools.iter().flat_map(|(first, tools)| {
            (*first..).zip(tools).map(|(slot, tool)| (slot % 12, numbered(slot as usize, tool)))
        }).collect();
        let (mut together, mut apart) = (SearchIndex::default(), SearchIndex::default());
        together.put_tools(all.iter().map(|(slot, document)| (*slot, Cow::Borrowed(document))));
        all.iter().for_each(|(slot, document)| apart.put_tool(*slot, document));
        prop_assert_eq!(found(&together, &query), found(&apart, &query));
        (0..12).for_each(|slot| together.remove_tool(slot));
        prop_assert!(together.is_bare());
    }

    #[test]
    fn scores_are_above_0_and_at_most_1_and_descend(tools in tools(), query in words()) {
        let documents: Vec<_> = tools.iter().enumerate().map(|(number, tool)| numbered(number, tool)).collect();
        let mut index = SearchIndex::default();
        (0..).zip(&documents).for_each(|(slot, document)| index.put_tool(slot, document));
        let scores: Vec<f32> = found(&index, &query).iter().map(|(_, score)| *score).collect();
        prop_assert!(scores.iter().all(|score| 0.0 < *score && *score <= 1.0));
        prop_assert!(scores.is_sorted_by(|one, two| two <= one));
        let ids: BTreeSet<&str> = found(&index, &query).iter().map(|(id, _)| *id).collect();
        prop_assert_eq!(ids.len(), scores.len());
    }
}
