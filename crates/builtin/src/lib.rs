//! Tools that ship with toolcrib (requirement B1). They reach nothing but their arguments, the clock and, for
//! `fetch_url`, what the egress guard lets them; each is bounded in what it reads, does and says.

mod calculate;
mod encode;
mod extract;
mod fetch;
mod hash;
mod query;
mod statistics;
mod time;
mod unique;
mod validate;

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

/// What takes time that grows with the arguments is done at once if these have no more text than this.
const SMALL: usize = 4 << 10;
/// What may take long is done by a few threads, so that it never takes the whole machine.
static THREADS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    Arc::new(Semaphore::new((cores / 2).max(1)))
});

/// What a tool gives: an object, or why not, for the model to read.
type Given = Result<Value, String>;

/// A tool that ships with toolcrib.
pub struct Builtin {
    /// What agents call it.
    pub name: &'static str,
    /// A name for people.
    pub title: &'static str,
    /// What it does, for the model that chooses.
    pub description: &'static str,
    /// Further words it is found by.
    pub tags: &'static [&'static str],
    /// Arguments to try, as JSON.
    pub example: &'static str,
    /// Its only say on the world outside.
    reaches_out: bool,
    input: fn() -> Value,
    work: Work,
}

enum Work {
    /// In a time that grows with the arguments.
    Quick(fn(Map<String, Value>, Timestamp) -> Given),
    /// Short arguments may ask for much.
    Long(fn(Map<String, Value>) -> Given),
    Fetch,
}

/// All of them.
pub static ALL: [&Builtin; 11] = [
    &time::CURRENT_TIME,
    &unique::UUID,
    &calculate::CALCULATE,
    &encode::ENCODE,
    &encode::DECODE,
    &hash::HASH,
    &extract::REGEX_EXTRACT,
    &query::JSON_QUERY,
    &statistics::TEXT_STATISTICS,
    &validate::VALIDATE_JSON,
    &fetch::FETCH_URL,
];

/// All of them, as what a source offers.
pub fn inventory(source: &SourceId) -> Result<Inventory, InventoryError> {
    let keyed = |builtin: &Builtin| (builtin.name.to_owned(), builtin.manifest());
    let found = Inventory::new(source.clone(), ALL.into_iter().map(keyed))?;
    Ok(Inventory { source_version: Some(env!("CARGO_PKG_VERSION").into()), ..found })
}

impl Builtin {
    /// The one of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|builtin| builtin.name == name)
    }

    /// The JSON Schema of its arguments.
    pub fn input_schema(&self) -> Value {
        (self.input)()
    }

    /// Whether a short question may take long.
    pub fn is_long(&self) -> bool {
        matches!(self.work, Work::Long(_))
    }

    /// What it is in the catalog.
    pub fn manifest(&self) -> Manifest {
        let annotations = json!({
            "readOnlyHint": true,
            "destructiveHint": false,
            "openWorldHint": self.reaches_out,
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

    /// Does what it does. The arguments fit its schema, or this says why not.
    pub async fn call(
        &self,
        arguments: Map<String, Value>,
        now: Timestamp,
        client: &HttpClient,
    ) -> Given {
        match self.work {
            Work::Fetch => fetch::fetch(read(arguments)?, client).await,
            Work::Quick(work) if arguments.values().map(texts).sum::<usize>() <= SMALL => {
                work(arguments, now)
            }
            Work::Quick(work) => aside(move || work(arguments, now)).await,
            Work::Long(work) => aside(move || work(arguments)).await,
        }
    }
}

/// Does work that may go on after nobody waits for it any more; its thread is taken until then.
async fn aside(work: impl FnOnce() -> Given + Send + 'static) -> Given {
    let thread = Arc::clone(&THREADS).acquire_owned().await;
    let done = tokio::task::spawn_blocking(move || {
        let given = work();
        drop(thread);
        given
    });
    done.await.unwrap_or_else(|_| Err("it failed inside".to_owned()))
}

/// How much text there is to look at.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 8 + texts(item)).sum(),
        Value::Object(members) => members.iter().map(|(name, it)| name.len() + texts(it)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

/// The arguments as the tool knows them.
fn read<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())
}

fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(members) = schema.as_object_mut() {
        // The name of a type of ours says nothing to anybody.
        members.remove("title");
        members.remove("description");
    }
    schema
}

#[cfg(test)]
mod tests;
