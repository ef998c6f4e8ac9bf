//! What of a tool is searched: its texts, field by field, within bounds.

use serde_json::Value;

use super::weights::Field;

/// How much of a text counts, in characters; of all texts of a tool, in bytes; and of how many arguments.
const LONGEST_TEXT: usize = 8_192;
const MOST_TEXT: usize = 64 * 1024;
const MOST_PARAMETERS: usize = 256;
/// How deep arguments inside arguments are looked at.
const DEEPEST: usize = 3;

/// The texts of a tool that it is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    pub(super) id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) keywords: Vec<Box<str>>,
    pub(super) texts: Vec<(Field, Box<str>)>,
    /// How many bytes there are of keywords and texts.
    length: usize,
}

impl Document {
    /// A tool with nothing but a name. Among equals, the lower id comes first.
    pub fn new(id: &str, name: &str) -> Self {
        let (id, name) = (id.into(), first(name, LONGEST_TEXT).into());
        Self { id, name, ..Self::default() }
    }

    /// How much text it has, in bytes, without its name.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// With a keyword, tag or label.
    pub fn keyword(&mut self, keyword: &str) {
        if let Some(keyword) = self.cut(keyword) {
            self.keywords.push(keyword);
        }
    }

    /// With a text of a field.
    pub fn text(&mut self, field: Field, text: &str) {
        if let Some(text) = self.cut(text) {
            self.texts.push((field, text));
        }
    }

    /// As much of a text as there is room for, if that is anything.
    fn cut(&mut self, text: &str) -> Option<Box<str>> {
        let left = MOST_TEXT.saturating_sub(self.length);
        let cut = first(text, LONGEST_TEXT);
        let cut = cut.get(..cut.floor_char_boundary(left)).filter(|cut| !cut.is_empty())?;
        self.length += cut.len();
        Some(cut.into())
    }

    /// With the names, descriptions and examples of its arguments, from the schema of them.
    pub fn arguments(&mut self, schema: &Value) {
        let mut left = MOST_PARAMETERS;
        self.properties(schema, DEEPEST, &mut left);
    }

    fn properties(&mut self, schema: &Value, depth: usize, left: &mut usize) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            self.text(Field::Parameter, name);
            let text = |member| schema.get(member).and_then(Value::as_str);
            self.text(Field::ParameterDescription, text("description").unwrap_or_default());
            let several = |member| schema.get(member).and_then(Value::as_array);
            let examples = ["examples", "enum"].into_iter().filter_map(several).flatten();
            for example in examples.chain(schema.get("example")).filter_map(Value::as_str).take(8) {
                self.text(Field::Example, example);
            }
            if 1 < depth {
                self.properties(schema, depth - 1, left);
                schema.get("items").into_iter().for_each(|it| self.properties(it, depth - 1, left));
            }
        }
    }
}

fn first(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}
