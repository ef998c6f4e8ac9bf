//! Generated specifications, used if no real ones are given: the same document in JSON and YAML.

use serde_json::{Map, Value, json};

/// Creates a folder with both files.
pub(super) fn create_folder() -> anyhow::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let document = build_document(1_500);
    std::fs::write(folder.path().join("made.json"), serde_json::to_string_pretty(&document)?)?;
    let mut yaml = String::new();
    write_yaml(&document, 0, &mut yaml);
    std::fs::write(folder.path().join("made.yaml"), yaml)?;
    Ok(folder)
}

/// A document with operations on resources that refer to each other.
fn build_document(resources: usize) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for index in 0..resources {
        let (name, next) = (
            format!("Resource{index}"),
            format!("Resource{}", (index + 1) % resources.min(index / 20 * 20 + 20)),
        );
        let text = format!(
            "The {index}th resource of this service, with all that belongs to it and some more."
        );
        schemas.insert(name.clone(), json!({
            "type": "object", "description": text, "required": ["id", "name"],
            "properties": {
                "id": {"type": "string", "format": "uuid", "readOnly": true, "example": "0b5f"},
                "name": {"type": "string", "maxLength": 120, "description": "What people call it."},
                "state": {"type": "string", "enum": ["new", "ready", "gone"], "nullable": true},
                "count": {"type": "integer", "format": "int64", "minimum": 0, "exclusiveMinimum": true},
                "next": {"$ref": format!("#/components/schemas/{next}")},
                "labels": {"type": "array", "items": {"type": "string"}, "description": "Words to find it by."},
            },
        }));
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let answer = json!({"200": {"description": "done", "content": {"application/json": {"schema": reference}}}});
        let id =
            json!({"name": "id", "in": "path", "required": true, "schema": {"type": "string"}});
        let limit = json!({"name": "limit", "in": "query", "description": "How many at most.", "schema": {"type": "integer", "default": 20}});
        paths.insert(format!("/resources{index}/{{id}}"), json!({
            "parameters": [id],
            "get": {"operationId": format!("get{name}"), "summary": format!("Get resource {index}"), "description": text,
                    "parameters": [limit], "responses": answer},
            "put": {"operationId": format!("put{name}"), "summary": format!("Replace resource {index}"),
                    "requestBody": {"required": true, "content": {"application/json": {"schema": reference}}},
                    "responses": answer},
        }));
    }
    json!({"openapi": "3.0.3", "info": {"title": "Made", "version": "1"}, "servers": [{"url": "https://made.example"}],
           "paths": paths, "components": {"schemas": schemas}})
}

/// Writes block YAML with quoted strings.
fn write_yaml(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                out.push_str(&format!("{indent}{}:", json!(key)));
                write_nested(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&format!("{indent}-"));
                write_nested(item, depth, out);
            }
        }
        scalar => out.push_str(&format!("{indent}{scalar}\n")),
    }
}

fn write_nested(value: &Value, depth: usize, out: &mut String) {
    let is_block = value.as_object().is_some_and(|object| !object.is_empty())
        || value.as_array().is_some_and(|items| !items.is_empty());
    if is_block {
        out.push('\n');
        write_yaml(value, depth + 1, out);
    } else {
        out.push_str(&format!(" {value}\n"));
    }
}
