//! Generates `docs/reference/problems.md`, which lists every problem code.

use super::ProblemCode;
use crate::reference_page::assert_page;

const OPENING: &str = "\
# Problems

<!-- Made from the code by a test; change it there. -->

A request that is not carried out is answered with a problem (RFC 9457, `application/problem+json`). Its `code` stays as it is; `detail`
is for people and may change. `errors` has all that is wrong with a body or with parameters, each with its `field`. Where it
is known when to come again, the answer has `Retry-After`.

Why a *call* failed, though the request was fine, is a code of its [outcome](../agents.md#why-a-call-failed); why an agent does not
have a tool is one of an [explanation](../access.md#why-has-it-this-tool); what cannot become a tool is a
[warning](../openapi.md#warnings).

| Status | Code | Says |
|---|---|---|
";

#[test]
fn the_reference_page_lists_every_code() {
    let schema = schemars::schema_for!(ProblemCode);
    let words = schema.get("enum").unwrap().as_array().unwrap();
    let mut codes: Vec<ProblemCode> =
        words.iter().map(|word| serde_json::from_value(word.clone()).unwrap()).collect();
    codes.sort_by_key(|code| (code.status(), code.to_string()));
    let row = |code: &ProblemCode| format!("| {} | `{code}` | {} |\n", code.status(), code.title());
    let rows: String = codes.iter().map(row).collect();
    assert_page("problems.md", &format!("{OPENING}{rows}"));
}
