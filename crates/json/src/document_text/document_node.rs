//! A document as a tree that borrows its strings where possible.
//!
//! A `serde_json::Value` takes twelve times the memory of its text, and building it takes most of the parsing time. A
//! specification is read once, walked and dropped. This tree takes a third of that memory, and searches small objects
//! linearly.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::strict_json;

/// Objects with more fields than this have an index.
const INDEX_THRESHOLD: usize = 16;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentNode<'t> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    Number(Number),
    /// A string, borrowed from the document where it has no escapes.
    Text(Cow<'t, str>),
    List(Box<[Self]>),
    Object(DocumentObject<'t>),
}

/// The fields of an object in their order, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DocumentObject<'t> {
    fields: Box<[(Cow<'t, str>, DocumentNode<'t>)]>,
    /// Field positions sorted by name, if there are many fields.
    #[expect(clippy::box_collection, reason = "one word in every object, and most have no index")]
    index: Option<Box<Vec<u32>>>,
}

impl<'t> DocumentObject<'t> {
    /// Of fields with one name, the last value counts, at the position of the first.
    pub(super) fn new(mut members: Vec<(Cow<'t, str>, DocumentNode<'t>)>) -> Self {
        let index = match members.len() <= INDEX_THRESHOLD {
            true => {
                let mut at = 1;
                while at < members.len() {
                    let (before, from) = members.split_at(at);
                    match before.iter().position(|(name, _)| *name == from[0].0) {
                        Some(first) => members[first].1 = members.remove(at).1,
                        None => at += 1,
                    }
                }
                None
            }
            false => Some(Box::new(build_index(&mut members))),
        };
        Self { fields: members.into_boxed_slice(), index }
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&DocumentNode<'t>> {
        self.position(name).map(|position| &self.fields[position].1)
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.index {
            None => self.fields.iter().position(|(other, _)| other == name),
            Some(index) => {
                let found =
                    index.binary_search_by(|&at| self.fields[at as usize].0.as_ref().cmp(name));
                found.ok().map(|found| index[found] as usize)
            }
        }
    }

    /// Whether it has a field.
    pub fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &DocumentNode<'t>)> {
        self.fields.iter().map(|(name, value)| (name.as_ref(), value))
    }

    pub(super) fn into_fields(self) -> Box<[(Cow<'t, str>, DocumentNode<'t>)]> {
        self.fields
    }
}

/// The field positions sorted by name; of fields with one name only the last value stays.
fn build_index(members: &mut Vec<(Cow<'_, str>, DocumentNode<'_>)>) -> Vec<u32> {
    let sorted = positions_by_name(members);
    let same = |one: &u32, two: &u32| field_name(members, *one) == field_name(members, *two);
    // The sort is stable: the last position of a run is the last in the document.
    let runs: Vec<Vec<u32>> =
        sorted.chunk_by(same).filter(|run| 1 < run.len()).map(<[u32]>::to_vec).collect();
    if runs.is_empty() {
        return sorted;
    }
    let mut gone = vec![false; members.len()];
    for run in runs {
        members.swap(run[0] as usize, run[run.len() - 1] as usize);
        run.iter().skip(1).for_each(|other| gone[*other as usize] = true);
    }
    let mut at = 0;
    members.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
    positions_by_name(members)
}

fn positions_by_name(members: &[(Cow<'_, str>, DocumentNode<'_>)]) -> Vec<u32> {
    let count = u32::try_from(members.len()).expect("a document has fewer members than 2^32");
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by(|&one, &two| field_name(members, one).cmp(field_name(members, two)));
    order
}

fn field_name<'m>(members: &'m [(Cow<'_, str>, DocumentNode<'_>)], at: u32) -> &'m str {
    &members[at as usize].0
}

impl<'t> DocumentNode<'t> {
    /// The value of a field, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(word) => Some(*word),
            _ => None,
        }
    }

    /// Whether it is `true`.
    pub fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The items, if it is a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The object, if it is one.
    pub fn as_object(&self) -> Option<&DocumentObject<'t>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The value as a string; also a number or a boolean, because YAML parses unquoted strings as such.
    pub fn scalar_string(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Bool(word) => Some(word.to_string()),
            Self::Null | Self::List(_) | Self::Object(_) => None,
        }
    }

    /// The value at a JSON pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        let mut here = self;
        let Some(pointer) = pointer.strip_prefix('/') else {
            return pointer.is_empty().then_some(self);
        };
        for token in pointer.split('/') {
            here = match here {
                Self::Object(object) if token.contains('~') => {
                    object.get(&token.replace("~1", "/").replace("~0", "~"))?
                }
                Self::Object(object) => object.get(token)?,
                Self::List(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(here)
    }

    /// A copy that owns its strings.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(word) => Value::Bool(*word),
            Self::Number(number) => Value::Number(number.clone()),
            Self::Text(text) => Value::String(text.to_string()),
            Self::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Self::Object(object) => Value::Object(
                object
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// Converts to a value that owns its strings.
    pub fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Object(object) => Value::Object(
                object
                    .fields
                    .into_iter()
                    .map(|(name, value)| (name.into_owned(), value.into_value()))
                    .collect(),
            ),
            scalar => scalar.to_value(),
        }
    }
}

impl<'de> Deserialize<'de> for DocumentNode<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = DocumentNode<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Null)
    }

    fn visit_bool<E>(self, word: bool) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Bool(word))
    }

    fn visit_u64<E>(self, number: u64) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<DocumentNode<'de>, E> {
        Ok(Number::from_f64(number).map_or(DocumentNode::Null, DocumentNode::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<DocumentNode<'de>, E> {
        Ok(DocumentNode::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<DocumentNode<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            items.push(item);
        }
        Ok(DocumentNode::List(items.into_boxed_slice()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DocumentNode<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(BorrowedKey(name)) = map.next_key()? {
            strict_json::check_field_name(&name)?;
            members.push((name, map.next_value()?));
        }
        Ok(DocumentNode::Object(DocumentObject::new(members)))
    }
}

/// A key that is borrowed if it has no escapes.
struct BorrowedKey<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for BorrowedKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BorrowedKeyVisitor;
        impl<'de> Visitor<'de> for BorrowedKeyVisitor {
            type Value = BorrowedKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<BorrowedKey<'de>, E> {
                Ok(BorrowedKey(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<BorrowedKey<'de>, E> {
                Ok(BorrowedKey(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(BorrowedKeyVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> DocumentNode<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_last_of_several_fields_with_one_name_counts() {
        assert_eq!(node(r#"{"a":1,"b":2,"a":3,"a":4}"#).to_value().to_string(), r#"{"a":4,"b":2}"#);
        let many: Vec<String> = (0..100).map(|at| format!("\"k{}\":{at}", at % 30)).collect();
        let many = format!("{{{}}}", many.join(","));
        let object = node(&many);
        assert_eq!(object.as_object().unwrap().len(), 30);
        assert_eq!(object.get("k5").unwrap().to_value(), 95);
        assert_eq!(object.get("k25").unwrap().to_value(), 85);
        assert_eq!(object.to_value(), serde_json::from_str::<Value>(&many).unwrap());
    }

    #[test]
    fn a_pointer_leads_through_objects_and_lists() {
        let node = node(r#"{"a/b":[{"~":"here"}]}"#);
        assert_eq!(node.pointer("/a~1b/0/~0").and_then(DocumentNode::as_str), Some("here"));
        assert_eq!(node.pointer("/a~1b/1"), None);
        assert_eq!(node.pointer(""), Some(&node));
    }
}
