//! Pages of lists. The page of a toolset is serialized once and then copied.

use std::sync::Arc;

use axum::body::Bytes;
use endpoint::tool_format::ToolFormat;
use limits::LruCache;
use serde_json::Value;
use toolcrib::{AgentView, OfferListing, ViewStamp, ViewedTool};

use super::protocol_era::ProtocolEra;

/// Maximum number of entries on a page.
const PAGE_SIZE: usize = 1_000;
/// Maximum size of all cached pages, in bytes.
const CACHE_BYTES: u64 = 64 << 20;

/// The lists of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum McpListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// One page of a list.
#[derive(Clone, Debug)]
pub(crate) struct McpListPage {
    /// A JSON array; on the last page, followed by the end of the era's result.
    pub(crate) bytes: Bytes,
    /// Cursor of the next page, if there is one.
    pub(crate) next: Option<McpListCursor>,
}

/// A cursor: the last key of the page before, and its position in case that key is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct McpListCursor(Box<str>, usize);

/// Cache key of a page: the stamp of the view, the era, and the cursor.
type PageCacheKey = (ViewStamp, ProtocolEra, Option<McpListCursor>);

/// Cache of serialized pages of tools.
pub(crate) struct McpPageCache {
    cache: LruCache<PageCacheKey, McpListPage>,
}

impl McpListKind {
    /// The list of a method `X/list`.
    pub(crate) fn from_method(method: &str) -> Option<Self> {
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
    pub(crate) fn result_field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }
}

impl McpPageCache {
    pub(crate) fn new() -> Self {
        Self {
            cache: LruCache::with_weight(CACHE_BYTES, |_, page: &McpListPage| {
                u32::try_from(page.bytes.len() + 256).unwrap_or(u32::MAX)
            }),
        }
    }

    /// One page of a list.
    pub(crate) fn list_page(
        &self,
        view: &AgentView,
        era: ProtocolEra,
        of: McpListKind,
        after: Option<McpListCursor>,
    ) -> McpListPage {
        let listed = match of {
            McpListKind::Tools => return self.tool_page(view, era, after),
            McpListKind::Prompts => view.prompts(),
            McpListKind::Resources => view.resources(),
            McpListKind::Templates => view.resource_templates(),
        };
        let shown = |listed: &Arc<OfferListing>| Value::Object(listed.fields.clone());
        slice_page(&listed, after.as_ref(), |listed| listed.key.clone(), shown).with_result_end(era)
    }

    fn tool_page(
        &self,
        view: &AgentView,
        era: ProtocolEra,
        after: Option<McpListCursor>,
    ) -> McpListPage {
        let write = |after: Option<&McpListCursor>| {
            let tools = view.list();
            let named = |tool: &ViewedTool| tool.name().into();
            slice_page(&tools, after, named, |tool| ToolFormat::Mcp.tool_to_json(view, tool))
                .with_result_end(era)
        };
        let Some(stamp) = view.stamp() else { return write(after.as_ref()) };
        self.cache.get_with((stamp, era, after.clone()), || write(after.as_ref()))
    }
}

impl McpListPage {
    /// Appends the end of the result to the last page, so that one buffer is written.
    fn with_result_end(self, era: ProtocolEra) -> Self {
        match &self.next {
            Some(_) => self,
            None => {
                let bytes = [&self.bytes, era.end_of_list(None).as_bytes(), b"}"].concat().into();
                Self { bytes, next: None }
            }
        }
    }
}

fn slice_page<T>(
    list: &[T],
    after: Option<&McpListCursor>,
    key: impl Fn(&T) -> Box<str>,
    shown: impl Fn(&T) -> Value,
) -> McpListPage {
    let start = after.map_or(0, |McpListCursor(last, number)| {
        let found = list.iter().position(|one| key(one) == *last);
        found.map_or(*number, |place| place + 1)
    });
    let rest = list.get(start..).unwrap_or_default();
    let mut array = vec![b'['];
    for (number, one) in rest.iter().take(PAGE_SIZE).enumerate() {
        if 0 < number {
            array.push(b',');
        }
        array.extend_from_slice(shown(one).to_string().as_bytes());
    }
    array.push(b']');
    let end = start + PAGE_SIZE;
    let last = list.get(end - 1).filter(|_| end < list.len());
    McpListPage { bytes: array.into(), next: last.map(|last| McpListCursor(key(last), end)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(list: &[u32], after: Option<&McpListCursor>) -> (Vec<u32>, Option<McpListCursor>) {
        let page = slice_page(list, after, |one| one.to_string().into(), |one| Value::from(*one));
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
