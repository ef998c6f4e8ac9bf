//! Reads how to poll a job that continues after its request was answered (requirement E2): `x-toolcrib-polling` of an
//! OpenAPI operation, `polling` of an http manifest entry, and `polling` in the settings of a source.
//!
//! A document is untrusted. An address is a path below the source's base or a URL of the same origin, with only values
//! of the response and arguments filled in; or it is one value of the response that holds the whole URL. None of its
//! text is template code.

use model::header_names::is_header_name;
use model::{CancelRequest, PollingSettings, StatusPolling, StatusWord, path_steps};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::openapi::template_writer::{
    argument_expression, push_expression, push_literal, string_literal,
};

/// The fields of the polling settings.
const POLLING_FIELDS: [&str; 9] = [
    "status_url",
    "status_path",
    "completed",
    "failed",
    "result_path",
    "interval_ms",
    "max_interval_ms",
    "attempts",
    "cancel",
];
const CANCEL_FIELDS: [&str; 2] = ["method", "url"];

/// The maximum number of status words, and the maximum length of a text in bytes.
const MAX_STATUS_WORDS: usize = 50;
const MAX_TEXT_BYTES: usize = 1_000;

/// The polling of a tool, and a warning about values out of range.
pub(crate) type PollingWithWarning = (StatusPolling, Option<String>);

/// Reads the polling of a tool below this base, or returns why it is invalid.
pub(crate) fn read_polling(base: &str, said: &Value) -> Result<PollingWithWarning, String> {
    let unknown = unknown_field(said, &POLLING_FIELDS)
        .or_else(|| unknown_field(said.get("cancel")?, &CANCEL_FIELDS));
    if let Some(name) = unknown {
        let name: String = name.chars().take(80).flat_map(char::escape_debug).collect();
        return Err(format!("`{name}` is not known here"));
    }
    let written = PollingSettings::deserialize(said).map_err(|error| error.to_string())?;
    Ok((build_polling(base, &written)?, range_warning(&written)))
}

/// The polling if it is valid, and the code and message of a warning about the tool.
pub(crate) fn split_warning(
    read: Result<PollingWithWarning, String>,
) -> (Option<StatusPolling>, Option<(&'static str, String)>) {
    match read {
        Ok((polling, beyond)) => {
            let told = |why| ("polling_bounded", format!("is not followed as it is said: {why}"));
            (Some(polling), beyond.map(told))
        }
        Err(why) => {
            let told = format!("is not followed, its first answer is its result: {why}");
            (None, Some(("polling_dropped", told)))
        }
    }
}

/// A warning about numbers out of range. The settings of an admin are rejected instead; the publisher of a document
/// does not see our errors, so there the nearest valid number applies.
fn range_warning(written: &PollingSettings) -> Option<String> {
    let numbers = [
        ("interval_ms", written.interval_ms, StatusPolling::WAIT_RANGE_MS),
        ("max_interval_ms", written.max_interval_ms, StatusPolling::WAIT_RANGE_MS),
        ("attempts", written.attempts, StatusPolling::ATTEMPTS_RANGE),
    ];
    let told = numbers.into_iter().filter_map(|(name, number, (least, most))| {
        let number = number.filter(|number| !(least..=most).contains(number))?;
        let nearest = number.clamp(least, most);
        Some(format!("`{name}` is to be {least} to {most}, and {nearest} holds"))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// The first unknown field. Settings of an admin were already checked against their schema; stored ones may be of a
/// later version.
fn unknown_field<'a>(said: &'a Value, known: &[&str]) -> Option<&'a String> {
    said.as_object()?.keys().find(|name| !known.contains(&name.as_str()))
}

/// Converts polling settings to templates.
pub(crate) fn build_polling(
    base: &str,
    written: &PollingSettings,
) -> Result<StatusPolling, String> {
    match &written.status_path {
        Some(_) if written.completed.is_empty() => {
            return Err("`completed` names no status".to_owned());
        }
        None if !(written.completed.is_empty() && written.failed.is_empty()) => {
            return Err("`completed` and `failed` need a `status_path`".to_owned());
        }
        _ => {}
    }
    let texts = [written.status_path.as_ref(), written.result_path.as_ref()];
    if texts.into_iter().flatten().any(|text| MAX_TEXT_BYTES < text.len()) {
        return Err("a path is too long".to_owned());
    }
    let cancel = written.cancel.as_ref().map(|cancel| {
        let url_template = address_template(base, &cancel.url)?.into();
        match ["DELETE", "POST", "PUT", "PATCH"].contains(&&*cancel.method) {
            true => Ok(CancelRequest { method: cancel.method.clone(), url_template }),
            false => Err("`cancel.method` is none of DELETE, POST, PUT and PATCH".to_owned()),
        }
    });
    Ok(StatusPolling {
        status_url_template: address_template(base, &written.status_url)?.into(),
        status_path: written.status_path.clone(),
        completed: status_words(&written.completed)?,
        failed: status_words(&written.failed)?,
        result_path: written.result_path.clone(),
        interval_ms: written.interval_ms.unwrap_or(StatusPolling::INTERVAL_MS),
        max_interval_ms: written.max_interval_ms.unwrap_or(StatusPolling::MAX_INTERVAL_MS),
        attempts: written.attempts.unwrap_or(StatusPolling::DEFAULT_ATTEMPTS),
        cancel: cancel.transpose()?,
    })
}

/// A problem in the polling settings of an admin, as far as it can be found before the address of the tool is known.
pub fn polling_problem(base: Option<&Url>, written: &PollingSettings) -> Option<String> {
    build_polling(base.map_or("", Url::as_str), written).err()
}

/// The argument names that the addresses contain.
pub(crate) fn polling_arguments(written: &PollingSettings) -> Vec<&str> {
    let addresses =
        [&written.status_url].into_iter().chain(written.cancel.as_ref().map(|it| &it.url));
    let names = addresses.flat_map(|address| address.split("{args.").skip(1));
    names.filter_map(|rest| Some(rest.split_once('}')?.0)).collect()
}

fn status_words(words: &[StatusWord]) -> Result<Vec<Box<str>>, String> {
    let words: Vec<Box<str>> = words
        .iter()
        .map(|word| match word {
            StatusWord::Text(text) => text.clone(),
            StatusWord::Bool(word) => word.to_string().into(),
            StatusWord::Number(number) => number.to_string().into(),
        })
        .collect();
    match words.len() <= MAX_STATUS_WORDS && words.iter().all(|word| word.len() <= MAX_TEXT_BYTES) {
        true => Ok(words),
        false => Err("there are too many statuses, or too long ones".to_owned()),
    }
}

/// Template of an address: `/jobs/{answer.id}` below the base, `https://…/jobs/{answer.id}` at its origin, or
/// `{answer.links.status}` alone.
fn address_template(base: &str, text: &str) -> Result<String, String> {
    let shown =
        || format!("`{}`", text.chars().take(80).flat_map(char::escape_debug).collect::<String>());
    if MAX_TEXT_BYTES < text.len() {
        return Err("an address is too long".to_owned());
    }
    let mut template = String::new();
    let whole = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    if let Some(place) = whole.filter(|place| !place.contains(['{', '}'])) {
        let place = response_expression(place).ok_or_else(|| {
            let places = "`{answer.url}` or `{header.operation-location}`";
            format!("{} is neither `{{location}}` nor a place like {places}", shown())
        })?;
        push_expression(&mut template, &place);
        return Ok(template);
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\\' | '#' | '%');
    let not_here =
        || format!("{} is not a path below the source's url, nor at its origin", shown());
    let (beginning, mut rest) = match split_absolute_url(text) {
        Some((authority, path)) => (origin_if_same(base, authority).ok_or_else(not_here)?, path),
        None => (base.to_owned(), text),
    };
    if !rest.starts_with('/') || rest.starts_with("//") || rest.contains(odd) {
        return Err(not_here());
    }
    push_literal(&mut template, &beginning);
    while let Some((literal, behind)) = rest.split_once('{') {
        let (name, behind) =
            behind.split_once('}').ok_or_else(|| format!("{} has a `{{` without end", shown()))?;
        let place = match name.strip_prefix("args.") {
            Some(name) if !name.is_empty() => Some(argument_expression(name)),
            _ => response_expression(name).filter(|place| place != "location"),
        };
        let place = place.ok_or_else(|| {
            format!("{} has a name that is none of `answer.…`, `header.…` and `args.…`", shown())
        })?;
        push_literal(&mut template, literal);
        push_expression(&mut template, &place);
        rest = behind;
    }
    push_literal(&mut template, rest);
    Ok(template)
}

/// Splits an absolute URL into its origin (`https://api.example`) and the rest.
fn split_absolute_url(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| is_http_scheme(scheme))?;
    let length = rest.find('/').unwrap_or(rest.len());
    Some(text.split_at(scheme.len() + "://".len() + length))
}

fn is_http_scheme(scheme: &str) -> bool {
    ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web))
}

/// The origin of a literal URL if it equals that of the base. A base without a host accepts any origin.
fn origin_if_same(base: &str, authority: &str) -> Option<String> {
    if authority.contains(['{', '}', '@', '?', '#', '\\', '%']) {
        return None;
    }
    let origin = Url::parse(authority).ok()?.origin();
    let is_of_base = match base.contains("://") {
        true => Url::parse(base).ok()?.origin() == origin,
        false => true,
    };
    is_of_base.then(|| origin.ascii_serialization())
}

/// The expression for a value of the response: `answer["job"][0]["id"]`, `headers["operation-location"]`.
fn response_expression(name: &str) -> Option<String> {
    if name == "location" {
        return Some(name.to_owned());
    }
    if let Some(name) = name.strip_prefix("header.") {
        let name = name.to_ascii_lowercase();
        return is_header_name(&name).then(|| format!("headers[{}]", string_literal(&name)));
    }
    let told = name.strip_prefix("answer.")?;
    if !told.starts_with('/') && told.split('.').any(str::is_empty) {
        return None;
    }
    let mut place = "answer".to_owned();
    for step in path_steps(told) {
        let is_number =
            !step.is_empty() && step.len() <= 9 && step.bytes().all(|c| c.is_ascii_digit());
        match is_number {
            true => place.push_str(&format!("[{step}]")),
            false => place.push_str(&format!("[{}]", string_literal(&step))),
        }
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(address: &str) -> Result<String, String> {
        super::address_template("https://api.test/v1", address)
    }

    #[test]
    fn an_address_is_a_path_below_the_base_or_one_response_value() {
        let filled =
            r#"https://api.test/v1/{{ args["shop"] }}/jobs/{{ answer["jobs"][0]["id"] }}?x=1"#;
        assert_eq!(of("/{args.shop}/jobs/{answer.jobs.0.id}?x=1").unwrap(), filled);
        assert_eq!(of("{location}").unwrap(), "{{ location }}");
        assert_eq!(of("{answer.urls.get}").unwrap(), r#"{{ answer["urls"]["get"] }}"#);
        assert_eq!(
            of("{header.Operation-Location}").unwrap(),
            r#"{{ headers["operation-location"] }}"#
        );
        let of_header = r#"https://api.test/v1/jobs/{{ headers["x-job"] }}"#;
        assert_eq!(of("/jobs/{header.x-job}").unwrap(), of_header);
        let dotted = r#"{{ answer["@odata.id"][0]["a/b"] }}"#;
        assert_eq!(of("{answer./@odata.id/0/a~1b}").unwrap(), dotted);
        let code = of("/{answer.a\"]}/{answer.{{7}}}");
        assert!(code.is_ok_and(|template| !template.contains("{{7")), "no text is code");
        for bad in [
            "jobs",
            "//evil.test/x",
            "https://evil.test/{answer.id}",
            "/a b",
            "/a%2f",
            "/{id}",
            "/{answer.}",
            "/{answer",
            "{args.url}",
            "{location}x",
            "/{location}",
            "{header.}",
            "{header.a b}",
            "{header.a\"]}",
            "",
        ] {
            assert!(of(bad).is_err(), "{bad}: {:?}", of(bad));
        }
    }

    #[test]
    fn an_absolute_address_must_have_the_origin_of_the_base() {
        let filled = r#"https://api.test/status/{{ answer["id"] }}"#;
        for origin in ["https://api.test", "HTTPS://API.test:443"] {
            assert_eq!(of(&format!("{origin}/status/{{answer.id}}")).unwrap(), filled);
        }
        for bad in [
            "http://api.test/x",
            "https://api.test:444/x",
            "https://api.test.evil.test/x",
            "https://evil.test\\api.test/x",
            "https://user@api.test/x",
            "https://api.test",
            "https://api.test//x",
            "https://api.test?/x",
            "https://{answer.host}/x",
            "https://api.test{answer.host}/x",
            "https://api.te%73t/x",
            "ftp://api.test/x",
        ] {
            assert!(of(bad).is_err(), "{bad}: {:?}", of(bad));
        }
        // Without a base, the origin is not known yet.
        assert_eq!(
            super::address_template("", "https://api.test/{answer.id}").as_deref(),
            Ok(r#"https://api.test/{{ answer["id"] }}"#)
        );
    }

    #[test]
    fn all_settings_are_read_and_errors_reported() {
        let said = json!({
            "status_url": "/jobs/{answer.id}", "status_path": "state", "completed": ["done", true, 3],
            "failed": ["broken"], "result_path": "result", "interval_ms": 200, "attempts": 5,
            "cancel": {"url": "/jobs/{answer.id}"},
        });
        let polling =
            serde_json::to_value(read_polling("https://api.test", &said).unwrap().0).unwrap();
        assert_eq!(
            polling,
            json!({
                "status_url_template": "https://api.test/jobs/{{ answer[\"id\"] }}", "status_path": "state",
                "completed": ["done", "true", "3"], "failed": ["broken"], "result_path": "result",
                "interval_ms": 200, "attempts": 5,
                "cancel": {"method": "DELETE", "url_template": "https://api.test/jobs/{{ answer[\"id\"] }}"},
            })
        );
        let wrong = |said: Value| read_polling("https://api.test", &said).err().unwrap();
        assert!(wrong(json!(true)).contains("invalid type"));
        assert!(wrong(json!({"status_path": "s"})).contains("`completed` names no status"));
        assert!(wrong(json!({"completed": ["x"]})).contains("need a `status_path`"));
        assert!(wrong(json!({"failed": ["x"]})).contains("need a `status_path`"));
        assert!(read_polling("https://api.test", &json!({})).is_ok(), "202 tells, at `Location`");
        assert!(wrong(json!({"status_path": "s", "completed": []})).contains("names no status"));
        assert!(wrong(json!({"status_path": "s", "completed": ["x"], "url": 1})).contains("`url`"));
        let cancel = json!({"method": "GET", "url": "/x"});
        let said = json!({"status_path": "s", "completed": ["x"], "cancel": cancel});
        assert!(wrong(said).contains("none of DELETE"));
    }

    #[test]
    fn numbers_out_of_range_cause_a_warning() {
        let told = |more: Value| {
            let mut said = json!({"status_path": "s", "completed": ["x"]});
            said.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read_polling("https://api.test", &said).unwrap().1
        };
        let within = json!({"interval_ms": 100, "max_interval_ms": 600_000, "attempts": 1_000});
        assert_eq!(told(within), None);
        let beyond = told(json!({"interval_ms": 99, "attempts": 1_001})).unwrap();
        assert_eq!(
            beyond,
            "`interval_ms` is to be 100 to 600000, and 100 holds; `attempts` is to be 1 to 1000, and 1000 holds"
        );
    }
}
