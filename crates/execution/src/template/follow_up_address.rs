//! The URL of a follow-up request: it sees the previous response, and stays at the origin that sent it.
//!
//! It is an ordinary template, or a single expression: then the upstream supplies the whole URL. Such an expression
//! does not see the arguments, because an agent must not choose where requests go.

use minijinja::Expression;
use serde_json::{Map, Value as Json};
use upstream::egress::MAX_URL;
use url::Url;

use super::address_template::AddressTemplate;
use super::compiled_template::short_excerpt;
use super::encoded_piece::TemplatePosition;
use super::template_context::{
    ANSWER_VARIABLE, HEADERS_VARIABLE, LOCATION_VARIABLE, MISSING, PreviousResponse,
    TemplateArguments,
};
use super::template_functions::TEMPLATE_ENGINE;
use super::template_scan::{TemplateSpan, split_spans};
use super::{TemplateError, address_template};

const OTHER_ORIGIN_RULE: &str = "would lead to another origin than the first request";

pub(crate) struct FollowUpAddress(FollowUpAddressKind);

enum FollowUpAddressKind {
    /// A template rendered with arguments and the previous response.
    Template(Box<AddressTemplate>),
    /// A URL supplied by the previous response.
    FromResponse(Box<Expression<'static, 'static>>),
}

impl FollowUpAddress {
    pub(crate) fn compile(template: &str) -> Result<Self, TemplateError> {
        match *split_spans(template)? {
            [TemplateSpan::Expression(source)] => {
                Ok(Self(FollowUpAddressKind::FromResponse(compile_response_expression(source)?)))
            }
            _ => {
                let address =
                    AddressTemplate::compile(template, TemplatePosition::FollowUpAddress)?;
                Ok(Self(FollowUpAddressKind::Template(Box::new(address))))
            }
        }
    }

    /// The URL that follows a response from the URL `from`.
    pub(crate) fn render(
        &self,
        arguments: &Map<String, Json>,
        before: PreviousResponse<'_>,
        from: &Url,
    ) -> Result<Url, TemplateError> {
        match &self.0 {
            FollowUpAddressKind::Template(address) => {
                let shared = TemplateArguments::with_previous_response(arguments, before);
                let filled = address.render(&shared.with_budget(address_template::ADDRESS_BUDGET));
                require_same_origin(filled.map_err(missing_in_response)?, from)
            }
            FollowUpAddressKind::FromResponse(expression) => {
                resolve_response_url(expression, before, from)
            }
        }
    }

    /// Whether the URL is the `Location` header of the previous response.
    pub(crate) fn is_location(&self) -> bool {
        match &self.0 {
            FollowUpAddressKind::Template(_) => false,
            FollowUpAddressKind::FromResponse(expression) => {
                expression.undeclared_variables(false).contains(LOCATION_VARIABLE)
            }
        }
    }
}

/// Resolves a URL that a response from `from` contains.
pub(crate) fn resolve_within_origin(from: &Url, text: &str) -> Result<Url, TemplateError> {
    let unreadable = TemplateError::Address { rule: "that an answer tells cannot be read" };
    let joined = Some(text).filter(|text| !text.is_empty()).and_then(|text| from.join(text).ok());
    let mut url = joined.filter(|url| url.as_str().len() <= MAX_URL).ok_or(unreadable)?;
    url.set_fragment(None);
    // An upstream behind a TLS terminator may not know that its URL is `https`.
    let is_same_port = url.port().is_none_or(|port| Some(port) == from.port_or_known_default());
    if (from.scheme(), url.scheme()) == ("https", "http") && is_same_port {
        url.set_scheme("https").ok();
    }
    match url.username().is_empty() && url.password().is_none() {
        true => require_same_origin(url, from),
        false => Err(TemplateError::Address { rule: "that an answer tells names a user" }),
    }
}

/// Converts a missing value of the response, rather than of the arguments, to its own error.
fn missing_in_response(error: TemplateError) -> TemplateError {
    match error {
        TemplateError::Argument { argument: what, problem }
            if problem == MISSING
                && [ANSWER_VARIABLE, HEADERS_VARIABLE]
                    .iter()
                    .any(|it| what.starts_with(&format!("`{it}"))) =>
        {
            TemplateError::MissingInResponse { what }
        }
        other => other,
    }
}

fn require_same_origin(url: Url, from: &Url) -> Result<Url, TemplateError> {
    match url.origin() == from.origin() {
        true => Ok(url),
        false => Err(TemplateError::Address { rule: OTHER_ORIGIN_RULE }),
    }
}

fn compile_response_expression(
    source: &str,
) -> Result<Box<Expression<'static, 'static>>, TemplateError> {
    let wrong = |error: minijinja::Error| TemplateError::Expression {
        expression: short_excerpt(source),
        reason: short_excerpt(error.detail().unwrap_or("the engine does not say why")),
    };
    let expression = TEMPLATE_ENGINE.compile_expression_owned(source.to_owned()).map_err(wrong)?;
    let names = expression.undeclared_variables(false);
    match names.iter().find(|name| {
        ![ANSWER_VARIABLE, HEADERS_VARIABLE, LOCATION_VARIABLE].contains(&name.as_str())
    }) {
        Some(name) => Err(TemplateError::UnknownName { name: short_excerpt(name) }),
        None => Ok(Box::new(expression)),
    }
}

fn resolve_response_url(
    expression: &Expression<'_, '_>,
    before: PreviousResponse<'_>,
    from: &Url,
) -> Result<Url, TemplateError> {
    let value = expression.eval(before.engine_context()).ok();
    let text = value.as_ref().and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let text =
        text.ok_or_else(|| TemplateError::MissingInResponse { what: "the address".to_owned() })?;
    resolve_within_origin(from, text)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;
    use upstream::http::header::HeaderMap;

    use super::*;

    fn next(template: &str, answer: &Json, location: Option<&str>) -> Result<String, String> {
        let location = location.map(|text| ("location", text));
        with(template, answer, &location.into_iter().collect::<Vec<_>>())
    }

    fn with(template: &str, answer: &Json, headers: &[(&str, &str)]) -> Result<String, String> {
        let owned = headers.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let headers = &HeaderMap::try_from(&owned.collect::<HashMap<_, _>>()).unwrap();
        let arguments = json!({"shop": "a/b"}).as_object().cloned().unwrap_or_default();
        let from: Url = "https://api.test/v1/jobs".parse().unwrap();
        let before = PreviousResponse { answer, headers };
        let address = FollowUpAddress::compile(template).map_err(|error| error.to_string())?;
        let url = address.render(&arguments, before, &from);
        url.map(|url| url.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn arguments_and_the_first_response_fill_in_the_template() {
        let template = "https://api.test/{{ args.shop }}/jobs/{{ answer.job[\"id\"] }}";
        let job = |id: Json| next(template, &json!({"job": {"id": id}}), None);
        assert_eq!(job(json!(7)).unwrap(), "https://api.test/a%2Fb/jobs/7");
        assert_eq!(job(json!("../x?y")).unwrap(), "https://api.test/a%2Fb/jobs/..%2Fx%3Fy");
        for id in [json!(".."), json!(""), json!(null)] {
            assert!(job(id).is_err());
        }
        assert!(next(template, &json!([]), None).is_err());
        let elsewhere = next("https://other.test/{{ answer.id }}", &json!({"id": 1}), None);
        assert!(elsewhere.unwrap_err().contains("another origin"));
    }

    #[test]
    fn a_url_supplied_by_the_upstream_stays_at_its_origin() {
        let told = |text: &str| next("{{ answer.status_url }}", &json!({"status_url": text}), None);
        assert_eq!(told("/v1/jobs/7?a=b#c").unwrap(), "https://api.test/v1/jobs/7?a=b");
        assert_eq!(told("https://api.test/x").unwrap(), "https://api.test/x");
        for bad in [
            "http://169.254.169.254/latest",
            "//evil.test/x",
            "http://api.test:8080/x",
            "https://api.test:444/x",
            "https://user@api.test/x",
            "https://api.test@evil.test/",
            "\\\\evil.test\\x",
            "file:///etc/passwd",
            "data:,x",
            "",
        ] {
            assert!(told(bad).is_err(), "{bad}: {:?}", told(bad));
        }
        assert_eq!(
            next("{{ location }}", &Json::Null, Some("8")).unwrap(),
            "https://api.test/v1/8"
        );
        assert!(next("{{ location }}", &Json::Null, None).is_err());
        // The upstream may be behind a TLS terminator.
        for text in ["http://api.test/x", "http://api.test:443/x"] {
            assert_eq!(told(text).unwrap(), "https://api.test/x");
        }
        assert!(told("http://evil.test/x").is_err());
        assert!(next("{{ answer.status_url }}", &json!({"status_url": 7}), None).is_err());
        assert!(next("{{ args.shop }}", &Json::Null, None).unwrap_err().contains("`args`"));
    }

    #[test]
    fn a_header_may_supply_the_url_or_a_part_of_it() {
        let whole = r#"{{ headers["operation-location"] }}"#;
        let told = |text| with(whole, &Json::Null, &[("Operation-Location", text)]);
        assert_eq!(told("https://api.test/jobs/7").unwrap(), "https://api.test/jobs/7");
        assert!(told("https://evil.test/jobs/7").unwrap_err().contains("another origin"));
        assert!(with(whole, &Json::Null, &[("location", "/8")]).is_err());
        let piece = r#"https://api.test/jobs/{{ headers["x-job"] }}"#;
        let told = |text| with(piece, &Json::Null, &[("x-job", text)]);
        assert_eq!(told("a/b?c").unwrap(), "https://api.test/jobs/a%2Fb%3Fc");
        assert!(told("..").is_err() && with(piece, &Json::Null, &[]).is_err());
    }

    #[test]
    fn only_follow_up_requests_see_a_response() {
        assert!(
            AddressTemplate::compile("https://api.test/{{ answer.id }}", TemplatePosition::Address)
                .is_err()
        );
    }
}
