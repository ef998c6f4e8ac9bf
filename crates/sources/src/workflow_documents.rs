//! Sources of kind `workflow`: each of their documents becomes a tool.

use std::collections::BTreeMap;

use json::document_text;
use limits::run_low_priority;
use model::{Execution, Inventory, InventoryError, Manifest, Schema, SourceId};
use serde_json::{Value, json};
use workflow::{InvalidWorkflow, Workflow};

use crate::{DiscoveredInventory, DocumentError};

/// The most documents of one source.
const MOST: usize = 100;

/// Why a document is not a valid workflow.
#[derive(Debug, thiserror::Error)]
pub enum InvalidWorkflowDocument {
    /// The text is neither YAML nor JSON.
    #[error(transparent)]
    Text(#[from] DocumentError),
    /// A part of the workflow is invalid or not supported.
    #[error(transparent)]
    Workflow(#[from] InvalidWorkflow),
    /// A schema that cannot describe arguments or results.
    #[error("/{member}/schema/document: this must be a JSON Schema of an object")]
    Schema {
        /// `input` or `output`.
        member: &'static str,
    },
    /// More documents than one source may have.
    #[error("a source has at most {MOST} documents")]
    TooMany,
    /// The problem is in one of several documents.
    #[error("documents[{number}]")]
    InDocument {
        /// The index of the document.
        number: usize,
        source: Box<Self>,
    },
    /// Two workflows have the same name, or a name is not valid for a tool.
    #[error(transparent)]
    Inventory(#[from] InventoryError),
}

/// Reads a document, in YAML or JSON.
pub fn read_workflow(document: &str) -> Result<Workflow, InvalidWorkflowDocument> {
    parse_workflow(&document_text::read_document(document.as_bytes())?)
}

fn parse_workflow(document: &Value) -> Result<Workflow, InvalidWorkflowDocument> {
    let workflow = Workflow::from_document(document)?;
    for (member, schema) in [("input", &workflow.input_schema), ("output", &workflow.output_schema)]
    {
        if schema.as_ref().is_some_and(|schema| !allows_object(schema)) {
            return Err(InvalidWorkflowDocument::Schema { member });
        }
    }
    Ok(workflow)
}

/// Reads the documents of a source; the error names the invalid one.
pub fn read_workflows(
    source: &SourceId,
    documents: &[Box<str>],
) -> Result<Inventory, InvalidWorkflowDocument> {
    if MOST < documents.len() {
        return Err(InvalidWorkflowDocument::TooMany);
    }
    let mut manifests = Vec::with_capacity(documents.len());
    for (number, document) in documents.iter().enumerate() {
        let manifest = workflow_manifest(document).map_err(|error| {
            InvalidWorkflowDocument::InDocument { number, source: Box::new(error) }
        })?;
        manifests.push((manifest.name.to_string(), manifest));
    }
    Ok(Inventory::new(source.clone(), manifests)?)
}

pub async fn discover_workflows(
    source: SourceId,
    documents: Vec<Box<str>>,
) -> Result<DiscoveredInventory, InvalidWorkflowDocument> {
    let operations = documents.len();
    let inventory = run_low_priority(move || read_workflows(&source, &documents)).await?;
    Ok(DiscoveredInventory { inventory, operations })
}

fn workflow_manifest(document: &str) -> Result<Manifest, InvalidWorkflowDocument> {
    let document = document_text::read_document(document.as_bytes())?;
    let workflow = parse_workflow(&document)?;
    let schema = |said: Option<Value>, member| match said.map(Schema::new) {
        None => Ok(None),
        Some(Ok(schema)) => Ok(Some(schema)),
        Some(Err(_)) => Err(InvalidWorkflowDocument::Schema { member }),
    };
    let input =
        workflow.input_schema.map(with_object_type).unwrap_or_else(|| json!({"type": "object"}));
    let input_schema = schema(Some(input), "input")?;
    let output_schema = schema(workflow.output_schema.map(with_object_type), "output")?;
    Ok(Manifest {
        description: workflow.summary.unwrap_or_default(),
        title: workflow.title,
        method: "POST".into(),
        path: format!("/workflow/{}", workflow.name).into(),
        name: workflow.name,
        tags: workflow.tags,
        input_schema: input_schema.ok_or(InvalidWorkflowDocument::Schema { member: "input" })?,
        output_schema,
        execution: Execution::Workflow { document: document.to_string().into() },
        deprecated: false,
        security: None,
        extra: BTreeMap::new(),
    })
}

fn allows_object(schema: &Value) -> bool {
    schema.get("type").is_none_or(|kind| kind == "object")
}

/// Adds `"type": "object"`, which MCP requires.
fn with_object_type(mut schema: Value) -> Value {
    if let Value::Object(members) = &mut schema {
        members.entry("type").or_insert_with(|| "object".into());
    }
    schema
}
