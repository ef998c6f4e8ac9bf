//! Turns an OpenAPI specification into an inventory: every operation becomes a tool, or a warning that names it.
//!
//! The specification is walked as untyped values, because real ones violate every typed model somewhere. An invalid
//! part costs as little as possible: a keyword, a parameter or an operation, never the rest.

mod operation;
mod operation_name;
mod operation_url;
mod parameter;
mod request_body;
mod security_requirements;
mod servers;
mod shared_schemas;
mod specification;
mod specification_documents;
pub(crate) mod template_writer;

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{
    DiscoveryWarning, Inventory, InventoryBuilder, Manifest, OperationDescription, PollingSettings,
    Schema, SourceId, ToolId,
};
use url::Url;

pub(crate) use self::operation::method_annotations;
use self::operation::{OpenApiOperation, OperationConverter};
use self::operation_name::NameCandidate;
use self::security_requirements::read_security;
use self::servers::OpenApiServers;
use self::shared_schemas::{DefinitionNames, SchemaDirection, SharedSchemas};
pub use self::specification::{OpenApiSpecification, SpecificationAddress};
use json::document_text::DocumentObject;

use self::specification_documents::{
    DanglingReference, DocumentValue, SpecificationDocuments, reference_of,
};
use crate::DiscoveryError;

/// The methods whose operations are tools (requirement O2).
const METHODS: [(&str, &str); 5] =
    [("get", "GET"), ("put", "PUT"), ("post", "POST"), ("delete", "DELETE"), ("patch", "PATCH")];
/// Methods whose operations do not become tools; one warning states their number.
const OTHER_METHODS: [&str; 4] = ["head", "options", "trace", "query"];

/// The maximum size of all tools together, in bytes. A small specification can use one large schema or text everywhere.
const MAX_TOOLS_BYTES: usize = 48 * 1024 * 1024;
/// The maximum length of a JSON pointer in a warning, in characters.
const POINTER_EXCERPT_CHARS: usize = 1000;
/// The maximum length of an admin's name in a warning, in characters.
const NAME_EXCERPT_CHARS: usize = 80;
/// Size charged for a shared definition in each schema that refers to it, in bytes.
const SHARED_DEFINITION_BYTES: usize = 256;

/// Settings of an admin for reading a specification.
#[derive(Clone, Debug, Default)]
pub struct SpecOptions {
    /// The base of all URLs, instead of the servers in the specification.
    pub base_url: Option<Url>,
    /// Which text of an operation becomes the description of its tool.
    pub describe: OperationDescription,
    /// The preferred media type where an operation accepts several.
    pub media_type: Option<String>,
    /// Polling settings by operation id or tool name, instead of those in the specification.
    pub polling: BTreeMap<Box<str>, PollingSettings>,
}

/// A problem of an operation or of the specification that becomes a warning.
#[derive(Clone, Debug)]
struct OpenApiFinding {
    code: &'static str,
    at: String,
    message: String,
}

impl OpenApiFinding {
    fn new(code: &'static str, at: &str, message: impl Into<String>) -> Self {
        // A path may be as long as the document; the warning is truncated.
        Self { code, at: at.chars().take(POINTER_EXCERPT_CHARS).collect(), message: message.into() }
    }

    fn from_dangling_reference(at: &str, dangling: &DanglingReference) -> Self {
        let message = format!("the operation is left out: {}", dangling.to_sentence());
        Self::new("dangling_reference", at, message)
    }
}

impl From<OpenApiFinding> for DiscoveryWarning {
    fn from(finding: OpenApiFinding) -> Self {
        Self { code: finding.code.into(), at: finding.at.into(), message: finding.message.into() }
    }
}

/// The result of a discovery.
#[derive(Clone, Debug)]
pub struct DiscoveredInventory {
    /// The tools, and warnings about entries that could not become one.
    pub inventory: Inventory,
    /// The number of operations or entries, including the omitted ones.
    pub operations: usize,
}

/// The tools of a specification.
pub fn discover_openapi(
    source: SourceId,
    specification: &OpenApiSpecification,
    options: &SpecOptions,
) -> Result<DiscoveredInventory, DiscoveryError> {
    discover_with_size_limit(source, specification, options, MAX_TOOLS_BYTES)
}

fn discover_with_size_limit(
    source: SourceId,
    specification: &OpenApiSpecification,
    options: &SpecOptions,
    tools_limit: usize,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let (documents, mut warnings) = specification.parse_documents()?;
    let documents = &documents;
    let root = documents.root_value();
    check_version(root)?;
    let (operations, count) = collect_operations(documents, &mut warnings);
    let definition_names = DefinitionNames::new(documents, specification.references().to_vec());
    let mut converter = OperationConverter {
        documents,
        options,
        servers: OpenApiServers::new(options.base_url.as_ref(), specification.url().cloned(), root),
        requests: SharedSchemas::new(documents, &definition_names, SchemaDirection::Request),
        responses: SharedSchemas::new(documents, &definition_names, SchemaDirection::Response),
        security: read_security(documents, root),
    };
    let mut gathering = InventoryBuilder::new(source.clone());
    let (mut homeless, mut written) = (0_usize, 0_usize);
    let named = name_operations(&source, &operations, &mut warnings);
    warnings
        .extend(options.polling.keys().filter_map(|wanted| check_polling_target(wanted, &named)));
    for named in named {
        let operation = named.operation;
        if tools_limit < written {
            let message = "the operation is left out: the tools before it are too large together";
            warnings.push(OpenApiFinding::new("too_large", &operation.at, message));
            continue;
        }
        match converter.build_manifest(operation, &named.name) {
            Ok((manifest, findings)) => {
                written += estimate_size(&manifest);
                homeless += usize::from(!converter.servers.has_host(operation));
                gathering.add(named.key, manifest)?;
                warnings.extend(findings);
            }
            Err(finding) => warnings.push(finding),
        }
    }
    if 0 < homeless {
        let operations = if homeless == 1 { "operation" } else { "operations" };
        let message = format!(
            "{homeless} {operations} cannot be called: the specification names no server that can be used; set the source's `url`"
        );
        warnings.push(OpenApiFinding::new("no_base_url", "/servers", message));
    }
    let source_version =
        root.get("info").and_then(|info| info.value.get("version")?.scalar_string());
    let warnings = warnings.into_iter().map(DiscoveryWarning::from).collect();
    let inventory = Inventory { warnings, source_version, ..gathering.finish() };
    Ok(DiscoveredInventory { inventory, operations: count })
}

/// Warns about polling settings that match no operation; otherwise only wrong results would show the mistake.
fn check_polling_target(wanted: &str, named: &[NamedOperation<'_, '_>]) -> Option<OpenApiFinding> {
    if named.iter().any(|named| named.operation.has_id_or_name(wanted, &named.name)) {
        return None;
    }
    let shown: String = wanted.chars().take(NAME_EXCERPT_CHARS).collect();
    let message =
        format!("no operation and no tool is called `{shown}`: its `polling` is not used");
    Some(OpenApiFinding::new("polling_unused", &format!("settings.polling.{shown}"), message))
}

/// An operation with the name and the key of its tool.
struct NamedOperation<'o, 'a> {
    operation: &'o OpenApiOperation<'a>,
    name: String,
    key: String,
}

/// The operations with their names and keys, in the order of names.
fn name_operations<'o, 'a>(
    source: &SourceId,
    operations: &'o [OpenApiOperation<'a>],
    warnings: &mut Vec<OpenApiFinding>,
) -> Vec<NamedOperation<'o, 'a>> {
    let ids: Vec<Option<String>> = operations.iter().map(OpenApiOperation::operation_id).collect();
    let wishes: Vec<NameCandidate<'_>> = operations
        .iter()
        .zip(&ids)
        .map(|(operation, id)| NameCandidate {
            operation_id: id.as_deref(),
            method: operation.method,
            path: operation.path,
        })
        .collect();
    let names = operation_name::assign_names(&wishes);
    let keys = assign_keys(source, &wishes, &names);
    let all = operations.iter().zip(names).zip(keys);
    let mut all: Vec<NamedOperation<'o, 'a>> =
        all.map(|((operation, name), key)| NamedOperation { operation, name, key }).collect();
    let mut taken = HashSet::new();
    all.retain(|named| {
        // Two hashes can be equal, also by a deliberate attack; the first operation keeps the name.
        let is_free = taken.insert(named.name.to_ascii_lowercase());
        if !is_free {
            let message = "the operation is left out: its name is that of another";
            warnings.push(OpenApiFinding::new("name_taken", &named.operation.at, message));
        }
        is_free
    });
    all.sort_by(|one, two| one.name.cmp(&two.name));
    all
}

/// The approximate size of a tool in bytes: its own texts and its share of the shared definitions.
fn estimate_size(manifest: &Manifest) -> usize {
    let schemas = std::iter::once(&manifest.input_schema).chain(&manifest.output_schema);
    let weight = |schema: &Schema| {
        let root = schema.documents().last().map_or(0, |root| root.text.as_str().len());
        root + schema.documents().len() * SHARED_DEFINITION_BYTES
    };
    let security = manifest.security.as_ref().map_or(0, |security| security.as_str().len());
    let path = 2 * manifest.path.len();
    schemas.map(weight).sum::<usize>() + manifest.description.len() + security + path
}

/// Accepts Swagger 2.0 and OpenAPI 3.
fn check_version(root: DocumentValue<'_>) -> Result<(), DiscoveryError> {
    let version = root
        .get("openapi")
        .or_else(|| root.get("swagger"))
        .and_then(|version| version.value.scalar_string());
    let Some(version) = version else {
        let has_paths = root.get("paths").and_then(DocumentValue::as_object).is_some();
        return if has_paths { Ok(()) } else { Err(DiscoveryError::NotOpenapi) };
    };
    match version.trim().split('.').next() {
        Some("3") if root.get("openapi").is_some() => Ok(()),
        Some("2") => Ok(()),
        _ => Err(DiscoveryError::UnknownVersion { version: version.chars().take(40).collect() }),
    }
}

/// All operations that can be tools, in document order, and their number including omitted ones.
fn collect_operations<'a>(
    documents: &'a SpecificationDocuments<'a>,
    warnings: &mut Vec<OpenApiFinding>,
) -> (Vec<OpenApiOperation<'a>>, usize) {
    let mut operations = Vec::new();
    let (mut count, mut others) = (0_usize, 0_usize);
    let Some(paths) = documents.root_value().get("paths") else { return (operations, 0) };
    for (path, item) in paths.as_object().into_iter().flat_map(DocumentObject::iter) {
        if path.starts_with("x-") {
            continue;
        }
        let at = format!("/paths/{}", path.replace('~', "~0").replace('/', "~1"));
        let stands = paths.with_value(item);
        let item = match documents.resolve_reference(stands) {
            Ok(item) if item.as_object().is_some() => item,
            Ok(_) => {
                warnings.push(OpenApiFinding::new(
                    "invalid_path_item",
                    &at,
                    "this path is left out: it is not an object",
                ));
                continue;
            }
            Err(dangling) => {
                let message = format!("this path is left out: {}", dangling.to_sentence());
                warnings.push(OpenApiFinding::new("dangling_reference", &at, message));
                continue;
            }
        };
        // Fields beside a `$ref` count as well and take precedence.
        let beside = reference_of(stands).map(|_| stands);
        let above: Vec<DocumentValue<'_>> = std::iter::once(item).chain(beside).collect();
        let find = |key: &str| {
            let found = above.iter().rev().find_map(|place| place.get(key));
            found.filter(|place| !place.value.is_null())
        };
        others += OTHER_METHODS.iter().filter(|method| find(method).is_some()).count();
        others += find("additionalOperations")
            .and_then(DocumentValue::as_object)
            .map_or(0, DocumentObject::len);
        for (key, method) in METHODS {
            let Some(place) = find(key) else { continue };
            count += 1;
            let at = format!("{at}/{key}");
            match documents.resolve_reference(place) {
                Ok(place) if place.as_object().is_some() => {
                    operations.push(OpenApiOperation {
                        method,
                        path,
                        path_items: above.clone(),
                        place,
                        at,
                    });
                }
                Ok(_) => {
                    let message = "the operation is left out: it is not an object";
                    warnings.push(OpenApiFinding::new("invalid_operation", &at, message));
                }
                Err(dangling) => {
                    warnings.push(OpenApiFinding::from_dangling_reference(&at, &dangling))
                }
            }
        }
    }
    if 0 < others {
        let are = if others == 1 { "operation is no tool" } else { "operations are no tools" };
        let message = format!("{others} {are}: only GET, PUT, POST, DELETE and PATCH become tools");
        warnings.push(OpenApiFinding::new("other_methods", "/paths", message));
    }
    (operations, count)
}

/// The key of each tool: the operation id if it is valid and unique, else the name of the tool.
fn assign_keys(source: &SourceId, wishes: &[NameCandidate<'_>], names: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for id in wishes.iter().filter_map(|wish| wish.operation_id) {
        *counts.entry(id).or_default() += 1;
    }
    for name in names {
        // A name is the key of an operation without an id, so it must differ from all ids.
        *counts.entry(name).or_default() += 1;
    }
    let key = |(wish, name): (&NameCandidate<'_>, &String)| {
        let own = wish.operation_id.filter(|id| {
            let others = counts[id] - usize::from(id == name);
            others == 1 && ToolId::new(source, id).is_ok()
        });
        own.unwrap_or(name).to_owned()
    };
    wishes.iter().zip(names).map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_cannot_multiply_a_large_schema() {
        let text = format!(
            "openapi: 3.1.0
paths:
  /a: &a {{post: {{requestBody: {{content: {{text/plain: {{schema: {{type: string, title: {}}}}}}}}}}}}}
  /b: *a
  /c: *a
  /d: *a",
            "long".repeat(1_000)
        );
        let specification =
            OpenApiSpecification::from_bytes(SpecificationAddress::Inline, text.as_bytes())
                .unwrap();
        let source = "pizzeria".parse().unwrap();
        let found =
            discover_with_size_limit(source, &specification, &SpecOptions::default(), 10_000)
                .unwrap();
        assert_eq!((found.operations, found.inventory.tools.len()), (4, 3));
        assert_eq!(&*found.inventory.warnings[0].code, "too_large");
        assert_eq!(&*found.inventory.warnings[0].at, "/paths/~1d/post");
    }
}
