//! Pagination of lists. A cursor holds the last key of a page, so concurrent inserts and deletes neither skip nor
//! repeat elements.

use api_types::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

const DEFAULT_PAGE_SIZE: usize = 50;

/// Which page of a list.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Paging")]
pub struct PageQuery {
    /// How many elements at most; 50 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    /// Part of the id or the name, in lower or upper case.
    #[serde(default, deserialize_with = "in_lower_case")]
    q: Option<String>,
}

/// One page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PageOf{T}")]
pub struct ListPage<T> {
    /// In order.
    pub data: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

impl PageQuery {
    /// Whether an element matches the search text.
    pub fn matches_search(&self, id: &str, name: &str) -> bool {
        let Some(wanted) = &self.q else { return true };
        id.to_lowercase().contains(wanted) || name.to_lowercase().contains(wanted)
    }

    /// The elements of this page, ordered by key. Keys must be unique.
    pub fn take_page<E, T>(
        &self,
        elements: impl Iterator<Item = E>,
        key: impl Fn(&E) -> String,
        show: impl Fn(E) -> T,
    ) -> Result<ListPage<T>, Problem> {
        let after = self.cursor.as_deref().map(decode_cursor).transpose()?;
        let limit = self.limit.unwrap_or(DEFAULT_PAGE_SIZE);
        let mut rest: Vec<(String, E)> = elements
            .map(|element| (key(&element), element))
            .filter(|(key, _)| after.as_ref().is_none_or(|after| after < key))
            .collect();
        let has_more = limit < rest.len();
        if has_more {
            // Sort only the elements of this page: the list may have 100,000 more.
            rest.select_nth_unstable_by(limit, |one, two| one.0.cmp(&two.0));
            rest.truncate(limit);
        }
        rest.sort_unstable_by(|one, two| one.0.cmp(&two.0));
        let last = rest.last().filter(|_| has_more);
        let next_cursor = last.map(|(key, _)| URL_SAFE_NO_PAD.encode(key));
        Ok(ListPage {
            data: rest.into_iter().map(|(_, element)| show(element)).collect(),
            next_cursor,
        })
    }
}

impl<E> ListPage<E> {
    /// Converts each element.
    pub fn map_elements<T>(self, show: impl FnMut(E) -> T) -> ListPage<T> {
        let Self { data, next_cursor } = self;
        ListPage { data: data.into_iter().map(show).collect(), next_cursor }
    }
}

/// Lowercases the search text once for the whole list.
fn in_lower_case<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|text| text.to_lowercase()))
}

fn decode_cursor(text: &str) -> Result<String, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        Problem::invalid_field("cursor", "is none of ours: take `next_cursor` as it is")
    })
}
