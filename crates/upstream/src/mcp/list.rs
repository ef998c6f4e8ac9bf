//! Fetches paginated lists completely, within limits. List items are passed on as received.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::connection::Connection;
use super::hearing::Whose;
use super::open::accepted;
use super::settings::{Call, Era, McpLimits};
use super::{McpError, headers};
use crate::aside;

/// A kind of list that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListOf {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A complete list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The items as received, in order.
    pub items: Vec<Map<String, Value>>,
    /// The omitted items, and why.
    pub warnings: Vec<ListWarning>,
    /// Other members of the first page: `ttlMs`, `cacheScope`, `_meta`.
    pub beside: Map<String, Value>,
}

/// Why an item was omitted from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListWarning {
    /// Another item has the same key; the first one is kept.
    Twice {
        /// The name or URI of the item.
        key: Box<str>,
    },
    /// The item is not an object, or has no name or URI.
    Nameless {
        /// The position in the list, from 0.
        place: usize,
    },
    /// The tool cannot be called over HTTP, because its `x-mcp-header` annotations are invalid (SEP-2243).
    Header {
        /// The name of the tool.
        key: Box<str>,
        /// The violation.
        why: &'static str,
    },
}

/// Further warnings are dropped: they would tell nothing new.
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

    /// The member of the result that holds the items, and the member that identifies an item.
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
    /// Fetches all pages of a list within the deadline of the call. The request belongs to no caller, so notifications
    /// are not delivered. If the server does not announce the capability, the list is empty.
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
            // Collecting and dropping a long page takes long too, so it runs on the low-priority pool.
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

    /// Adds a page. Fails if the list exceeds a limit.
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

/// A rough estimate of the memory that a value takes, in bytes.
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
