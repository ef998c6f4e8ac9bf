//! The built-in tools of toolcrib (requirement B1). They access only their arguments, the clock and, for `fetch_url`,
//! the addresses that the egress guard allows. Input, work and output of each are bounded.

mod calculate;
mod current_time;
mod fetch_url;
mod json_query;
mod regex_extract;
mod text_encoding;
mod text_hash;
mod text_statistics;
mod unique_identifiers;
mod validate_json;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::thread;

use jiff::Timestamp;
use model::{Execution, Inventory, InventoryError, Manifest, RawJson, Schema, SourceId};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use upstream::http::HttpClient;

/// Up to this many bytes of arguments, linear-time tools run on the calling thread.
const INLINE_LIMIT: usize = 4 << 10;
/// Permits for the blocking pool: long-running tools use at most half of the cores.
static BLOCKING_PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    Arc::new(Semaphore::new((cores / 2).max(1)))
});

/// The result of a tool: an object, or an error message for the model.
type BuiltinResult = Result<Value, String>;

/// A built-in tool.
pub struct BuiltinTool {
    /// The tool's name.
    pub name: &'static str,
    /// A display name.
    pub title: &'static str,
    /// Describes the tool to the model that selects it.
    pub description: &'static str,
    /// Tags for the search.
    pub tags: &'static [&'static str],
    /// Example arguments, as JSON.
    pub example: &'static str,
    /// Whether it accesses the network (`openWorldHint`).
    uses_network: bool,
    input: fn() -> Value,
    work: BuiltinWork,
}

enum BuiltinWork {
    /// Runs in linear time.
    Linear(fn(Map<String, Value>, Timestamp) -> BuiltinResult),
    /// May run long even for short arguments.
    Expensive(fn(Map<String, Value>) -> BuiltinResult),
    Fetch,
}

/// All built-in tools.
pub static BUILTIN_TOOLS: [&BuiltinTool; 11] = [
    &current_time::CURRENT_TIME,
    &unique_identifiers::UUID,
    &calculate::CALCULATE,
    &text_encoding::ENCODE,
    &text_encoding::DECODE,
    &text_hash::HASH,
    &regex_extract::REGEX_EXTRACT,
    &json_query::JSON_QUERY,
    &text_statistics::TEXT_STATISTICS,
    &validate_json::VALIDATE_JSON,
    &fetch_url::FETCH_URL,
];

/// All built-in tools as the inventory of a source.
pub fn builtin_inventory(source: &SourceId) -> Result<Inventory, InventoryError> {
    let keyed = |builtin: &BuiltinTool| (builtin.name.to_owned(), builtin.manifest());
    let found = Inventory::new(source.clone(), BUILTIN_TOOLS.into_iter().map(keyed))?;
    Ok(Inventory { source_version: Some(env!("CARGO_PKG_VERSION").into()), ..found })
}

impl BuiltinTool {
    /// The tool of this name.
    pub fn find_by_name(name: &str) -> Option<&'static Self> {
        BUILTIN_TOOLS.into_iter().find(|builtin| builtin.name == name)
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> Value {
        (self.input)()
    }

    /// Whether it may run long even for short arguments.
    pub fn is_expensive(&self) -> bool {
        matches!(self.work, BuiltinWork::Expensive(_))
    }

    /// The tool's manifest.
    pub fn manifest(&self) -> Manifest {
        let annotations = json!({
            "readOnlyHint": true,
            "destructiveHint": false,
            "openWorldHint": self.uses_network,
        });
        Manifest {
            name: self.name.into(),
            title: Some(self.title.into()),
            description: self.description.into(),
            method: "POST".into(),
            path: format!("/builtin/{}", self.name).into(),
            tags: self.tags.iter().copied().map(Into::into).collect(),
            input_schema: Schema::new(self.input_schema()).expect("it is one of ours"),
            output_schema: None,
            execution: Execution::Builtin,
            deprecated: false,
            security: None,
            extra: BTreeMap::from([("annotations".into(), RawJson::from(&annotations))]),
        }
    }

    /// Executes the tool. Arguments that do not match its schema are an error.
    pub async fn call(
        &self,
        arguments: Map<String, Value>,
        now: Timestamp,
        client: &HttpClient,
    ) -> BuiltinResult {
        match self.work {
            BuiltinWork::Fetch => fetch_url::fetch_page(parse_arguments(arguments)?, client).await,
            BuiltinWork::Linear(work)
                if arguments.values().map(argument_size).sum::<usize>() <= INLINE_LIMIT =>
            {
                work(arguments, now)
            }
            BuiltinWork::Linear(work) => run_blocking(move || work(arguments, now)).await,
            BuiltinWork::Expensive(work) => run_blocking(move || work(arguments)).await,
        }
    }
}

/// Runs work on the blocking pool. If the caller cancels, the work continues and keeps its permit until it ends.
async fn run_blocking(work: impl FnOnce() -> BuiltinResult + Send + 'static) -> BuiltinResult {
    let thread = Arc::clone(&BLOCKING_PERMITS).acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let given = work();
        drop(thread);
        given
    });
    done.await.unwrap_or_else(|_| Err("it failed inside".to_owned()))
}

/// Approximate size of an argument, in bytes.
fn argument_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 8 + argument_size(item)).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, it)| name.len() + argument_size(it)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// Deserialises the arguments of a tool.
fn parse_arguments<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())
}

fn arguments_schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(members) = schema.as_object_mut() {
        // The Rust type's name and doc are meaningless to agents.
        members.remove("title");
        members.remove("description");
    }
    schema
}

#[cfg(test)]
mod tests;
