//! Turns an OpenAPI specification into an inventory: every operation becomes a tool, or a warning that names it.
//!
//! The specification is walked as untyped values, because real ones violate every typed model somewhere. An invalid
//! part costs as little as possible: a keyword, a parameter or an operation, never the rest.

mod address;
mod body;
mod documents;
mod name;
mod operation;
mod parameter;
mod read;
mod schema;
mod security;
mod server;
pub(crate) mod template;

use std::collections::{BTreeMap, HashMap, HashSet};

use model::{
    Describe, Gathering, Inventory, Manifest, PollingSettings, Schema, SourceId, ToolId, Warning,
};
use url::Url;

use self::documents::{Dangling, Documents, Place, reference};
use self::name::Wish;
pub(crate) use self::operation::annotations;
use self::operation::{Converter, Operation};
pub use self::read::{Address, Specification};
use self::schema::{DefinitionNames, Direction, Schemas};
use self::security::security;
use self::server::Servers;
use crate::DiscoveryError;
use crate::text::Object;

/// The methods whose operations are tools (requirement O2).
const METHODS: [(&str, &str); 5] =
    [("get", "GET"), ("put", "PUT"), ("post", "POST"), ("delete", "DELETE"), ("patch", "PATCH")];
/// Methods whose operations do not become tools; one warning states their number.
const OTHER_METHODS: [&str; 4] = ["head", "options", "trace", "query"];

/// The maximum size of all tools together, in bytes. A small specification can use one large schema or text everywhere.
const TOOLS_LIMIT: usize = 48 * 1024 * 1024;
/// The maximum length of a JSON pointer in a warning, in characters.
const AT_LIMIT: usize = 1000;
/// The maximum length of an admin's name in a warning, in characters.
const NAME_SHOWN: usize = 80;
/// Size charged for a shared definition in each schema that refers to it, in bytes.
const SHARED_DEFINITION: usize = 256;

/// Settings of an admin for reading a specification.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The base of all URLs, instead of the servers in the specification.
    pub base_url: Option<Url>,
    /// Which text of an operation becomes the description of its tool.
    pub describe: Describe,
    /// The preferred media type where an operation accepts several.
    pub media_type: Option<String>,
    /// Polling settings by operation id or tool name, instead of those in the specification.
    pub polling: BTreeMap<Box<str>, PollingSettings>,
}

/// A problem of an operation or of the specification that becomes a warning.
#[derive(Clone, Debug)]
struct Finding {
    code: &'static str,
    at: String,
    message: String,
}

impl Finding {
    fn new(code: &'static str, at: &str, message: impl Into<String>) -> Self {
        // A path may be as long as the document; the warning is truncated.
        Self { code, at: at.chars().take(AT_LIMIT).collect(), message: message.into() }
    }

    fn dangling(at: &str, dangling: &Dangling) -> Self {
        let message = format!("the operation is left out: {}", dangling.sentence());
        Self::new("dangling_reference", at, message)
    }
}

impl From<Finding> for Warning {
    fn from(finding: Finding) -> Self {
        Self { code: finding.code.into(), at: finding.at.into(), message: finding.message.into() }
    }
}

/// The result of a discovery.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tools, and warnings about entries that could not become one.
    pub inventory: Inventory,
    /// The number of operations or entries, including the omitted ones.
    pub operations: usize,
}

/// The tools of a specification.
pub fn discover(
    source: SourceId,
    specification: &Specification,
    options: &Options,
) -> Result<Found, DiscoveryError> {
    discover_within(source, specification, options, TOOLS_LIMIT)
}

fn discover_within(
    source: SourceId,
    specification: &Specification,
    options: &Options,
    tools_limit: usize,
) -> Result<Found, DiscoveryError> {
    let (documents, mut warnings) = specification.parse()?;
    let documents = &documents;
    let root = documents.root();
    check_version(root)?;
    let (operations, count) = operations(documents, &mut warnings);
    let definition_names = DefinitionNames::new(documents, specification.references().to_vec());
    let mut converter = Converter {
        documents,
        options,
        servers: Servers::new(options.base_url.as_ref(), specification.url().cloned(), root),
        requests: Schemas::new(documents, &definition_names, Direction::Request),
        responses: Schemas::new(documents, &definition_names, Direction::Response),
        security: security(documents, root),
    };
    let mut gathering = Gathering::new(source.clone());
    let (mut homeless, mut written) = (0_usize, 0_usize);
    let named = named(&source, &operations, &mut warnings);
    warnings.extend(options.polling.keys().filter_map(|wanted| no_operation(wanted, &named)));
    for named in named {
        let operation = named.operation;
        if tools_limit < written {
            let message = "the operation is left out: the tools before it are too large together";
            warnings.push(Finding::new("too_large", &operation.at, message));
            continue;
        }
        match converter.manifest(operation, &named.name) {
            Ok((manifest, findings)) => {
                written += weight(&manifest);
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
        warnings.push(Finding::new("no_base_url", "/servers", message));
    }
    let source_version = root.get("info").and_then(|info| info.value.get("version")?.scalar());
    let warnings = warnings.into_iter().map(Warning::from).collect();
    let inventory = Inventory { warnings, source_version, ..gathering.finish() };
    Ok(Found { inventory, operations: count })
}

/// Warns about polling settings that match no operation; otherwise only wrong results would show the mistake.
fn no_operation(wanted: &str, named: &[Named<'_, '_>]) -> Option<Finding> {
    if named.iter().any(|named| named.operation.is_called(wanted, &named.name)) {
        return None;
    }
    let shown: String = wanted.chars().take(NAME_SHOWN).collect();
    let message =
        format!("no operation and no tool is called `{shown}`: its `polling` is not used");
    Some(Finding::new("polling_unused", &format!("settings.polling.{shown}"), message))
}

/// An operation with the name and the key of its tool.
struct Named<'o, 'a> {
    operation: &'o Operation<'a>,
    name: String,
    key: String,
}

/// The operations with their names and keys, in the order of names.
fn named<'o, 'a>(
    source: &SourceId,
    operations: &'o [Operation<'a>],
    warnings: &mut Vec<Finding>,
) -> Vec<Named<'o, 'a>> {
    let ids: Vec<Option<String>> = operations.iter().map(Operation::id).collect();
    let wishes: Vec<Wish<'_>> = operations
        .iter()
        .zip(&ids)
        .map(|(operation, id)| Wish {
            operation_id: id.as_deref(),
            method: operation.method,
            path: operation.path,
        })
        .collect();
    let names = name::names(&wishes);
    let keys = keys(source, &wishes, &names);
    let all = operations.iter().zip(names).zip(keys);
    let mut all: Vec<Named<'o, 'a>> =
        all.map(|((operation, name), key)| Named { operation, name, key }).collect();
    let mut taken = HashSet::new();
    all.retain(|named| {
        // Two hashes can be equal, also by a deliberate attack; the first operation keeps the name.
        let is_free = taken.insert(named.name.to_ascii_lowercase());
        if !is_free {
            let message = "the operation is left out: its name is that of another";
            warnings.push(Finding::new("name_taken", &named.operation.at, message));
        }
        is_free
    });
    all.sort_by(|one, two| one.name.cmp(&two.name));
    all
}

/// The approximate size of a tool in bytes: its own texts and its share of the shared definitions.
fn weight(manifest: &Manifest) -> usize {
    let schemas = std::iter::once(&manifest.input_schema).chain(&manifest.output_schema);
    let weight = |schema: &Schema| {
        let root = schema.documents().last().map_or(0, |root| root.text.as_str().len());
        root + schema.documents().len() * SHARED_DEFINITION
    };
    let security = manifest.security.as_ref().map_or(0, |security| security.as_str().len());
    let path = 2 * manifest.path.len();
    schemas.map(weight).sum::<usize>() + manifest.description.len() + security + path
}

/// Accepts Swagger 2.0 and OpenAPI 3.
fn check_version(root: Place<'_>) -> Result<(), DiscoveryError> {
    let version = root
        .get("openapi")
        .or_else(|| root.get("swagger"))
        .and_then(|version| version.value.scalar());
    let Some(version) = version else {
        let has_paths = root.get("paths").and_then(Place::object).is_some();
        return if has_paths { Ok(()) } else { Err(DiscoveryError::NotOpenapi) };
    };
    match version.trim().split('.').next() {
        Some("3") if root.get("openapi").is_some() => Ok(()),
        Some("2") => Ok(()),
        _ => Err(DiscoveryError::UnknownVersion { version: version.chars().take(40).collect() }),
    }
}

/// All operations that can be tools, in document order, and their number including omitted ones.
fn operations<'a>(
    documents: &'a Documents<'a>,
    warnings: &mut Vec<Finding>,
) -> (Vec<Operation<'a>>, usize) {
    let mut operations = Vec::new();
    let (mut count, mut others) = (0_usize, 0_usize);
    let Some(paths) = documents.root().get("paths") else { return (operations, 0) };
    for (path, item) in paths.object().into_iter().flat_map(Object::iter) {
        if path.starts_with("x-") {
            continue;
        }
        let at = format!("/paths/{}", path.replace('~', "~0").replace('/', "~1"));
        let stands = paths.with(item);
        let item = match documents.resolve(stands) {
            Ok(item) if item.object().is_some() => item,
            Ok(_) => {
                warnings.push(Finding::new(
                    "invalid_path_item",
                    &at,
                    "this path is left out: it is not an object",
                ));
                continue;
            }
            Err(dangling) => {
                let message = format!("this path is left out: {}", dangling.sentence());
                warnings.push(Finding::new("dangling_reference", &at, message));
                continue;
            }
        };
        // Fields beside a `$ref` count as well and take precedence.
        let beside = reference(stands).map(|_| stands);
        let above: Vec<Place<'_>> = std::iter::once(item).chain(beside).collect();
        let find = |key: &str| {
            let found = above.iter().rev().find_map(|place| place.get(key));
            found.filter(|place| !place.value.is_null())
        };
        others += OTHER_METHODS.iter().filter(|method| find(method).is_some()).count();
        others += find("additionalOperations").and_then(Place::object).map_or(0, Object::len);
        for (key, method) in METHODS {
            let Some(place) = find(key) else { continue };
            count += 1;
            let at = format!("{at}/{key}");
            match documents.resolve(place) {
                Ok(place) if place.object().is_some() => {
                    operations.push(Operation { method, path, above: above.clone(), place, at });
                }
                Ok(_) => {
                    let message = "the operation is left out: it is not an object";
                    warnings.push(Finding::new("invalid_operation", &at, message));
                }
                Err(dangling) => warnings.push(Finding::dangling(&at, &dangling)),
            }
        }
    }
    if 0 < others {
        let are = if others == 1 { "operation is no tool" } else { "operations are no tools" };
        let message = format!("{others} {are}: only GET, PUT, POST, DELETE and PATCH become tools");
        warnings.push(Finding::new("other_methods", "/paths", message));
    }
    (operations, count)
}

/// The key of each tool: the operation id if it is valid and unique, else the name of the tool.
fn keys(source: &SourceId, wishes: &[Wish<'_>], names: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for id in wishes.iter().filter_map(|wish| wish.operation_id) {
        *counts.entry(id).or_default() += 1;
    }
    for name in names {
        // A name is the key of an operation without an id, so it must differ from all ids.
        *counts.entry(name).or_default() += 1;
    }
    let key = |(wish, name): (&Wish<'_>, &String)| {
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
        let specification = Specification::read(Address::Inline, text.as_bytes()).unwrap();
        let source = "pizzeria".parse().unwrap();
        let found = discover_within(source, &specification, &Options::default(), 10_000).unwrap();
        assert_eq!((found.operations, found.inventory.tools.len()), (4, 3));
        assert_eq!(&*found.inventory.warnings[0].code, "too_large");
        assert_eq!(&*found.inventory.warnings[0].at, "/paths/~1d/post");
    }
}
