//! Patterns: matching, rejected patterns, and that shortcuts agree with the regex engine.

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap()
}

fn problem(text: &str) -> String {
    text.parse::<Pattern>().unwrap_err().problem
}

/// Asserts that a pattern matches the first list and none of the second.
fn check(text: &str, matching: &[&str], others: &[&str]) {
    let pattern = pattern(text);
    for text in matching {
        assert!(pattern.matches(text), "`{pattern}` should match {text:?}");
    }
    for text in others {
        assert!(!pattern.matches(text), "`{pattern}` should not match {text:?}");
    }
}

#[test]
fn a_star_matches_any_text() {
    check("*", &["", "a", "a/b\nc", "日本"], &[]);
    check("**", &["", "a/b"], &[]);
}

#[test]
fn a_literal_matches_the_whole_text_in_any_case() {
    check("get_pet", &["get_pet", "GET_PET"], &["get_pets", "a_get_pet", "get_pet\n", ""]);
    check("a.b+c", &["a.b+c"], &["axb+c", "a.bbc"]);
    check("straße-ü", &["STRAßE-Ü"], &["strasse-ü"]);
}

#[test]
fn stars_open_the_ends() {
    check("get_*", &["get_", "GET_pet/x"], &["get", "forget_"]);
    check("*_pet", &["_pet", "get_PET"], &["pet", "get_pet_"]);
    check("*pet*", &["pet", "carpets", "PETS/1"], &["pe", "p-e-t"]);
    check("/a/*/c", &["/a/b/c", "/a/b/b/c", "/a//c"], &["/a/c"]);
}

#[test]
fn a_question_mark_is_one_character_and_not_one_byte() {
    check("a?c", &["abc", "aéc", "a/c", "a日c", "a\nc"], &["ac", "abbc"]);
}

#[test]
fn a_set_is_one_of_its_characters() {
    check("v[0-9]", &["v1", "V9"], &["v", "va", "v12"]);
    check("v[!0-9]", &["va"], &["v1"]);
    check("v[^a]", &["vb"], &["va", "vA"]);
    check("[]a-]", &["]", "a", "-"], &["b"]);
    check("[é-ü]", &["ê"], &["a"]);
    check("[&&~~^]", &["&", "~", "^"], &["a"]);
}

#[test]
fn braces_with_a_comma_are_a_choice() {
    check("{get,list}_*", &["get_a", "LIST_b"], &["put_a", "get"]);
    check("a{,b{c,d}}", &["a", "abc", "abd"], &["ab", "abcd"]);
    check("a,b", &["a,b"], &["a", "b"]);
}

#[test]
fn braces_without_a_comma_stand_for_themselves_as_in_a_path() {
    check("/pets/{petId}", &["/pets/{petId}", "/pets/{petid}"], &["/pets/petId", "/pets/1"]);
    check("/{a,b{c}}/*", &["/a/x", "/b{c}/x"], &["/bc/x", "/{a,b{c}}/x"]);
}

#[test]
fn a_backslash_escapes_a_character() {
    check(r"\*\?\[\{a\,b\}\\", &[r"*?[{a,b}\"], &["x"]);
    check(r"{a\,b,c}", &["a,b", "c"], &["a", "b"]);
}

#[test]
fn a_regex_is_case_sensitive_and_anchored_at_both_ends() {
    check("regex:admin", &["admin"], &["administrator", "xadmin", "Admin", "admin\n", "\nadmin"]);
    check("regex:(?i)admin", &["ADMIN"], &["admins"]);
    check("regex:a|ab", &["a", "ab"], &["abb", "b"]);
    check("regex:(?m)^a$", &["a"], &["a\n", "b\na", "a\nb"]);
    check(r"regex:\w+", &["größe"], &["a b", ""]);
}

#[test]
fn a_regex_cannot_break_out_of_its_anchors() {
    assert_eq!(problem("regex:a)|(?:b"), "unopened group; mend the expression");
    assert_eq!(problem("regex:(?x)a # no line break"), "unclosed group; mend the expression");
}

#[test]
fn expressions_without_linear_time_are_rejected() {
    assert!(problem(r"regex:(a)\1").starts_with("backreferences are not supported"));
    assert!(problem("regex:(?=a)").starts_with("look-around"));
    assert_eq!(
        problem("regex:((a{1000}){1000}){1000}"),
        "it takes too much memory; make it shorter or repeat less"
    );
}

#[test]
fn an_invalid_pattern_is_rejected_with_advice() {
    let error = "{a,b".parse::<Pattern>().unwrap_err().to_string();
    assert_eq!(
        error,
        r"`{a,b` is not a pattern: a `{` is not closed; write `\{` for the character"
    );
    assert_eq!(problem("a}"), r"a `}` has no `{`; write `\}` for the character");
    assert_eq!(problem("[]"), r"a `[` is not closed; write `\[` for the character");
    assert_eq!(problem("a\\"), r"it ends with a lone `\`; write `\\` for the character");
    assert_eq!(problem(""), "it is empty; write `*` for any text, or leave it out");
    assert_eq!(problem("regex:"), problem(""));
    assert!(problem("[z-a]").starts_with("invalid character class range"));
    assert!(problem(&"a".repeat(PATTERN_LIMIT + 1)).contains("1024 bytes"));
}

#[test]
fn the_longest_literal_compiles_within_the_memory_limit() {
    for literal in ["k".repeat(PATTERN_LIMIT), "é".repeat(PATTERN_LIMIT / 2)] {
        assert!(pattern(&literal).matches(&literal.to_uppercase()));
    }
}

#[test]
fn a_pattern_is_a_string_in_json() {
    let pattern: Pattern = serde_json::from_str(r#""get_*""#).unwrap();
    assert_eq!(serde_json::to_string(&pattern).unwrap(), r#""get_*""#);
    assert_eq!(format!("{pattern} {pattern:?}"), r#"get_* "get_*""#);
    assert!(serde_json::from_str::<Pattern>(r#""[""#).is_err());
}

proptest! {
    #[test]
    fn shortcuts_agree_with_the_engine(
        glob in "[*]{0,2}[aAkKſsé./ ]{0,3}[*]{0,2}",
        text in "[aAkKſsSé./\n\u{212a} ]{0,5}",
    ) {
        prop_assume!(!glob.is_empty());
        let pattern = pattern(&glob);
        prop_assert_eq!(pattern.matches(&text), pattern.0.regex.is_match(&text));
    }

    #[test]
    fn a_fully_escaped_string_matches_itself(text in ".{1,20}") {
        let escaped: String = text.chars().flat_map(|c| ['\\', c]).collect();
        let pattern = pattern(&escaped);
        prop_assert!(pattern.matches(&text));
        prop_assert!(pattern.matches(&text.to_ascii_uppercase()));
        prop_assert!(!pattern.matches(&(text + "x")));
    }

    #[test]
    fn parsing_and_matching_never_panic(text in r"(regex:)?([*?\[\]{},\\!^()|a-c-]|\PC){0,24}", name in ".*") {
        if let Ok(pattern) = text.parse::<Pattern>() {
            pattern.matches(&name);
            prop_assert_eq!(pattern.as_str(), text);
        }
    }
}
