//! Generated sources and tools of a given size.

use std::collections::BTreeMap;

use model::{
    Execution, HttpRequest, Inventory, Manifest, OpenapiSettings, Schema, SourceId, SourceProfile,
    SourceSettings, Trust, Visibility,
};
use serde_json::{Value, json};

pub(crate) fn source_id(number: usize) -> SourceId {
    format!("source-{number}").parse().expect("a slug")
}

pub(crate) fn profile(name: &str) -> SourceProfile {
    SourceProfile {
        name: name.parse().expect("a name"),
        description: "made up for a measurement".into(),
        url: Some("https://api.example.com/v1/".parse().expect("a URL")),
        settings: SourceSettings::Openapi(OpenapiSettings::default()),
        auth: model::UpstreamAuth::None,
        client_certificate: None,
        allow: Vec::new(),
        forward_headers: Default::default(),
        required_scopes: None,
        trust: Trust::Auto,
        visibility: Visibility::Listed,
        limits: Default::default(),
        refresh_every: None,
        shrink_limit: 50,
    }
}

/// An inventory whose manifests have about `bytes` bytes each, most of it schema, as in real specifications.
pub(crate) fn inventory(
    source: &SourceId,
    tools: usize,
    bytes: usize,
    edition: usize,
) -> Inventory {
    let manifests =
        (0..tools).map(|number| (format!("operation_{number}"), manifest(number, bytes, edition)));
    Inventory::new(source.clone(), manifests).expect("keys are different")
}

/// An inventory like `inventory`, but no schema is shared with another source.
pub(crate) fn inventory_with_own_schemas(
    source: &SourceId,
    tools: usize,
    bytes: usize,
    apart: usize,
) -> Inventory {
    let first = apart * tools;
    let manifests = (first..first + tools)
        .map(|number| (format!("operation_{number}"), manifest(number, bytes, 0)));
    Inventory::new(source.clone(), manifests).expect("keys are different")
}

fn manifest(number: usize, bytes: usize, edition: usize) -> Manifest {
    let mut manifest = Manifest {
        name: format!("operation_{number}").into(),
        title: Some(format!("Operation {number}").into()),
        description: format!(
            "Changes order {number} of the shop and tells what it was before, edition {edition}."
        )
        .into(),
        method: "POST".into(),
        path: format!("/shops/{{shop}}/orders/{number}").into(),
        tags: vec!["orders".into(), format!("tag-{}", number % 10).into()],
        input_schema: Schema::new(json!({})).expect("an object"),
        output_schema: None,
        execution: Execution::SyncHttp(HttpRequest {
            url_template: format!("/shops/{{{{ shop }}}}/orders/{number}").into(),
            headers_template: BTreeMap::new(),
            body_template: Some("{{ body | tojson }}".into()),
            body_encoding: model::BodyEncoding::Json,
        }),
        deprecated: false,
        security: None,
        extra: BTreeMap::new(),
    };
    let so_far = served_size(&manifest);
    manifest.input_schema =
        Schema::new(schema(number, bytes.saturating_sub(so_far))).expect("an object");
    manifest
}

fn schema(number: usize, bytes: usize) -> Value {
    let mut properties = serde_json::Map::new();
    let mut size = 60;
    for field in 0.. {
        if bytes <= size {
            break;
        }
        let property = json!({"type": "string", "maxLength": 64, "description": format!("Field {field} of order {number}, as the shop writes it.")});
        size += property.to_string().len() + 16;
        properties.insert(format!("field_{field}"), property);
    }
    json!({"type": "object", "properties": properties, "required": ["field_0"]})
}

/// The size of a manifest in bytes, as an agent gets it.
pub(crate) fn served_size(manifest: &Manifest) -> usize {
    let stored =
        serde_json::to_string(&manifest.clone().into_stored()).expect("a manifest is JSON").len();
    let schema = manifest.input_schema.to_value().to_string().len();
    let reference = serde_json::to_string(manifest.input_schema.reference()).expect("JSON").len();
    stored - reference + schema
}

/// The total size of the manifests of an inventory, in bytes.
pub(crate) fn inventory_size(tools: usize, bytes: usize) -> usize {
    (0..tools).map(|number| served_size(&manifest(number, bytes, 0))).sum()
}
