//! Reads one declared HTTP request into the templates that every HTTP tool has; each value is encoded for its position.

use std::collections::BTreeMap;

use model::placeholder::{TemplatePart, split_template};
use model::secret_ref::is_secret_name;
use model::{BodyEncoding, CustomBody, CustomRequest, HttpRequest, StatusPolling, header_names};
use serde_json::Value;

use super::CustomSettingsReader;
use crate::http_manifest::manifest_request::url_prefix;
use crate::openapi::template_writer::{
    argument_expression, push_expression, push_literal, string_literal,
};
use crate::polling_settings;

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that carry credentials. A credential belongs under `auth` of the source, which holds only a reference to it.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];
/// The minimum length of a value that may be a secret, in bytes. Shorter ones are words, such as
/// `X-Atlassian-Token: no-check`.
const MIN_SECRET_BYTES: usize = 12;

impl CustomSettingsReader<'_> {
    /// The templates of a request, and its path for display and selectors.
    pub(super) fn build_request(
        &mut self,
        at: &str,
        request: &CustomRequest,
        is_name: &impl Fn(&str) -> bool,
    ) -> Option<(Box<str>, HttpRequest)> {
        if !METHODS.contains(&&*request.method) {
            self.report_problem(
                format!("{at}.method"),
                format!("is to be one of {}", METHODS.join(", ")),
            );
        }
        if request.method.as_ref() == "GET" && request.body.is_some() {
            self.report_problem(
                format!("{at}.body"),
                "a GET request has none: say another `method`",
            );
        }
        for name in request.headers.keys() {
            if CREDENTIAL_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                let why = "is for credentials: give them under `auth` of the source, by reference";
                self.report_problem(format!("{at}.headers.{name}"), why);
            } else if header_names::is_reserved_header(name) {
                self.report_problem(format!("{at}.headers.{name}"), "is not set by tools");
            }
        }
        self.check_literal_secrets(at, request, is_name);
        let (path, url_template) = self.build_address(&format!("{at}.url"), request, is_name)?;
        let headers = request.headers.iter();
        let headers =
            headers.map(|(name, text)| (name.clone(), header_template(text, is_name).into()));
        let body = request.body.as_ref().map(|body| body_template(body, is_name));
        let (body_template, body_encoding) = body.unzip();
        let request = HttpRequest {
            url_template: url_template.into(),
            headers_template: headers.collect(),
            body_template: body_template.map(Into::into),
            body_encoding: body_encoding.unwrap_or_default(),
        };
        Some((path.into(), request))
    }

    /// Reports literal secrets: the settings are shown to admins, stored in the journal and exported.
    fn check_literal_secrets(
        &mut self,
        at: &str,
        request: &CustomRequest,
        is_name: &impl Fn(&str) -> bool,
    ) {
        let mut named = Vec::new();
        collect_request_texts(request, &mut named);
        let (_, fixed) = request.url.split_once('?').unwrap_or_default();
        let fixed = fixed.split('&').filter_map(|pair| pair.split_once('='));
        let fixed = fixed.map(|(name, text)| ("url", name, text));
        let named = named.iter().filter_map(|(place, text)| {
            let place = place.strip_prefix("request.")?;
            Some((place, place.rsplit('.').next()?, *text))
        });
        let pairs: Vec<_> = fixed.chain(named).collect();
        let is_key = |name: &str, text: &str| {
            let parts = split_template(text, is_name);
            let written = parts.iter().map(|part| match part {
                TemplatePart::Text(text) => text.len(),
                TemplatePart::Name(_) => 0,
            });
            is_secret_name(name) && MIN_SECRET_BYTES <= written.sum()
        };
        for (place, name, text) in pairs {
            if !CREDENTIAL_HEADERS.contains(&name.to_ascii_lowercase().as_str())
                && is_key(name, text)
            {
                let why = format!(
                    "`{name}` holds what may be a secret: give it under `auth` of the source, by reference"
                );
                self.report_problem(format!("{at}.{place}"), why);
            }
        }
    }

    /// How to poll a long-running job, relative to the base of the request: the `url` of the source, or the origin of
    /// an absolute URL.
    pub(super) fn build_polling(
        &mut self,
        at: &str,
        request: &CustomRequest,
        is_argument: &impl Fn(&str) -> bool,
    ) -> Option<StatusPolling> {
        let said = request.polling.as_ref()?;
        for name in
            polling_settings::polling_arguments(said).into_iter().filter(|name| !is_argument(name))
        {
            self.report_problem(
                at,
                format!("has `{{args.{name}}}`, which is no argument of the tool"),
            );
        }
        let base = match origin_end(&request.url) {
            Some(end) => request.url.split_at(end).0.to_owned(),
            None => self.base.map(url_prefix).unwrap_or_default(),
        };
        let read = polling_settings::build_polling(&base, said);
        read.map_err(|why| self.report_problem(at, why)).ok()
    }

    fn build_address(
        &mut self,
        at: &str,
        request: &CustomRequest,
        is_name: &impl Fn(&str) -> bool,
    ) -> Option<(String, String)> {
        let (url, fixed) = request.url.split_once('?').unwrap_or((&request.url, ""));
        if split_template(fixed, is_name).iter().any(|part| matches!(part, TemplatePart::Name(_))) {
            self.report_problem(at, "has a placeholder in its query: put the pair into `query`");
        }
        let (mut template, path) = match (origin_end(url), self.base) {
            (Some(end), _) => (plain_template(url, is_name), url.split_at(end).1),
            (None, Some(below)) if url.starts_with('/') => {
                (url_prefix(below) + &plain_template(url, is_name), url)
            }
            (None, None) if url.starts_with('/') => {
                self.report_problem(
                    at,
                    "is a path, and the source has no `url` that it could be below",
                );
                return None;
            }
            (None, _) => {
                self.report_problem(at, "is to begin with `http://`, `https://` or `/`");
                return None;
            }
        };
        let fixed = fixed.split('&').filter(|pair| !pair.is_empty()).map(string_literal);
        let pairs = fixed.chain(form_expressions(&request.query, is_name)).collect::<Vec<_>>();
        if !pairs.is_empty() {
            push_expression(&mut template, &format!("query({})", pairs.join(", ")));
        }
        let shown = split_template(path, is_name).into_iter().map(|part| match part {
            TemplatePart::Text(text) => text.to_owned(),
            TemplatePart::Name(name) => format!("{{{name}}}"),
        });
        let shown: String = shown.collect();
        Some((if shown.is_empty() { "/".to_owned() } else { shown }, template))
    }

    /// A GET request without headers, query or body.
    pub(super) fn build_get_request(
        &mut self,
        at: &str,
        url: &str,
        is_name: &impl Fn(&str) -> bool,
    ) -> Option<HttpRequest> {
        let request = CustomRequest {
            method: "GET".into(),
            url: url.into(),
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
            body: None,
            polling: None,
        };
        let (_, url_template) = self.build_address(at, &request, is_name)?;
        Some(HttpRequest {
            url_template: url_template.into(),
            headers_template: BTreeMap::new(),
            body_template: None,
            body_encoding: BodyEncoding::default(),
        })
    }
}

/// Collects every text that may contain placeholders, with its field path.
pub(super) fn collect_request_texts<'a>(
    request: &'a CustomRequest,
    texts: &mut Vec<(String, &'a str)>,
) {
    texts.push(("request.url".to_owned(), &request.url));
    for (member, pairs) in [("query", &request.query), ("headers", &request.headers)] {
        let pairs = pairs.iter();
        texts.extend(pairs.map(|(name, text)| (format!("request.{member}.{name}"), &**text)));
    }
    match &request.body {
        None => {}
        Some(CustomBody::Text(text)) => texts.push(("request.body.text".to_owned(), text)),
        Some(CustomBody::Form(pairs)) => texts.extend(
            pairs.iter().map(|(name, text)| (format!("request.body.form.{name}"), &**text)),
        ),
        Some(CustomBody::Json(value)) => collect_json_texts(value, "request.body.json", texts),
    }
}

fn collect_json_texts<'a>(value: &'a Value, at: &str, texts: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) => texts.push((at.to_owned(), text)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(number, item)| {
                collect_json_texts(item, &format!("{at}[{number}]"), texts)
            });
        }
        Value::Object(members) => {
            members
                .iter()
                .for_each(|(name, it)| collect_json_texts(it, &format!("{at}.{name}"), texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The byte position at which the origin of an absolute URL ends.
fn origin_end(url: &str) -> Option<usize> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let length = rest.find('/').unwrap_or(rest.len());
    is_web.then_some(scheme.len() + "://".len() + length)
}

/// A template of literal text and plain values; the position of the template decides how values are encoded.
fn plain_template(text: &str, is_name: &impl Fn(&str) -> bool) -> String {
    build_template(text, is_name, argument_expression)
}

/// A header template. The header is omitted if one of its values is missing.
fn header_template(text: &str, is_name: &impl Fn(&str) -> bool) -> String {
    build_template(text, is_name, |name| format!("header({})", argument_expression(name)))
}

fn build_template(
    text: &str,
    is_name: &impl Fn(&str) -> bool,
    expression: impl Fn(&str) -> String,
) -> String {
    let mut template = String::new();
    for part in split_template(text, is_name) {
        match part {
            TemplatePart::Text(text) => push_literal(&mut template, text),
            TemplatePart::Name(name) => push_expression(&mut template, &expression(name)),
        }
    }
    template
}

fn form_expressions(
    pairs: &BTreeMap<Box<str>, Box<str>>,
    is_name: &impl Fn(&str) -> bool,
) -> impl Iterator<Item = String> {
    pairs.iter().map(|(name, text)| {
        format!("form({}, {})", string_literal(name), joined_text_expression(text, is_name))
    })
}

/// A text as one value; a text that is only a placeholder keeps the type of its argument.
fn value_expression(text: &str, is_name: &impl Fn(&str) -> bool) -> String {
    match split_template(text, is_name).as_slice() {
        [TemplatePart::Name(name)] => argument_expression(name),
        _ => joined_text_expression(text, is_name),
    }
}

/// A text as one string: the fields of an object argument never become pairs of their own. Undefined if an argument is
/// missing.
fn joined_text_expression(text: &str, is_name: &impl Fn(&str) -> bool) -> String {
    let parts = split_template(text, is_name);
    let names: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            TemplatePart::Name(name) => Some(argument_expression(name)),
            TemplatePart::Text(_) => None,
        })
        .collect();
    if names.is_empty() {
        return string_literal(text);
    }
    let pieces: Vec<_> = parts
        .iter()
        .map(|part| match part {
            TemplatePart::Text(text) => string_literal(text),
            TemplatePart::Name(name) => argument_expression(name),
        })
        .collect();
    let all: Vec<_> = names.iter().map(|name| format!("{name} is defined")).collect();
    format!("(join({}) if {})", pieces.join(", "), all.join(" and "))
}

fn body_template(body: &CustomBody, is_name: &impl Fn(&str) -> bool) -> (String, BodyEncoding) {
    let mut template = String::new();
    match body {
        CustomBody::Text(text) => (plain_template(text, is_name), BodyEncoding::Text),
        CustomBody::Form(pairs) => {
            let pairs: Vec<_> = form_expressions(pairs, is_name).collect();
            push_expression(&mut template, &format!("pairs({})", pairs.join(", ")));
            (template, BodyEncoding::Form)
        }
        CustomBody::Json(value) => {
            let mut texts = Vec::new();
            collect_json_texts(value, "", &mut texts);
            let has_names =
                texts.iter().any(|(_, text)| !super::placeholder_names(text, is_name).is_empty());
            match has_names {
                true => {
                    let value = json_expression(value, is_name);
                    push_expression(&mut template, &format!("json({value})"));
                }
                false => push_literal(&mut template, &value.to_string()),
            }
            (template, BodyEncoding::Json)
        }
    }
}

fn json_expression(value: &Value, is_name: &impl Fn(&str) -> bool) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => value_expression(text, is_name),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| json_expression(item, is_name)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, it)| {
                format!("{}, {}", string_literal(name), json_expression(it, is_name))
            });
            format!("object({})", members.collect::<Vec<_>>().join(", "))
        }
    }
}
