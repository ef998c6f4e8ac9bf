//! The searchable texts of a tool, by field and within size limits.

use serde_json::Value;

use super::ranking_weights::SearchField;

/// Size limits: characters of one text, bytes of all texts of a tool, and number of its parameters.
const TEXT_CHARACTERS: usize = 8_192;
const DOCUMENT_BYTES: usize = 64 * 1024;
const PARAMETER_LIMIT: usize = 256;
/// Nesting depth down to which parameters are indexed.
const PARAMETER_DEPTH: usize = 3;

/// The searchable texts of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchDocument {
    pub(super) id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) keywords: Vec<Box<str>>,
    pub(super) texts: Vec<(SearchField, Box<str>)>,
    /// Size of keywords and texts, in bytes.
    text_bytes: usize,
}

impl SearchDocument {
    /// A tool with only a name. The id decides between equal scores: the lower one comes first.
    pub fn new(id: &str, name: &str) -> Self {
        let (id, name) = (id.into(), first_characters(name, TEXT_CHARACTERS).into());
        Self { id, name, ..Self::default() }
    }

    /// Size of its texts without its name, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Adds a keyword, tag or label.
    pub fn add_keyword(&mut self, keyword: &str) {
        if let Some(keyword) = self.cut_to_limit(keyword) {
            self.keywords.push(keyword);
        }
    }

    /// Adds a text of a field.
    pub fn add_text(&mut self, field: SearchField, text: &str) {
        if let Some(text) = self.cut_to_limit(text) {
            self.texts.push((field, text));
        }
    }

    /// Cuts a text to the remaining size limit; `None` if nothing is left.
    fn cut_to_limit(&mut self, text: &str) -> Option<Box<str>> {
        let left = DOCUMENT_BYTES.saturating_sub(self.text_bytes);
        let cut = first_characters(text, TEXT_CHARACTERS);
        let cut = cut.get(..cut.floor_char_boundary(left)).filter(|cut| !cut.is_empty())?;
        self.text_bytes += cut.len();
        Some(cut.into())
    }

    /// Adds the names, descriptions and examples of the parameters in a schema.
    pub fn add_parameters(&mut self, schema: &Value) {
        let mut left = PARAMETER_LIMIT;
        self.add_properties(schema, PARAMETER_DEPTH, &mut left);
    }

    fn add_properties(&mut self, schema: &Value, depth: usize, left: &mut usize) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            self.add_text(SearchField::Parameter, name);
            let text = |member| schema.get(member).and_then(Value::as_str);
            self.add_text(
                SearchField::ParameterDescription,
                text("description").unwrap_or_default(),
            );
            let several = |member| schema.get(member).and_then(Value::as_array);
            let examples = ["examples", "enum"].into_iter().filter_map(several).flatten();
            for example in examples.chain(schema.get("example")).filter_map(Value::as_str).take(8) {
                self.add_text(SearchField::Example, example);
            }
            if 1 < depth {
                self.add_properties(schema, depth - 1, left);
                schema
                    .get("items")
                    .into_iter()
                    .for_each(|it| self.add_properties(it, depth - 1, left));
            }
        }
    }
}

fn first_characters(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}
