//! Inspects the texts of a tool for invisible characters and prompt injection (requirement T2).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use inspection::text_checks::{
    inspect_json, inspect_text, most_severe, new_finding, printable_pointer,
};
use inspection::{Finding, SchemaContext, Severity, TextRole, mixes_alphabets};
use serde_json::Value;

use crate::{Digest, Manifest, Schema, SchemaDocument, SchemaRef};

/// Inspects tools; caches the findings of schema documents that several tools share.
#[derive(Debug, Default)]
pub struct TextInspector {
    documents: HashMap<Digest, Arc<[Finding]>>,
}

impl TextInspector {
    /// The findings in a tool, the most severe first.
    pub fn inspect(&mut self, manifest: &Manifest) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut see = |at: &str, place, text: &str| inspect_text(at, place, text, &mut found);
        see("/name", TextRole::Fixed, &manifest.name);
        if let Some(title) = &manifest.title {
            see("/title", TextRole::Descriptive, title);
        }
        see("/description", TextRole::Descriptive, &manifest.description);
        for (number, tag) in manifest.tags.iter().enumerate() {
            see(&format!("/tags/{number}"), TextRole::Descriptive, tag);
        }
        if let Some(uri) = manifest.execution.resource_uri() {
            see("/execution/uri", TextRole::Fixed, uri);
        }
        if let Some(uri_template) = manifest.execution.resource_template() {
            see("/execution/uri_template", TextRole::Fixed, uri_template);
        }
        let extra = manifest.extra.iter();
        let extra = extra.map(|(name, value)| (name.to_string(), value.to_value())).collect();
        found.extend(inspect_json(&Value::Object(extra), SchemaContext::Keywords, "/extra"));
        if mixes_alphabets(&manifest.name) {
            let what = "the name has letters that only look like those beside them";
            found.push(new_finding(
                "unicode.mixed",
                Severity::Warning,
                "/name",
                0,
                what.to_owned(),
            ));
        }
        self.inspect_schema("/input_schema", &manifest.input_schema, &mut found);
        if let Some(schema) = &manifest.output_schema {
            self.inspect_schema("/output_schema", schema, &mut found);
        }
        most_severe(found)
    }

    fn inspect_schema(&mut self, at: &str, schema: &Schema, found: &mut Vec<Finding>) {
        let stored = match schema.reference() {
            SchemaRef::Inline(text) => {
                return found.extend(inspect_json(&text.to_value(), SchemaContext::Keywords, at));
            }
            SchemaRef::Stored(stored) => stored,
        };
        let names: BTreeMap<&Digest, &str> =
            stored.definitions.iter().map(|(name, digest)| (digest, &**name)).collect();
        for document in schema.documents() {
            let place = match names.get(&document.digest) {
                Some(name) => {
                    let at = format!("{at}/$defs/{name}");
                    inspect_text(&at, TextRole::Fixed, name, found);
                    at
                }
                None => at.to_owned(),
            };
            let known = self.inspect_document(document);
            found.extend(known.iter().map(|finding| {
                let at = printable_pointer(&format!("{place}{}", finding.at));
                Finding { at, ..finding.clone() }
            }));
        }
    }

    fn inspect_document(&mut self, document: &SchemaDocument) -> Arc<[Finding]> {
        let inspect = || {
            let found = inspect_json(&document.text.to_value(), SchemaContext::Keywords, "");
            most_severe(found).into()
        };
        Arc::clone(self.documents.entry(document.digest).or_insert_with(inspect))
    }
}

#[cfg(test)]
mod tests;
