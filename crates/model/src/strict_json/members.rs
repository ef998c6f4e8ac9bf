//! Parses objects with known fields directly into a struct, without a map. Unknown fields are checked as strictly as
//! known ones, and dropped.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{check_name, twice};

/// A struct that an object is parsed into.
pub trait Members<'de>: Default {
    /// Reads the value of a field if the struct has it; returns whether it did.
    fn take<A: MapAccess<'de>>(&mut self, name: &str, object: &mut A) -> Result<bool, A::Error>;
}

/// Takes no field: checks the whole object and drops it.
impl<'de> Members<'de> for () {
    fn take<A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
        Ok(false)
    }
}

/// Parses a text; `None` if it is valid JSON but not an object.
pub fn members<'de, T: Members<'de>>(bytes: &'de [u8]) -> Result<Option<T>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let object = Object::default().deserialize(&mut reader)?;
    reader.end()?;
    Ok(object)
}

/// Deserialises an object at any depth; `None` if the value is not an object.
pub struct Object<T>(PhantomData<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Members<'de>> DeserializeSeed<'de> for Object<T> {
    type Value = Option<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Members<'de>> Visitor<'de> for Object<T> {
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
        while elements.next_element_seed(Object::<()>::default())?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Option<T>, A::Error> {
        let (mut read, mut names) = (T::default(), Names::new());
        while let Some(Name(name)) = object.next_key()? {
            check_name(&name)?;
            if names.have(&name) {
                return Err(twice(&name));
            }
            if !read.take(&name, &mut object)? {
                object.next_value_seed(Object::<()>::default())?;
            }
            names.add(name);
        }
        Ok(Some(read))
    }
}

/// A field name that borrows from the input unless it contains escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The field names of an object so far. For few names, a linear search is faster than a set.
struct Names<'de> {
    few: Vec<Cow<'de, str>>,
    more: BTreeSet<Cow<'de, str>>,
}

const FEW: usize = 16;
/// Most objects of a protocol message have no more fields.
const MOST: usize = 4;

impl<'de> Names<'de> {
    fn new() -> Self {
        Self { few: Vec::with_capacity(MOST), more: BTreeSet::new() }
    }

    fn have(&self, name: &str) -> bool {
        self.few.iter().any(|known| known == name) || self.more.contains(name)
    }

    fn add(&mut self, name: Cow<'de, str>) {
        match self.few.len() < FEW {
            true => self.few.push(name),
            false => drop(self.more.insert(name)),
        }
    }
}
