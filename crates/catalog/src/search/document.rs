//! The searchable texts of a tool, by field and within size limits.

use serde_json::Value;

use super::weights::Field;

/// Size limits: characters of one text, bytes of all texts of a tool, and number of its parameters.
const LONGEST_TEXT: usize = 8_192;
const MOST_TEXT: usize = 64 * 1024;
const MOST_PARAMETERS: usize = 256;
/// Nesting depth down to which parameters are indexed.
const DEEPEST: usize = 3;

/// The searchable texts of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    pub(super) id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) keywords: Vec<Box<str>>,
    pub(super) texts: Vec<(Field, Box<str>)>,
    /// Size of keywords and texts, in bytes.
    length: usize,
}

impl Document {
    /// A tool with only a name. The id decides between equal scores: the lower one comes first.
    pub fn new(id: &str, name: &str) -> Self {
        let (id, name) = (id.into(), first(name, LONGEST_TEXT).into());
        Self { id, name, ..Self::default() }
    }

    /// Size of its texts without its name, in bytes.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Adds a keyword, tag or label.
    pub fn keyword(&mut self, keyword: &str) {
        if let Some(keyword) = self.cut(keyword) {
            self.keywords.push(keyword);
        }
    }

    /// Adds a text of a field.
    pub fn text(&mut self, field: Field, text: &str) {
        if let Some(text) = self.cut(text) {
            self.texts.push((field, text));
        }
    }

    /// Cuts a text to the remaining size limit; `None` if nothing is left.
    fn cut(&mut self, text: &str) -> Option<Box<str>> {
        let left = MOST_TEXT.saturating_sub(self.length);
        let cut = first(text, LONGEST_TEXT);
        let cut = cut.get(..cut.floor_char_boundary(left)).filter(|cut| !cut.is_empty())?;
        self.length += cut.len();
        Some(cut.into())
    }

    /// Adds the names, descriptions and examples of the parameters in a schema.
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
