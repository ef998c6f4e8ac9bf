//! From a specification and a call to the HTTP request: discovery writes templates, execution renders them.
//!
//! The tests write specifications as short YAML and compare requests line by line.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod arguments;
mod bodies;
mod documents;
mod laws;
mod security;
mod servers;
mod styles;
mod swagger;
mod values;

use execution::{
    ArgumentValidator, Credentials, RenderedRequest, RequestTemplate, SecurityRequirements,
    UndeclaredArguments,
};
use model::{DiscoveredTool, Execution};
use serde_json::Value;
use sources::openapi;
use sources::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};

/// A specification with these paths, written below `paths:`.
fn api(paths: &str) -> String {
    format!("openapi: 3.0.4\nservers: [{{url: 'https://pizza.example'}}]\npaths:\n{paths}\n")
}

/// A specification with one operation, `GET /menu`.
fn menu(operation: &str) -> String {
    api(&format!("  /menu: {{get: {{operationId: menu, {operation}}}}}"))
}

/// A specification with one operation, `POST /orders`, that takes a body.
fn order(body: &str) -> String {
    api(&format!("  /orders: {{post: {{operationId: order, requestBody: {{{body}}}}}}}"))
}

fn discovered(specification: &str) -> DiscoveredInventory {
    discovered_at(SpecificationAddress::Inline, specification, &SpecOptions::default())
}

fn discovered_at(
    address: SpecificationAddress,
    specification: &str,
    options: &SpecOptions,
) -> DiscoveredInventory {
    let specification =
        OpenApiSpecification::from_bytes(address, specification.as_bytes()).unwrap();
    openapi::discover_openapi("pizzeria".parse().unwrap(), &specification, options).unwrap()
}

/// The messages of all warnings.
fn warnings(found: &DiscoveredInventory) -> Vec<&str> {
    found.inventory.warnings.iter().map(|warning| &*warning.message).collect()
}

fn tool<'a>(found: &'a DiscoveredInventory, name: &str) -> &'a DiscoveredTool {
    let mut tools = found.inventory.tools.values();
    tools.find(|tool| &*tool.manifest.name == name).unwrap_or_else(|| {
        panic!("there is no tool `{name}`: {:?}", warnings(found));
    })
}

/// The input schema of the only tool.
fn input(specification: &str) -> Value {
    let found = discovered(specification);
    let tool = found.inventory.tools.values().next().expect("there is a tool");
    tool.schema(&tool.manifest.input_schema).to_served()
}

/// The request that a call of the only tool sends.
fn call(specification: &str, arguments: Value) -> String {
    let found = discovered(specification);
    let tool = found.inventory.tools.values().next().expect("there is a tool");
    sent_request(tool, arguments)
}

/// The request that a call of a tool sends, or the reason why it is refused.
fn sent_request(tool: &DiscoveredTool, arguments: Value) -> String {
    match request(tool, arguments) {
        Ok(request) => request_lines(&request),
        Err(reason) => format!("refused: {reason}"),
    }
}

/// The steps of a call: validate the arguments, then render the templates.
fn request(tool: &DiscoveredTool, arguments: Value) -> Result<RenderedRequest, String> {
    let template = compile_template(tool)?;
    let others = if template.takes_rest() {
        UndeclaredArguments::Sent
    } else {
        UndeclaredArguments::Rejected
    };
    let schema = tool.schema(&tool.manifest.input_schema).to_served();
    let arguments = arguments.as_object().expect("arguments are an object");
    let problems = ArgumentValidator::compile(&schema, others).check(arguments);
    problems.map_err(|problems| format!("{} {}", problems[0].path, problems[0].message))?;
    template.render(arguments).map_err(|error| error.to_string())
}

fn compile_template(tool: &DiscoveredTool) -> Result<RequestTemplate, String> {
    let Execution::SyncHttp(templates) = &tool.manifest.execution else {
        panic!("an operation is one request");
    };
    RequestTemplate::compile(&tool.manifest.method, templates).map_err(|error| error.to_string())
}

/// The request that a call sends with these credentials; without credentials if they do not suffice.
fn sent_with(tool: &DiscoveredTool, credentials: &[(&str, &str)]) -> String {
    let own = |&(name, secret): &(&str, &str)| (name.to_owned(), secret.to_owned().into());
    let credentials: Credentials = credentials.iter().map(own).collect();
    let mut request = request(tool, serde_json::json!({})).unwrap();
    let security = SecurityRequirements::parse(tool.manifest.security.as_ref()).unwrap();
    security.apply(&credentials, &mut request).unwrap();
    request_lines(&request)
}

/// The request as lines of text. Random boundaries are replaced by `BOUNDARY`.
fn request_lines(request: &RenderedRequest) -> String {
    let mut lines = vec![format!("{} {}", request.method, request.url)];
    lines.extend(request.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if let Some(body) = &request.body {
        lines.push(String::new());
        lines.push(String::from_utf8_lossy(body).replace("\r\n", "\n"));
    }
    let text = lines.join("\n");
    match request.content_type().and_then(|text| text.split_once("boundary=")) {
        Some((_, boundary)) => text.replace(boundary, "BOUNDARY"),
        None => text,
    }
}
