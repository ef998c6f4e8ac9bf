//! Everything a server lists, page by page, within bounds. What is in a list is handed over as it came.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::connection::Connection;
use super::hearing::Whose;
use super::open::accepted;
use super::settings::{Call, Era, McpLimits};
use super::{McpError, headers};
use crate::aside;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum ListOf {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A whole list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// As they came, in their order.
    pub items: Vec<Map<String, Value>>,
    /// What was left out, and why.
    pub warnings: Vec<ListWarning>,
    /// What else the first page says: `ttlMs`, `cacheScope`, `_meta`.
    pub beside: Map<String, Value>,
}

/// Something that was left out of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWarning {
    /// The first one with a key stays.
    Twice {
        /// Its name, or its address.
        key: Box<str>,
    },
    /// It is no object, or has no name or address to go by.
    Nameless {
        /// Its place in the list, from 0.
        place: usize,
    },
    /// Over HTTP nobody could call it: its `x-mcp-header` breaks the rules (SEP-2243).
    Header {
        /// Its name.
        key: Box<str>,
        /// What is wrong.
        why: &'static str,
    },
}

/// After so many, further ones of a kind say nothing new.
const MAX_WARNINGS: usize = 1000;

impl ListOf {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member of the result with the items, and that of an item which tells it from others.
    fn members(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Prompts => ("prompts", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
        }
    }

    fn too_much(self, what: &'static str, limit: usize) -> McpError {
        McpError::TooMuch { method: self.method().into(), what, limit }
    }

    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }
}

impl Connection {
    /// All pages of a list. The deadline of the call is for all of them; it is made for no caller in particular, so
    /// nothing is heard on the way. A server that does not say that it has such things is not asked for them.
    pub async fn list(&self, of: ListOf, call: Call) -> Result<Listing, McpError> {
        let capabilities = self.about().server.get("capabilities");
        if capabilities.is_none_or(|all| all.get(of.capability()).is_none()) {
            return Ok(Listing::default());
        }
        let deadline = call.time();
        let call = Call { heard: None, ..call };
        let late = |_| McpError::Timeout { method: of.method().into(), deadline };
        timeout(deadline, self.pages(of, &call)).await.map_err(late)?
    }

    async fn pages(&self, of: ListOf, call: &Call) -> Result<Listing, McpError> {
        let (method, limits) = (of.method(), *self.limits());
        let mut gathered = Gathered::new(of, self.is_over_modern_http());
        let mut cursors = HashSet::new();
        let mut params = Map::new();
        for _ in 0..limits.max_pages {
            let page = accepted(method, self.run(method, &mut params, call, Whose::Ours).await?)?;
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            // Not only what is read takes long, but what is thrown away too.
            gathered = aside(move || gathered.with(page, &limits)).await?;
            let Some(next) = next.filter(|next| !next.is_empty()) else {
                return Ok(gathered.listing);
            };
            if !cursors.insert(next.clone()) {
                return Err(McpError::Circle { method: method.into() });
            }
            params = Map::from_iter([("cursor".to_owned(), json!(next))]);
        }
        Err(of.too_much("pages", limits.max_pages))
    }

    fn is_over_modern_http(&self) -> bool {
        self.about().era == Era::Modern && self.stderr().is_none()
    }
}

struct Gathered {
    of: ListOf,
    checks_headers: bool,
    listing: Listing,
    keys: HashSet<Box<str>>,
    bytes: usize,
    seen: usize,
    has_first: bool,
}

impl Gathered {
    fn new(of: ListOf, is_over_modern_http: bool) -> Self {
        let checks_headers = is_over_modern_http && of == ListOf::Tools;
        let (listing, keys) = (Listing::default(), HashSet::new());
        Self { of, checks_headers, listing, keys, bytes: 0, seen: 0, has_first: false }
    }

    /// With one page more, if that is not too much.
    fn with(mut self, page: Map<String, Value>, limits: &McpLimits) -> Result<Self, McpError> {
        self.bytes += page.get("nextCursor").map_or(0, weight);
        self.add(page)?;
        if limits.max_items < self.listing.items.len() {
            return Err(self.of.too_much("items", limits.max_items));
        }
        if limits.max_list < self.bytes {
            return Err(self.of.too_much("bytes", limits.max_list));
        }
        Ok(self)
    }

    fn add(&mut self, mut page: Map<String, Value>) -> Result<(), McpError> {
        let (member, _) = self.of.members();
        let Some(Value::Array(items)) = page.shift_remove(member) else {
            return Err(McpError::unreadable(self.of.method(), "there is no list in it"));
        };
        for item in items {
            self.bytes += weight(&item);
            self.seen += 1;
            match self.complaint(&item) {
                None => match item {
                    Value::Object(item) => self.listing.items.push(item),
                    _ => continue,
                },
                Some(warning) if self.listing.warnings.len() < MAX_WARNINGS => {
                    self.listing.warnings.push(warning);
                }
                Some(_) => {}
            }
        }
        if !std::mem::replace(&mut self.has_first, true) {
            page.shift_remove("nextCursor");
            self.listing.beside = page;
        }
        Ok(())
    }

    fn complaint(&mut self, item: &Value) -> Option<ListWarning> {
        let (_, key) = self.of.members();
        let Some(key) = item.get(key).and_then(Value::as_str) else {
            return Some(ListWarning::Nameless { place: self.seen - 1 });
        };
        if self.checks_headers
            && let Some(why) = item.get("inputSchema").and_then(headers::complaint)
        {
            return Some(ListWarning::Header { key: key.into(), why });
        }
        let is_new = self.keys.insert(key.into());
        (!is_new).then(|| ListWarning::Twice { key: key.into() })
    }
}

/// About how much memory a value takes.
fn weight(value: &Value) -> usize {
    const VALUE: usize = 32;
    VALUE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| name.len() + weight(value)).sum()
            }
        }
}
