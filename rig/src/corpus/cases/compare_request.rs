//! Compares a request with the one that a case expects.
//!
//! Exact: equal after the normalisation of RFC 3986. Lenient: equal after names and values are decoded, where a
//! delimiter may be encoded too; or a list header contains blanks, or a body part lacks its file name or type.

use serde_json::{Map, Value};

use super::sent_request::{FormPart, SentRequest};
use super::url_normalization::{
    decode_path, decoded_pairs, normalize, normalized_pairs, percent_decode,
};

#[derive(Debug, PartialEq)]
pub(super) enum CaseVerdict {
    Exact,
    /// Different from the expected request, but an upstream understands it.
    Lenient(String),
    Failed(String),
}

/// The differences that are tolerated, or the first that is not.
type ComparisonResult = Result<Vec<String>, String>;

/// Compares the request with the expected one, or with the best of several expected ones.
pub(super) fn compare_request(expect: &Value, sent: Option<&SentRequest>) -> CaseVerdict {
    let alone = std::slice::from_ref(expect);
    let choices = expect["any_of"].as_array().map_or(alone, Vec::as_slice);
    let mut best = CaseVerdict::Failed("nothing is expected".to_owned());
    for choice in choices {
        match (compare_choice(choice, sent), &best) {
            (CaseVerdict::Exact, _) => return CaseVerdict::Exact,
            (CaseVerdict::Failed(_), CaseVerdict::Lenient(_)) => {}
            (verdict, _) => best = verdict,
        }
    }
    best
}

fn compare_choice(expect: &Value, sent: Option<&SentRequest>) -> CaseVerdict {
    let refused = expect["error"] == true;
    let Some(sent) = sent else {
        return match refused {
            true => CaseVerdict::Exact,
            false => CaseVerdict::Failed("no request is sent".to_owned()),
        };
    };
    if refused {
        return CaseVerdict::Failed("a request is sent that should be refused".to_owned());
    }
    let checks = [
        compare_method,
        compare_path,
        compare_query,
        compare_headers,
        compare_cookies,
        compare_body,
    ];
    let checked: Result<Vec<_>, String> = checks.iter().map(|check| check(expect, sent)).collect();
    match checked.map(|lenient| lenient.concat()) {
        Err(why) => CaseVerdict::Failed(why),
        Ok(lenient) if lenient.is_empty() => CaseVerdict::Exact,
        Ok(lenient) => CaseVerdict::Lenient(lenient.join("; ")),
    }
}

fn compare_method(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    expect_that(sent.method == text_at(expect, "method"), || format!("method {}", sent.method))
}

fn compare_path(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    let expected: Vec<&str> = alternatives(expect, "path", "path_alts").collect();
    let is_any = |same: fn(&str) -> String| {
        expected.iter().any(|expected| same(expected) == same(&sent.path))
    };
    let told = format!("path {} instead of {}", sent.path, text_at(expect, "path"));
    match is_any(normalize) {
        true => Ok(Vec::new()),
        false if is_any(decode_path) => Ok(vec![told]),
        false => Err(told),
    }
}

fn compare_query(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    let expected: Vec<&str> = alternatives(expect, "query", "query_alts").collect();
    let told = format!("query {} instead of {}", sent.query, text_at(expect, "query"));
    if expected.iter().any(|expected| normalized_pairs(expected) == normalized_pairs(&sent.query)) {
        return Ok(Vec::new());
    }
    let decoded = decoded_pairs(&sent.query);
    let is_lenient = expected.iter().any(|expected| decoded_pairs(expected) == decoded)
        || expect.get("query_json").is_some_and(|json| is_json_query(json, &sent.query));
    match is_lenient && expect["strict_only"] != true {
        true => Ok(vec![told]),
        false => Err(told),
    }
}

/// True if each pair of a query contains the JSON of one expected field.
fn is_json_query(expected: &Value, query: &str) -> bool {
    let member = |(name, values): (String, Vec<String>)| {
        let value = serde_json::from_str(values.first()?).ok()?;
        Some((name, value))
    };
    let members: Option<Map<String, Value>> =
        decoded_pairs(query).into_iter().map(member).collect();
    members.is_some_and(|members| Value::Object(members) == *expected)
}

fn compare_headers(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    let mut lenient = Vec::new();
    for (name, expected) in expect["headers"].as_object().into_iter().flatten() {
        let expected = expected.as_str().unwrap_or_default();
        let found = sent.headers(name);
        let without_blanks = |value: &str| {
            let items: Vec<&str> = value.split(',').map(str::trim).collect();
            items.join(",")
        };
        let told = format!("header {name} {found:?} instead of {expected}");
        if found == [expected] {
            continue;
        }
        if found.iter().any(|value| without_blanks(value) == expected)
            || (1 < found.len() && found.join(",") == expected)
        {
            lenient.push(told);
        } else {
            return Err(told);
        }
    }
    match texts_at(expect, "headers_absent").find(|name| !sent.headers(name).is_empty()) {
        Some(name) => Err(format!("header {name} is there")),
        None => Ok(lenient),
    }
}

fn compare_cookies(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    let mut lenient = Vec::new();
    for (name, expected) in expect["cookies"].as_object().into_iter().flatten() {
        let expected = expected.as_str().unwrap_or_default();
        let found = sent.cookie(name);
        let told = format!("cookie {name} {found:?} instead of {expected}");
        match found {
            Some(value) if value == expected => {}
            Some(value) if percent_decode(value.trim_matches('"')) == expected => {
                lenient.push(told)
            }
            _ => return Err(told),
        }
    }
    match texts_at(expect, "cookies_absent").find(|name| sent.cookie(name).is_some()) {
        Some(name) => Err(format!("cookie {name} is there")),
        None => Ok(lenient),
    }
}

fn compare_body(expect: &Value, sent: &SentRequest) -> ComparisonResult {
    let expected = &expect["body"];
    let told = || format!("body {}", sent.text().chars().take(120).collect::<String>());
    let kind = expected["kind"].as_str().unwrap_or("none");
    if kind == "none" {
        return expect_that(sent.body.is_empty(), told);
    }
    let media_type = sent.content_type().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(text_at(expected, "content_type")) {
        return Err(format!("content type {:?}", sent.content_type()));
    }
    match kind {
        "json" => expect_that(equals_json(&sent.text(), &expected["json"]), told),
        "text" => expect_that(sent.text() == text_at(expected, "text"), told),
        "form" => {
            let (raw, found) = (text_at(expected, "raw"), sent.text());
            let pairs = |text: &str| normalized_pairs(&text.replace('+', "%20"));
            match pairs(raw) == pairs(&found) {
                true => Ok(Vec::new()),
                false if decoded_pairs(raw) == decoded_pairs(&found) => Ok(vec![told()]),
                false => Err(told()),
            }
        }
        "multipart" => compare_parts(expected, &sent.parts().ok_or("the body has no boundary")?),
        other => Err(format!("a body of the unknown kind `{other}` is expected")),
    }
}

fn compare_parts(expected: &Value, parts: &[FormPart]) -> ComparisonResult {
    let mut lenient = Vec::new();
    for expected in expected["parts"].as_array().into_iter().flatten() {
        let name = text_at(expected, "name");
        let part = parts.iter().find(|part| part.name == name);
        let part = part.ok_or_else(|| format!("part {name} is missing"))?;
        let fits = expected.get("text").is_none_or(|text| *text == part.text)
            && expected.get("json").is_none_or(|json| equals_json(&part.text, json));
        if !fits {
            return Err(format!("part {name} is {}", part.text));
        }
        let media_type = part.content_type.split(';').next();
        if expected.get("json").is_some() && media_type != Some("application/json") {
            lenient.push(format!("part {name} has the type {:?}", part.content_type));
        }
        if expected["is_file"] == "preferred" && !part.has_file_name {
            lenient.push(format!("part {name} has no file name"));
        }
    }
    Ok(lenient)
}

fn expect_that(holds: bool, told: impl FnOnce() -> String) -> ComparisonResult {
    if holds { Ok(Vec::new()) } else { Err(told()) }
}

fn equals_json(text: &str, expected: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value == *expected)
}

fn text_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn texts_at<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    value[key].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn alternatives<'a>(expect: &'a Value, key: &str, others: &str) -> impl Iterator<Item = &'a str> {
    std::iter::once(text_at(expect, key)).chain(texts_at(expect, others))
}

#[cfg(test)]
mod tests;
