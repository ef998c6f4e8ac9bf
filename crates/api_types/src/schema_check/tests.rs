//! Tests of the schema check: which bodies pass, and the error messages of the others.

use model::{PolicyRules, SourceProfile};
use schemars::JsonSchema;
use serde_json::json;

use super::*;

/// Every error, as `field: message`.
fn wrong<T: JsonSchema + 'static>(value: Value) -> Vec<String> {
    let schemas = SchemaSet::from_types([TypeSchema::for_type::<T>()]);
    let errors =
        collect_errors(&schemas.components, schemas.get(TypeSchema::for_type::<T>()), &value);
    errors.into_iter().map(|error| format!("{}: {}", error.field, error.message)).collect()
}

#[test]
fn a_valid_body_has_no_errors() {
    let source = json!({
        "name": "Pets", "url": "https://pets.example",
        "settings": {"kind": "openapi", "specification": {"text": "openapi: 3.1.0"}, "credentials": {"any name": "env:A"}},
        "auth": {"kind": "api_key", "location": "header", "name": "X-Key", "value": "env:KEY"}, "refresh_every": null,
    });
    let null = json!({"name": "a", "settings": {"kind": "openapi", "specification": null}});
    assert_eq!(wrong::<SourceProfile>(null), [""; 0]);
    let child = json!({"name": "a", "settings": {"kind": "mcp", "command": null, "lifecycle": "transient"}});
    assert_eq!(wrong::<SourceProfile>(child), [""; 0]);
    assert_eq!(wrong::<SourceProfile>(source), [""; 0]);
    let policy = json!({"name": "p", "groups": ["g"], "matchers": [
        {"claim": "a.b", "operator": "in", "value": [1, {"free": ["form"]}]},
    ]});
    assert_eq!(wrong::<PolicyRules>(policy), [""; 0]);
}

#[test]
fn an_unknown_field_is_reported_with_a_suggestion() {
    let body = json!({"name": "p", "groups": ["g"], "matchers": [{"claim": "a", "operator": "exists", "vlaue": 1}], "prority": 1});
    insta::assert_snapshot!(wrong::<PolicyRules>(body).join("\n"), @"
    matchers[0].vlaue: is not known here; did you mean `value`?
    prority: is not known here; did you mean `priority`?
    ");
    let body =
        json!({"name": "s", "settings": {"kind": "openapi", "describ": "both", "zzzzzzzz": 1}});
    insta::assert_snapshot!(wrong::<SourceProfile>(body).join("\n"), @"
    settings.describ: is not known here; did you mean `describe`?
    settings.zzzzzzzz: is not known here; there is `kind`, `specification`, `describe`, `media_type`, `follow_references`, `require_scopes`, `credentials`, `polling`
    ");
}

#[test]
fn an_unknown_enum_value_is_reported_with_the_valid_ones() {
    let body = json!({"name": "s", "settings": {"kind": "graphql"}, "auth": {}, "trust": "blind", "visibility": 1});
    insta::assert_snapshot!(wrong::<SourceProfile>(body).join("\n"), @"
    settings.kind: there is no `graphql`; there is `openapi`, `mcp`, `http_manifest`, `workflow`, `builtin`, `custom`
    auth.kind: is to be one of `none`, `api_key`, `basic`, `bearer`, `client_credentials`, `token_exchange`, `mcp_oauth`, `mcp_enterprise`
    trust: there is no `blind`; there is `auto`, `review`
    visibility: is to be one of `listed`, `searchable`, `hidden`
    ");
}

#[test]
fn errors_name_the_field_and_do_not_repeat_its_value() {
    let body = json!({"name": "", "url": "ftp://hunter2", "allow": "hunter2", "shrink_limit": -1,
        "settings": {"kind": "openapi", "specification": {"txt": "a"}, "credentials": {"key": "hunter2"}}});
    let wrong = wrong::<SourceProfile>(body).join("\n");
    assert!(!wrong.contains("hunter2"), "{wrong}");
    insta::assert_snapshot!(wrong, @"
    name: is empty
    url: is to be an `http://` or `https://` URL, such as `https://api.example.com/openapi.json`
    allow: is to be an array, not a string
    shrink_limit: is less than 0
    settings.specification: is to have one of the members `url`, `file`, `text`
    settings.credentials.key: is to be a reference: `env:NAME`, `file:PATH` or `sealed:NAME`
    ");
}

#[test]
fn missing_required_fields_are_reported() {
    insta::assert_snapshot!(wrong::<PolicyRules>(json!({"groups": ["G"]})).join("\n"), @"
    name: is missing
    matchers: is missing
    groups[0]: is to be an id: 1 to 64 of the characters a-z, 0-9 and inner `-`
    ");
    insta::assert_snapshot!(wrong::<PolicyRules>(json!([])).join("\n"), @": is to be an object, not an array");
}
