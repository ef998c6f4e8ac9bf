//! Turns a case's call into a request, with the same steps as a call of an agent.

use execution::{
    ArgumentValidator, Credentials, RenderedRequest, RequestTemplate, SecurityRequirements,
    UndeclaredArguments,
};
use model::{DiscoveredTool, Execution};
use secrecy::SecretString;
use serde_json::{Map, Value};

use super::request_case::{CaseCall, ORIGIN, RequestCase};
use super::sent_request::SentRequest;
use crate::corpus::checks::list_entry;

/// The request that would reach the upstream of the case; `None` if the call is refused or goes elsewhere.
pub(super) fn render_request(case: &RequestCase, tool: &DiscoveredTool) -> Option<SentRequest> {
    let Execution::SyncHttp(templates) = &tool.manifest.execution else { return None };
    let schema = &list_entry(tool)["inputSchema"];
    let arguments = build_arguments(&case.call.located, schema);
    let template = RequestTemplate::compile(&tool.manifest.method, templates).ok()?;
    let others = if template.takes_rest() {
        UndeclaredArguments::Sent
    } else {
        UndeclaredArguments::Rejected
    };
    ArgumentValidator::compile(schema, others).check(&arguments).ok()?;
    let mut request = template.render(&arguments).ok()?;
    add_credentials(&case.call, tool, &mut request)?;
    (request.url.origin().ascii_serialization() == ORIGIN).then(|| SentRequest::from(request))
}

/// Arguments as our tools take them (requirement O4): a parameter under its name, or as `name__in` if that is taken;
/// the fields of a body beside them, or the whole body as `body`.
fn build_arguments(located: &Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let is_known = |name: &str| schema["properties"].get(name).is_some();
    let mut arguments = Map::new();
    for (location, values) in located {
        match (location.as_str(), values) {
            ("body", Value::Object(members)) if !is_known("body") => {
                arguments.extend(members.clone());
            }
            ("body", whole) => {
                arguments.insert("body".to_owned(), whole.clone());
            }
            (_, values) => {
                for (name, value) in values.as_object().into_iter().flatten() {
                    let other = format!("{name}__{location}");
                    let name = if is_known(&other) { other } else { name.clone() };
                    arguments.insert(name, value.clone());
                }
            }
        }
    }
    arguments
}

fn add_credentials(
    call: &CaseCall,
    tool: &DiscoveredTool,
    request: &mut RenderedRequest,
) -> Option<()> {
    let secret = |value: &Value| match value {
        Value::String(secret) => SecretString::from(secret.as_str()),
        pair => {
            let part = |key: &str| pair[key].as_str().unwrap_or_default();
            SecretString::from(format!("{}:{}", part("username"), part("password")))
        }
    };
    let credentials: Credentials =
        call.credentials.iter().map(|(name, value)| (name.clone(), secret(value))).collect();
    let security = SecurityRequirements::parse(tool.manifest.security.as_ref()).ok()?;
    security.apply(&credentials, request).ok()?.then_some(())
}
