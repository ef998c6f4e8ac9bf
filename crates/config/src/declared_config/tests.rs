//! Tests of reading configuration files, and of the problems that are reported.

use std::fs;

use serde_json::Value;

use super::{config_schema, *};

const WHOLE: &str = "\
sources:
  - id: pets
    name: Pets
    url: https://pets.example/openapi.json
    settings: {kind: openapi, specification: {file: specs/pets.yaml}}
    auth: {kind: bearer, token: file:token}
    is_enabled: false
labels: [{id: pii, name: Personal data, colour: '#c02020'}]
tools: [{id: 'pets:get_pet', labels: [pii], visibility: hidden, is_enabled: true}]
groups: [{id: read-pets, name: Read pets, selectors: [{source: pets, method: GET}], is_active: true}]
policies:
  - id: staff
    name: Staff
    groups: [read-pets]
    matchers: [{claim: role, operator: equals, value: staff}]
identities: [{name: staff, claims: {role: staff}}]
limits: {connections: 100}
issuers: [{issuer: https://id.example, audience: crib, keys: {jwks_file: keys.json}}]
";

const WHOLE_TOML: &str = r#"
limits = { connections = 100 }
[[sources]]
id = "pets"
name = "Pets"
url = "https://pets.example/openapi.json"
settings = { kind = "openapi" }
[[policies]]
id = "staff"
name = "Staff"
groups = ["read-pets"]
matchers = [{ claim = "role", operator = "equals", value = "staff" }]
"#;

fn read_as(name: &str, text: &str) -> Result<DeclaredConfig, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let place = folder.path().display().to_string();
    DeclaredConfig::read(&path)
        .map_err(|failure| failure.full_message().replace(&format!("{place}/"), ""))
}

fn read(text: &str) -> Result<DeclaredConfig, String> {
    read_as("crib.yaml", text)
}

fn wrong(text: &str) -> String {
    read(text).err().expect("it cannot be read")
}

#[test]
fn a_file_uses_the_field_names_of_the_admin_api() {
    let declared = read(WHOLE).unwrap();
    let source = &declared.sources.as_ref().unwrap()[0];
    assert_eq!((source.id.as_str(), source.switch), ("pets", Some(false)));
    assert_eq!(declared.labels.as_ref().unwrap().len(), 1);
    let tool = &declared.tools.as_ref().unwrap()[0];
    assert_eq!((tool.id.as_str(), tool.is_enabled), ("pets:get_pet", Some(true)));
    assert_eq!(tool.amendment.visibility, Some(Some(model::Visibility::Hidden)));
    assert_eq!(tool.amendment.name, None);
    assert_eq!(declared.groups.as_ref().unwrap()[0].body.selectors.len(), 1);
    assert_eq!(declared.policies.as_ref().unwrap()[0].body.groups().len(), 1);
    assert_eq!(declared.identities[0].name, "staff");
    assert_eq!(declared.server["limits"]["connections"], 100);
}

#[test]
fn toml_is_read_like_yaml() {
    let declared = read_as("crib.toml", WHOLE_TOML).unwrap();
    assert_eq!(declared.sources.unwrap()[0].id.as_str(), "pets");
    assert_eq!(declared.policies.unwrap()[0].id.as_str(), "staff");
    assert!(declared.groups.is_none());
}

#[test]
fn an_omitted_section_differs_from_an_empty_one() {
    assert!(read("{}").unwrap().groups.is_none());
    assert_eq!(read("groups: []").unwrap().groups.unwrap().len(), 0);
}

#[test]
fn paths_are_relative_to_the_file() {
    let declared = read(WHOLE).unwrap();
    let source = &declared.sources.as_ref().unwrap()[0].body;
    let written = serde_json::to_value(source).unwrap();
    let folder = declared.document.path().parent().unwrap().display().to_string();
    assert_eq!(written["settings"]["specification"]["file"], format!("{folder}/specs/pets.yaml"));
    assert_eq!(written["auth"]["token"], format!("file:{folder}/token"));
    assert_eq!(declared.server["issuers"][0]["keys"]["jwks_file"], format!("{folder}/keys.json"));
}

#[test]
fn a_workflow_may_be_in_a_separate_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crib.yaml");
    let source = |file: &str| {
        format!(
            "sources: [{{id: w, name: W, settings: {{kind: workflow, documents: [{{file: {file}}}]}}}}]"
        )
    };
    let order = include_str!("../../../../examples/order.workflow.yaml");
    fs::write(folder.path().join("order.yaml"), order).unwrap();
    fs::write(&path, source("order.yaml")).unwrap();
    let mut files = FileStamps::default();
    let declared = DeclaredConfig::read_with_stamps(&path, &mut files).unwrap();
    let written = serde_json::to_value(&declared.sources.unwrap()[0].body).unwrap();
    assert_eq!(written["settings"]["documents"], serde_json::json!([order]));
    assert!(!files.have_changed());
    fs::write(folder.path().join("order.yaml"), "").unwrap();
    assert!(files.have_changed());
    fs::write(&path, source("missing.yaml")).unwrap();
    let failure = DeclaredConfig::read(&path).err().unwrap().full_message();
    assert!(failure.contains("`sources[0].settings.documents[0]`"), "{failure}");
    assert!(failure.contains("missing.yaml` cannot be read"), "{failure}");
}

#[test]
fn all_problems_are_reported_at_once_with_their_lines() {
    let text = "\
sources:
  - id: Pets!
    name: Pets
    settings: {kind: openapy}
groups:
  - id: read-pets
    nmae: Read pets
    selectors:
      - {sorce: pets}
policies:
  - id: staff
    name: Staff
    groups: read-pets
    matchers: []
limts: {}
";
    insta::assert_snapshot!(wrong(text), @r#"
    the configuration cannot be used
    crib.yaml:2:5: `sources[0].id`: is to be an id: 1 to 64 of the characters a-z, 0-9 and inner `-`
    crib.yaml:4:16: `sources[0].settings.kind`: there is no `openapy`; there is `openapi`, `mcp`, `http_manifest`, `workflow`, `builtin`, `custom`
    crib.yaml:6:5: `groups[0].name`: is missing
    crib.yaml:7:5: `groups[0].nmae`: is not known here; did you mean `name`?
    crib.yaml:9:10: `groups[0].selectors[0].sorce`: is not known here; did you mean `source`?
    crib.yaml:13:5: `policies[0].groups`: is to be an array, not a string
    crib.yaml:14:5: `policies[0].matchers`: needs at least one element
    crib.yaml:15:1: `limts`: is not known here; did you mean `limits`?
    "#);
}

#[test]
fn a_custom_source_is_checked_as_a_whole() {
    let text = "\
sources:
  - id: desk
    name: Desk
    settings:
      kind: custom
      tools:
        - {name: hello, answer: {text: Hi}}
        - name: hello
          answer: {text: Again}
        - name: look
          request: {url: 'https://a.example/{{id}}'}
          input_schema: {type: object, properties: {it: {type: string}}}
      prompts:
        - {name: greet, template: 'Hello'}
        - {name: greet, template: 'Hello'}
";
    insta::assert_snapshot!(wrong(text), @"
    the configuration cannot be used
    crib.yaml:8:11: `sources[0].settings.tools[1].name`: Tool with name 'hello' already exists
    crib.yaml:11:21: `sources[0].settings.tools[2].request.url`: has `{{id}}`, which is no property of `input_schema`
    crib.yaml:15:12: `sources[0].settings.prompts[1].name`: Prompt with name 'greet' already exists
    ");
    let text = "sources: [{id: d, name: D, settings: {kind: custom, resources: \
        [{uri: 'a:b', name: b, file: docs/b.md}]}}]";
    let declared = read(text).unwrap();
    let written = serde_json::to_value(&declared.sources.as_ref().unwrap()[0].body).unwrap();
    let folder = declared.document.path().parent().unwrap().display().to_string();
    assert_eq!(written["settings"]["resources"][0]["file"], format!("{folder}/docs/b.md"));
}

#[test]
fn problems_found_by_types_and_rules_have_lines_too() {
    let text = "\
sources:
  - id: a
    name: A
    settings: {kind: mcp}
  - id: a
    name: B
    settings: {kind: builtin}
    shrink_limit: 101
    allow: [not/a/network]
tools:
  - id: a:b
    projection: 'a['
";
    insta::assert_snapshot!(wrong(text), @r#"
    the configuration cannot be used
    crib.yaml:2:5: `sources[0].url`: give the `url` of the MCP server, or a `command` in `settings`
    crib.yaml:5:5: `sources[1].id`: was there before: remove one of them
    crib.yaml:8:5: `sources[1].shrink_limit`: is more than 100 per cent
    crib.yaml:9:13: `sources[1].allow[0]`: this cannot be allowed: write an address, a network or a host name, and a port if only that one is meant, as in `10.20.0.0/16`, `[fd00::1]:8443` or `billing.internal:8443`
    crib.yaml:12:5: `tools[0].projection`: is not JMESPath: Parse error: Expected number, ':', or '*' -- found Eof (at character 2)
    "#);
}

#[test]
fn a_literal_secret_is_rejected_and_not_repeated() {
    let text = "\
sources:
  - id: a
    name: A
    settings: {kind: http_manifest}
    auth: {kind: bearer, token: hunter2}
";
    let wrong = wrong(text);
    assert!(!wrong.contains("hunter2"), "{wrong}");
    insta::assert_snapshot!(wrong, @r#"
    the configuration cannot be used
    crib.yaml:5:26: `sources[0].auth.token`: is to be a reference: `env:NAME`, `file:PATH` or `sealed:NAME`; no secret stands in this file: `toolcrib secret set NAME` keeps it sealed
    "#);
}

#[test]
fn syntax_errors_have_their_lines() {
    for nothing in ["", "# nothing\n"] {
        assert!(wrong(nothing).contains("the document is empty"), "{nothing}");
    }
    assert!(wrong("- a\n").contains("is to be a mapping"));
    insta::assert_snapshot!(wrong("a: 1\nb: [\n"), @r#"
    the configuration cannot be used
    crib.yaml:3:1: the document is not YAML: while parsing a node, did not find expected node content at line 3 column 1
    "#);
    insta::assert_snapshot!(wrong("groups: []\ngroups: []\n"), @r#"
    the configuration cannot be used
    crib.yaml:2:1: the key `groups` at line 2 column 1 was there before: remove one of them
    "#);
    let wrong = read_as("crib.toml", "a = 1\nb = \n[c\n").err().unwrap();
    insta::assert_snapshot!(wrong, @r#"
    the configuration cannot be used
    crib.toml:2:5: not TOML: string values must be quoted, expected literal string
    crib.toml:3:3: not TOML: unclosed table, expected `]`
    "#);
    let wrong = read_as("crib.toml", "[[groups]]\nid = 'a'\nnam = 'b'\n").err().unwrap();
    insta::assert_snapshot!(wrong, @r#"
    the configuration cannot be used
    crib.toml:1:1: `groups[0].name`: is missing
    crib.toml:3:1: `groups[0].nam`: is not known here; did you mean `name`?
    "#);
}

#[test]
fn the_editor_schema_accepts_and_rejects_the_same_files() {
    let schema = config_schema::editor_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value = |text: &str| json::document_text::read_document(text.as_bytes()).unwrap();
    let errors = |value: &Value| {
        let errors = validator.iter_errors(value);
        errors.map(|error| error.to_string()).collect::<Vec<_>>()
    };
    let good = [WHOLE, include_str!("../../../../examples/pizzeria.config.yaml"), "{}"];
    for text in good {
        assert_eq!(errors(&value(text)), [""; 0], "{text}");
    }
    let bad = [
        "sorces: []",
        "sources: [{id: a, name: A}]",
        "sources: [{id: a, name: A, settings: {kind: openapy}}]",
        "sources: [{id: a, name: A, settings: {kind: openapi, specifikation: {}}}]",
        "sources: [{id: a, name: A, settings: {kind: builtin}, auth: {kind: bearer, token: hunter2}}]",
        "groups: [{id: a, name: A, selectors: [{nmae: x}]}]",
        "policies: [{id: a, name: A, groups: [b], matchers: [{claim: c, operator: eqals, value: d}]}]",
        "tools: [{id: 'a:b', lables: []}]",
        "limits: {conections: 1}",
        "identities: [{name: a}]",
    ];
    for text in bad {
        assert_ne!(errors(&value(text)), [""; 0], "{text}");
        assert!(read(text).is_err(), "{text}");
    }
}
