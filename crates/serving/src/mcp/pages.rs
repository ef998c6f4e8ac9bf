//! Pages of lists. The page of a toolset is serialized once and then copied.

use std::sync::Arc;

use axum::body::Bytes;
use model::Cache;
use serde_json::Value;
use toolcrib::{AgentView, Listed, Stamp, ViewedTool};

use super::era::Era;
use crate::format::Format;

/// Maximum number of entries on a page.
const PAGE: usize = 1_000;
/// Maximum size of all cached pages, in bytes.
const KEPT: u64 = 64 << 20;

/// The lists of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListOf {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// A JSON array; on the last page, followed by the end of the era's result.
    pub(crate) bytes: Bytes,
    /// Cursor of the next page, if there is one.
    pub(crate) next: Option<Place>,
}

/// A cursor: the last key of the page before, and its position in case that key is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Place(Box<str>, usize);

/// Cache key of a page: the stamp of the view, the era, and the cursor.
type Of = (Stamp, Era, Option<Place>);

/// Cache of serialized pages of tools.
pub(crate) struct Pages {
    kept: Cache<Of, Page>,
}

impl ListOf {
    /// The list of a method `X/list`.
    pub(crate) fn named(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _ => None,
        }
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The field of the result that holds the list.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

impl Pages {
    pub(crate) fn new() -> Self {
        Self {
            kept: Cache::weighing(KEPT, |_, page: &Page| {
                u32::try_from(page.bytes.len() + 256).unwrap_or(u32::MAX)
            }),
        }
    }

    /// One page of a list.
    pub(crate) fn page(
        &self,
        view: &AgentView,
        era: Era,
        of: ListOf,
        after: Option<Place>,
    ) -> Page {
        let listed = match of {
            ListOf::Tools => return self.tools(view, era, after),
            ListOf::Prompts => view.prompts(),
            ListOf::Resources => view.resources(),
            ListOf::Templates => view.resource_templates(),
        };
        let shown = |listed: &Arc<Listed>| Value::Object(listed.shown.clone());
        cut(&listed, after.as_ref(), |listed| listed.key.clone(), shown).ended(era)
    }

    fn tools(&self, view: &AgentView, era: Era, after: Option<Place>) -> Page {
        let write = |after: Option<&Place>| {
            let tools = view.list();
            let named = |tool: &ViewedTool| tool.name().into();
            cut(&tools, after, named, |tool| Format::Mcp.tool(view, tool)).ended(era)
        };
        let Some(stamp) = view.stamp() else { return write(after.as_ref()) };
        self.kept.get_with((stamp, era, after.clone()), || write(after.as_ref()))
    }
}

impl Page {
    /// Appends the end of the result to the last page, so that one buffer is written.
    fn ended(self, era: Era) -> Self {
        match &self.next {
            Some(_) => self,
            None => {
                let bytes = [&self.bytes, era.end_of_list(None).as_bytes(), b"}"].concat().into();
                Self { bytes, next: None }
            }
        }
    }
}

fn cut<T>(
    list: &[T],
    after: Option<&Place>,
    key: impl Fn(&T) -> Box<str>,
    shown: impl Fn(&T) -> Value,
) -> Page {
    let start = after.map_or(0, |Place(last, number)| {
        let found = list.iter().position(|one| key(one) == *last);
        found.map_or(*number, |place| place + 1)
    });
    let rest = list.get(start..).unwrap_or_default();
    let mut array = vec![b'['];
    for (number, one) in rest.iter().take(PAGE).enumerate() {
        if 0 < number {
            array.push(b',');
        }
        array.extend_from_slice(shown(one).to_string().as_bytes());
    }
    array.push(b']');
    let end = start + PAGE;
    let last = list.get(end - 1).filter(|_| end < list.len());
    Page { bytes: array.into(), next: last.map(|last| Place(key(last), end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(list: &[u32], after: Option<&Place>) -> (Vec<u32>, Option<Place>) {
        let page = cut(list, after, |one| one.to_string().into(), |one| Value::from(*one));
        (serde_json::from_slice(&page.bytes).unwrap(), page.next)
    }

    #[test]
    fn every_entry_is_on_exactly_one_page() {
        for length in [0, 1, 999, 1_000, 1_001, 2_000, 2_500] {
            let list: Vec<u32> = (0..length).collect();
            let (mut seen, mut after) = page(&list, None);
            while let Some(place) = after {
                let (more, next) = page(&list, Some(&place));
                assert!(!more.is_empty());
                seen.extend(more);
                after = next;
            }
            assert_eq!(seen, list);
        }
    }

    #[test]
    fn paging_continues_correctly_when_the_list_changes() {
        let list: Vec<u32> = (0..2_000).collect();
        let (_, next) = page(&list, None);
        let later: Vec<u32> = (5..2_000).collect();
        assert_eq!(page(&later, next.as_ref()).0.first(), Some(&1_000));
        // The last key of the page before is gone.
        let later: Vec<u32> = (0..2_000).filter(|one| *one != 999).collect();
        assert_eq!(page(&later, next.as_ref()).0.first(), Some(&1_001));
        assert_eq!(page(&[], next.as_ref()), (Vec::new(), None));
    }
}
