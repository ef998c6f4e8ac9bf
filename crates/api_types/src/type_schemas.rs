//! JSON Schemas of request and response types, generated on first use.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// Prefix of `$ref` values.
pub(crate) const COMPONENTS: &str = "#/components/schemas/";

/// A type, and the function that generates its schema.
#[derive(Clone, Copy)]
pub struct TypeSchema {
    id: TypeId,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

impl TypeSchema {
    pub fn for_type<T: JsonSchema + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), schema: SchemaGenerator::subschema_for::<T> }
    }

    /// The schema of the type with everything it refers to; generated once per type.
    pub fn schema_set(self) -> Arc<SchemaSet> {
        static MADE: LazyLock<RwLock<HashMap<TypeId, Arc<SchemaSet>>>> =
            LazyLock::new(RwLock::default);
        if let Some(made) = MADE.read().unwrap_or_else(PoisonError::into_inner).get(&self.id) {
            return Arc::clone(made);
        }
        let made = Arc::new(SchemaSet::from_types([self]));
        let mut all = MADE.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(self.id).or_insert(made))
    }
}

/// The schemas of several types, with their shared components.
pub struct SchemaSet {
    /// The targets of `$ref`, by name.
    pub components: Map<String, Value>,
    by_type: HashMap<TypeId, Value>,
}

impl SchemaSet {
    pub fn from_types(shapes: impl IntoIterator<Item = TypeSchema>) -> Self {
        let settings = SchemaSettings::draft2020_12().for_deserialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut generator = settings.into_generator();
        let mut by_type = HashMap::new();
        for shape in shapes {
            by_type.insert(shape.id, (shape.schema)(&mut generator).to_value());
        }
        let mut components = generator.take_definitions(true);
        components.values_mut().for_each(require_non_empty_arrays);
        Self { components, by_type }
    }

    /// The schema of a type of this set.
    pub fn get(&self, shape: TypeSchema) -> &Value {
        self.by_type.get(&shape.id).expect("it is one of the shapes")
    }

    /// Follows the reference if the schema is one.
    pub fn resolve_ref<'a>(&'a self, schema: &'a Value) -> &'a Value {
        resolve_ref(&self.components, schema)
    }
}

/// Marks arrays with `minItems` as required: serde's default would let callers omit them.
fn require_non_empty_arrays(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    let mut needed = Vec::new();
    for (name, member) in properties {
        if let Some(member) =
            member.as_object_mut().filter(|member| member.contains_key("minItems"))
        {
            member.shift_remove("default");
            needed.push(Value::from(name.as_str()));
        }
    }
    if let Some(schema) = schema.as_object_mut().filter(|_| !needed.is_empty()) {
        let required = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        let required = required.as_array_mut().expect("`required` is a list");
        needed.retain(|name| !required.contains(name));
        required.append(&mut needed);
    }
}

/// Follows the reference into the components if the schema is one.
pub(crate) fn resolve_ref<'a>(components: &'a Map<String, Value>, schema: &'a Value) -> &'a Value {
    let name = schema.get("$ref").and_then(Value::as_str);
    name.and_then(|name| components.get(name.strip_prefix(COMPONENTS)?)).unwrap_or(schema)
}
