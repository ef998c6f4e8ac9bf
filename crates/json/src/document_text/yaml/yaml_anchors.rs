//! The values with an anchor (`&name`), and the copies that aliases (`*name`) make of them.
//!
//! A few lines can request a billion copies ("billion laughs"). Each copy is charged before it is made: its text, and
//! `NODE_COST` for each value. A document may copy twice its own size, plus `BASE_BUDGET`.

use std::collections::HashMap;

use crate::document_text::document_node::DocumentNode;
use crate::document_text::{DocumentError, MAX_DEPTH, TextPosition};

const NODE_COST: usize = 16;
const BASE_BUDGET: usize = 2 * 1024 * 1024;

pub(super) struct YamlAnchors<'t> {
    /// By the parser's number of the anchor.
    values: HashMap<usize, AnchoredValue<'t>>,
    budget: usize,
}

struct AnchoredValue<'t> {
    value: DocumentNode<'t>,
    size: CopyCost,
}

struct CopyCost {
    bytes: usize,
    /// The nesting depth of lists and objects.
    depth: usize,
}

impl<'t> YamlAnchors<'t> {
    /// Without anchors, for a document of this length in bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { values: HashMap::new(), budget: BASE_BUDGET + 2 * bytes }
    }

    /// Stores a copy of a value for its aliases; anchor 0 means no anchor.
    #[inline]
    pub(super) fn store_value(
        &mut self,
        anchor: usize,
        value: &DocumentNode<'t>,
        at: TextPosition,
    ) -> Result<(), DocumentError> {
        if anchor == 0 {
            return Ok(());
        }
        let size = measure_value(value);
        spend_budget(&mut self.budget, size.bytes, at)?;
        self.values.insert(anchor, AnchoredValue { value: value.clone(), size });
        Ok(())
    }

    /// A copy of the value with this anchor, to be nested in `depth` others.
    pub(super) fn copy_value(
        &mut self,
        anchor: usize,
        at: TextPosition,
        depth: usize,
    ) -> Result<DocumentNode<'t>, DocumentError> {
        let Some(kept) = self.values.get(&anchor) else {
            return Err(DocumentError::EndlessAlias { at });
        };
        if MAX_DEPTH < depth + kept.size.depth {
            return Err(DocumentError::TooDeep { at });
        }
        spend_budget(&mut self.budget, kept.size.bytes, at)?;
        Ok(kept.value.clone())
    }
}

fn spend_budget(left: &mut usize, cost: usize, at: TextPosition) -> Result<(), DocumentError> {
    *left = left.checked_sub(cost).ok_or(DocumentError::TooManyCopies { at })?;
    Ok(())
}

fn measure_value(value: &DocumentNode<'_>) -> CopyCost {
    let mut size = CopyCost { bytes: NODE_COST, depth: 0 };
    match value {
        DocumentNode::Null | DocumentNode::Bool(_) | DocumentNode::Number(_) => {}
        DocumentNode::Text(text) => size.bytes += text.len(),
        DocumentNode::List(list) => {
            size.depth = 1;
            list.iter().for_each(|inner| size.add_child(inner));
        }
        DocumentNode::Object(object) => {
            size.depth = 1;
            for (key, inner) in object.iter() {
                size.bytes += key.len();
                size.add_child(inner);
            }
        }
    }
    size
}

impl CopyCost {
    fn add_child(&mut self, inner: &DocumentNode<'_>) {
        let inner = measure_value(inner);
        self.bytes += inner.bytes;
        self.depth = self.depth.max(1 + inner.depth);
    }
}
