//! The values with an anchor (`&name`), and the copies that aliases (`*name`) make of them.
//!
//! A few lines can request a billion copies ("billion laughs"). Each copy is charged before it is made: its text, and
//! `NODE_COST` for each value. A document may copy twice its own size, plus `BASE_BUDGET`.

use std::collections::HashMap;

use crate::text::node::Node;
use crate::text::{MAX_DEPTH, Place, TextError};

const NODE: usize = 16;
const ALLOWANCE: usize = 2 * 1024 * 1024;

pub(super) struct Anchors<'t> {
    /// By the parser's number of the anchor.
    kept: HashMap<usize, Kept<'t>>,
    left: usize,
}

struct Kept<'t> {
    value: Node<'t>,
    size: Size,
}

struct Size {
    cost: usize,
    /// The nesting depth of lists and objects.
    depth: usize,
}

impl<'t> Anchors<'t> {
    /// Without anchors, for a document of this length in bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { kept: HashMap::new(), left: ALLOWANCE + 2 * bytes }
    }

    /// Stores a copy of a value for its aliases; anchor 0 means no anchor.
    #[inline]
    pub(super) fn keep(
        &mut self,
        anchor: usize,
        value: &Node<'t>,
        at: Place,
    ) -> Result<(), TextError> {
        if anchor == 0 {
            return Ok(());
        }
        let size = measure(value);
        pay(&mut self.left, size.cost, at)?;
        self.kept.insert(anchor, Kept { value: value.clone(), size });
        Ok(())
    }

    /// A copy of the value with this anchor, to be nested in `depth` others.
    pub(super) fn copy(
        &mut self,
        anchor: usize,
        at: Place,
        depth: usize,
    ) -> Result<Node<'t>, TextError> {
        let Some(kept) = self.kept.get(&anchor) else {
            return Err(TextError::EndlessAlias { at });
        };
        if MAX_DEPTH < depth + kept.size.depth {
            return Err(TextError::TooDeep { at });
        }
        pay(&mut self.left, kept.size.cost, at)?;
        Ok(kept.value.clone())
    }
}

fn pay(left: &mut usize, cost: usize, at: Place) -> Result<(), TextError> {
    *left = left.checked_sub(cost).ok_or(TextError::TooManyCopies { at })?;
    Ok(())
}

fn measure(value: &Node<'_>) -> Size {
    let mut size = Size { cost: NODE, depth: 0 };
    match value {
        Node::Null | Node::Bool(_) | Node::Number(_) => {}
        Node::Text(text) => size.cost += text.len(),
        Node::List(list) => {
            size.depth = 1;
            list.iter().for_each(|inner| size.add(inner));
        }
        Node::Object(object) => {
            size.depth = 1;
            for (key, inner) in object.iter() {
                size.cost += key.len();
                size.add(inner);
            }
        }
    }
    size
}

impl Size {
    fn add(&mut self, inner: &Node<'_>) {
        let inner = measure(inner);
        self.cost += inner.cost;
        self.depth = self.depth.max(1 + inner.depth);
    }
}
