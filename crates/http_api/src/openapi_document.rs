//! The OpenAPI 3.1 document of this API, generated from the route table.

use api_types::problem;
use api_types::problem::ProblemBody;
use api_types::type_schemas::{SchemaSet, TypeSchema};
use endpoint::route::{ApiRoute, RouteAccess, RouteResponse};
use serde_json::{Map, Value, json};

/// Tags, in display order.
const TAGS: [(&str, &str); 16] = [
    ("about", "This API, and who is calling."),
    ("console", "The web console: a page that uses this API."),
    ("agents", "What an agent has, and calling it."),
    ("mcp", "The same over the Model Context Protocol, in all its versions."),
    ("sources", "What offers tools."),
    ("tools", "What sources offer, what admins say instead, and what waits for review."),
    ("groups", "Curated tools: selected + explicit − excluded."),
    ("policies", "If all matchers of a policy match an agent's claims, it grants its groups."),
    ("labels", "Our admins' words on tools."),
    ("keys", "API keys: claims for whoever presents one."),
    ("secrets", "What sources refer to as `sealed:NAME`: values go in and never come out."),
    ("issuers", "Whose tokens are taken."),
    ("config", "The configuration file that the server follows."),
    ("access", "Who has which tool and why, and what a change would do."),
    ("executions", "The record of calls: who called what, when, and how it ended."),
    ("activity", "What happens, as it happens."),
];

const DESCRIPTION: &str = "Everything in the catalog can be read, made, changed and removed here. \
    An admin sends `Authorization: Bearer …` with an API key, or a token that an admin policy matches.\n\n\
    Lists come page by page: `next_cursor` is the `cursor` of the next page, and null on the last. \
    `ETag` stands for what an admin can edit: sent back as `If-Match`, it makes a change fail (412) if somebody else \
    was faster. With an `Idempotency-Key`, the same request sent again is carried out once. \
    Members and parameters that are not known are refused.";

/// Builds the whole document.
pub(crate) fn build_document(routes: &[ApiRoute], schemas: &SchemaSet) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = build_operation(route, schemas);
    }
    let tags: Vec<Value> = TAGS
        .iter()
        .map(|(name, description)| json!({"name": name, "description": description}))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "toolcrib",
            "summary": "One catalog for the tools of many sources",
            "description": DESCRIPTION,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key (`tcrib_…`) or a token."},
            },
            "parameters": header_parameters(),
            "responses": {"Problem": {
                "description": "Not done; `code` says why",
                "content": {problem::MEDIA_TYPE: {"schema": schemas.get(TypeSchema::for_type::<ProblemBody>())}},
            }},
            "schemas": schemas.components,
        },
    })
}

fn header_parameters() -> Value {
    json!({
        "If-Match": {
            "name": "If-Match", "in": "header", "schema": {"type": "string"},
            "description": "The `ETag` of what was read, in quotes: the change is made only if it still holds.",
        },
        "If-None-Match": {
            "name": "If-None-Match", "in": "header", "schema": {"type": "string"},
            "description": "The `ETag` of what the caller has: if it still holds, the answer is 304 and empty.",
        },
        "Idempotency-Key": {
            "name": "Idempotency-Key", "in": "header",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            "description": "Another one for each request; the same request with the same key is carried out once.",
        },
        "Prefer": {
            "name": "Prefer", "in": "header", "schema": {"type": "string"},
            "description": "`respond-async`: the caller comes back for the result. `wait=10`: after so many seconds.",
        },
    })
}

fn build_operation(route: &ApiRoute, schemas: &SchemaSet) -> Value {
    let mut parameters = Vec::new();
    if let Some(name) = route.path_parameter() {
        let description =
            format!("Its {name}; what is not a letter, digit or one of `-._~` is percent-encoded.");
        parameters.push(json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string"}, "description": description,
        }));
    }
    parameters.extend(query_parameters(route, schemas));
    let named = [
        ("If-Match", route.is_conditional || route.changes_tagged_entity()),
        ("Idempotency-Key", route.takes_idempotency_key),
        (
            "If-None-Match",
            matches!(route.response, RouteResponse::List(_) | RouteResponse::File(_)),
        ),
        ("Prefer", route.deferred.is_some()),
    ];
    for (name, _) in named.into_iter().filter(|(_, holds)| *holds) {
        parameters.push(json!({"$ref": format!("#/components/parameters/{name}")}));
    }
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": build_responses(route, schemas),
        "x-toolcrib-for": match route.access {
            RouteAccess::Open => "everybody",
            RouteAccess::Agent => "agents",
            RouteAccess::Admin => "admins",
        },
    });
    match route.access {
        RouteAccess::Open => operation["security"] = json!([]),
        RouteAccess::Agent => operation["security"] = json!([{"bearer": []}, {}]),
        RouteAccess::Admin => {}
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({
            "required": !route.body_is_optional,
            "content": {"application/json": {"schema": schemas.get(body)}},
        });
        if let Some(example) = route.example {
            let example: Value = serde_json::from_str(example).expect("an example is JSON");
            operation["requestBody"]["content"]["application/json"]["example"] = example;
        }
    }
    operation
}

fn query_parameters(route: &ApiRoute, schemas: &SchemaSet) -> Vec<Value> {
    let Some(shape) = route.query else { return Vec::new() };
    let properties = schemas.resolve_ref(schemas.get(shape)).get("properties");
    let properties = properties.and_then(Value::as_object).into_iter().flatten();
    let parameter = |(name, schema): (&String, &Value)| {
        let description = schema.get("description");
        json!({"name": name, "in": "query", "description": description, "schema": parameter_schema(schema)})
    };
    properties.map(parameter).collect()
}

/// Removes `null` from the type: a query cannot contain null, so callers omit an optional parameter.
fn parameter_schema(schema: &Value) -> Value {
    let is_null = |schema: &Value| schema.get("type").is_some_and(|name| name == "null");
    let choices = schema.get("anyOf").and_then(Value::as_array);
    if let Some(choice) = choices.into_iter().flatten().find(|choice| !is_null(choice)) {
        return choice.clone();
    }
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.retain(|name, _| name != "description" && name != "default");
        let names = members.get("type").and_then(Value::as_array);
        let name = names.into_iter().flatten().find(|name| *name != "null").cloned();
        members.extend(name.map(|name| ("type".to_owned(), name)));
    }
    schema
}

fn build_responses(route: &ApiRoute, schemas: &SchemaSet) -> Value {
    let (status, mut good) = match route.response {
        RouteResponse::Tagged(shape) | RouteResponse::Plain(shape) | RouteResponse::List(shape) => {
            (
                "200",
                json!({"description": "Done", "content": {"application/json": {"schema": schemas.get(shape)}}}),
            )
        }
        RouteResponse::Created(shape) => (
            "201",
            json!({"description": "Made", "content": {"application/json": {"schema": schemas.get(shape)}}}),
        ),
        RouteResponse::Document(media_type) | RouteResponse::File(media_type) => {
            ("200", json!({"description": "The document", "content": {media_type: {}}}))
        }
        RouteResponse::NoContent => ("204", json!({"description": "Done"})),
    };
    let text = json!({"type": "string"});
    if matches!(route.response, RouteResponse::Created(_)) {
        good["headers"]["Location"] = json!({"description": "Its address", "schema": text});
    }
    if matches!(route.response, RouteResponse::Tagged(_) | RouteResponse::Created(_)) {
        good["headers"]["ETag"] =
            json!({"description": "Of what an admin can edit", "schema": text});
    }
    if matches!(route.response, RouteResponse::List(_) | RouteResponse::File(_)) {
        good["headers"]["ETag"] = json!({"description": "Of these very bytes", "schema": text});
    }
    let mut responses = json!({status: good});
    if matches!(route.response, RouteResponse::List(_) | RouteResponse::File(_)) {
        responses["304"] = json!({"description": "The caller has it already"});
    }
    if let Some(shape) = route.deferred {
        responses["202"] = json!({
            "description": "It goes on: look at it later",
            "headers": {"Location": {"description": "Where to look", "schema": text}},
            "content": {"application/json": {"schema": schemas.get(shape)}},
        });
    }
    for status in problem_statuses(route) {
        responses[status] = json!({"$ref": "#/components/responses/Problem"});
    }
    responses
}

/// The statuses of the problems that a route can answer.
fn problem_statuses(route: &ApiRoute) -> Vec<&'static str> {
    let mut statuses = Vec::new();
    if route.access != RouteAccess::Open {
        statuses.extend(["400", "401", "403"]);
    }
    if route.path_parameter().is_some() || route.is_call {
        statuses.push("404");
    }
    if route.is_change() || route.is_call {
        statuses.push("409");
    }
    if route.changes_tagged_entity() {
        statuses.push("412");
    }
    if route.body.is_some() {
        statuses.extend(["413", "415"]);
    }
    if route.body.is_some() || route.query.is_some() || route.is_change() {
        statuses.push("422");
    }
    statuses.push("5XX");
    statuses
}
