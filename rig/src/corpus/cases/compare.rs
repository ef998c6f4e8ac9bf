//! Compares a request with the one that a case expects.
//!
//! Exact: equal after the normalisation of RFC 3986. Lenient: equal after names and values are decoded, where a
//! delimiter may be encoded too; or a list header contains blanks, or a body part lacks its file name or type.

use serde_json::{Map, Value};

use super::normal::{decoded, decoded_pairs, normal, normal_pairs, readable_path};
use super::sent::{Part, Sent};

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Exact,
    /// Different from the expected request, but an upstream understands it.
    Lenient(String),
    Failed(String),
}

/// The differences that are tolerated, or the first that is not.
type Checked = Result<Vec<String>, String>;

/// Compares the request with the expected one, or with the best of several expected ones.
pub(super) fn compare(expect: &Value, sent: Option<&Sent>) -> Verdict {
    let alone = std::slice::from_ref(expect);
    let choices = expect["any_of"].as_array().map_or(alone, Vec::as_slice);
    let mut best = Verdict::Failed("nothing is expected".to_owned());
    for choice in choices {
        match (one(choice, sent), &best) {
            (Verdict::Exact, _) => return Verdict::Exact,
            (Verdict::Failed(_), Verdict::Lenient(_)) => {}
            (verdict, _) => best = verdict,
        }
    }
    best
}

fn one(expect: &Value, sent: Option<&Sent>) -> Verdict {
    let refused = expect["error"] == true;
    let Some(sent) = sent else {
        return match refused {
            true => Verdict::Exact,
            false => Verdict::Failed("no request is sent".to_owned()),
        };
    };
    if refused {
        return Verdict::Failed("a request is sent that should be refused".to_owned());
    }
    let checks = [method, path, query, headers, cookies, body];
    let checked: Result<Vec<_>, String> = checks.iter().map(|check| check(expect, sent)).collect();
    match checked.map(|lenient| lenient.concat()) {
        Err(why) => Verdict::Failed(why),
        Ok(lenient) if lenient.is_empty() => Verdict::Exact,
        Ok(lenient) => Verdict::Lenient(lenient.join("; ")),
    }
}

fn method(expect: &Value, sent: &Sent) -> Checked {
    wanted(sent.method == text(expect, "method"), || format!("method {}", sent.method))
}

fn path(expect: &Value, sent: &Sent) -> Checked {
    let expected: Vec<&str> = alternatives(expect, "path", "path_alts").collect();
    let is_any = |same: fn(&str) -> String| {
        expected.iter().any(|expected| same(expected) == same(&sent.path))
    };
    let told = format!("path {} instead of {}", sent.path, text(expect, "path"));
    match is_any(normal) {
        true => Ok(Vec::new()),
        false if is_any(readable_path) => Ok(vec![told]),
        false => Err(told),
    }
}

fn query(expect: &Value, sent: &Sent) -> Checked {
    let expected: Vec<&str> = alternatives(expect, "query", "query_alts").collect();
    let told = format!("query {} instead of {}", sent.query, text(expect, "query"));
    if expected.iter().any(|expected| normal_pairs(expected) == normal_pairs(&sent.query)) {
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

fn headers(expect: &Value, sent: &Sent) -> Checked {
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
    match texts(expect, "headers_absent").find(|name| !sent.headers(name).is_empty()) {
        Some(name) => Err(format!("header {name} is there")),
        None => Ok(lenient),
    }
}

fn cookies(expect: &Value, sent: &Sent) -> Checked {
    let mut lenient = Vec::new();
    for (name, expected) in expect["cookies"].as_object().into_iter().flatten() {
        let expected = expected.as_str().unwrap_or_default();
        let found = sent.cookie(name);
        let told = format!("cookie {name} {found:?} instead of {expected}");
        match found {
            Some(value) if value == expected => {}
            Some(value) if decoded(value.trim_matches('"')) == expected => lenient.push(told),
            _ => return Err(told),
        }
    }
    match texts(expect, "cookies_absent").find(|name| sent.cookie(name).is_some()) {
        Some(name) => Err(format!("cookie {name} is there")),
        None => Ok(lenient),
    }
}

fn body(expect: &Value, sent: &Sent) -> Checked {
    let expected = &expect["body"];
    let told = || format!("body {}", sent.text().chars().take(120).collect::<String>());
    let kind = expected["kind"].as_str().unwrap_or("none");
    if kind == "none" {
        return wanted(sent.body.is_empty(), told);
    }
    let media_type = sent.content_type().split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case(text(expected, "content_type")) {
        return Err(format!("content type {:?}", sent.content_type()));
    }
    match kind {
        "json" => wanted(is_json(&sent.text(), &expected["json"]), told),
        "text" => wanted(sent.text() == text(expected, "text"), told),
        "form" => {
            let (raw, found) = (text(expected, "raw"), sent.text());
            let pairs = |text: &str| normal_pairs(&text.replace('+', "%20"));
            match pairs(raw) == pairs(&found) {
                true => Ok(Vec::new()),
                false if decoded_pairs(raw) == decoded_pairs(&found) => Ok(vec![told()]),
                false => Err(told()),
            }
        }
        "multipart" => parts(expected, &sent.parts().ok_or("the body has no boundary")?),
        other => Err(format!("a body of the unknown kind `{other}` is expected")),
    }
}

fn parts(expected: &Value, parts: &[Part]) -> Checked {
    let mut lenient = Vec::new();
    for expected in expected["parts"].as_array().into_iter().flatten() {
        let name = text(expected, "name");
        let part = parts.iter().find(|part| part.name == name);
        let part = part.ok_or_else(|| format!("part {name} is missing"))?;
        let fits = expected.get("text").is_none_or(|text| *text == part.text)
            && expected.get("json").is_none_or(|json| is_json(&part.text, json));
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

fn wanted(holds: bool, told: impl FnOnce() -> String) -> Checked {
    if holds { Ok(Vec::new()) } else { Err(told()) }
}

fn is_json(text: &str, expected: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value == *expected)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    value[key].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn alternatives<'a>(expect: &'a Value, key: &str, others: &str) -> impl Iterator<Item = &'a str> {
    std::iter::once(text(expect, key)).chain(texts(expect, others))
}

#[cfg(test)]
mod tests;
