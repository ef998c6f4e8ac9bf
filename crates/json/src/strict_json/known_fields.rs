//! Parses objects with known fields directly into a struct, without a map. Unknown fields are checked as strictly as
//! known ones, and dropped.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::{check_field_name, duplicate_field_error};

/// A struct that an object is parsed into.
pub trait KnownFields<'de>: Default {
    /// Reads the value of a field if the struct has it; returns whether it did.
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        object: &mut A,
    ) -> Result<bool, A::Error>;
}

/// Takes no field: checks the whole object and drops it.
impl<'de> KnownFields<'de> for () {
    fn take_field<A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
        Ok(false)
    }
}

/// Parses a text; `None` if it is valid JSON but not an object.
pub fn parse_known_fields<'de, T: KnownFields<'de>>(
    bytes: &'de [u8],
) -> Result<Option<T>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let object = KnownFieldsSeed::default().deserialize(&mut reader)?;
    reader.end()?;
    Ok(object)
}

/// Deserialises an object at any depth; `None` if the value is not an object.
pub struct KnownFieldsSeed<T>(PhantomData<T>);

impl<T> Default for KnownFieldsSeed<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: KnownFields<'de>> DeserializeSeed<'de> for KnownFieldsSeed<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: KnownFields<'de>> Visitor<'de> for KnownFieldsSeed<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Option<T>, A::Error> {
        while elements.next_element_seed(KnownFieldsSeed::<()>::default())?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Option<T>, A::Error> {
        let (mut read, mut names) = (T::default(), SeenFieldNames::new());
        while let Some(FieldName(name)) = object.next_key()? {
            check_field_name(&name)?;
            if names.contains_name(&name) {
                return Err(duplicate_field_error(&name));
            }
            if !read.take_field(&name, &mut object)? {
                object.next_value_seed(KnownFieldsSeed::<()>::default())?;
            }
            names.add_name(name);
        }
        Ok(Some(read))
    }
}

/// A field name that borrows from the input unless it contains escapes.
#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

/// The field names of an object so far. For few names, a linear search is faster than a set.
struct SeenFieldNames<'de> {
    list: Vec<Cow<'de, str>>,
    set: BTreeSet<Cow<'de, str>>,
}

const MAX_LIST_LENGTH: usize = 16;
/// Most objects of a protocol message have no more fields.
const INITIAL_CAPACITY: usize = 4;

impl<'de> SeenFieldNames<'de> {
    fn new() -> Self {
        Self { list: Vec::with_capacity(INITIAL_CAPACITY), set: BTreeSet::new() }
    }

    fn contains_name(&self, name: &str) -> bool {
        self.list.iter().any(|known| known == name) || self.set.contains(name)
    }

    fn add_name(&mut self, name: Cow<'de, str>) {
        match self.list.len() < MAX_LIST_LENGTH {
            true => self.list.push(name),
            false => drop(self.set.insert(name)),
        }
    }
}
