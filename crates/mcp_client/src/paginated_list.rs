//! Fetches paginated lists completely, within limits. List items are passed on as received.

use std::collections::HashSet;

use limits::low_priority::run_low_priority;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::connection_settings::{McpCallOptions, McpLimits, ServerEra};
use super::dispatch::CallRecipient;
use super::mcp_connection::McpConnection;
use super::negotiation::expect_result;
use super::{McpError, request_headers};

/// A kind of list that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum McpItemKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A complete list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpListing {
    /// The items as received, in order.
    pub items: Vec<Map<String, Value>>,
    /// The omitted items, and why.
    pub warnings: Vec<McpListWarning>,
    /// Other members of the first page: `ttlMs`, `cacheScope`, `_meta`.
    pub extra: Map<String, Value>,
}

/// Why an item was omitted from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpListWarning {
    /// Another item has the same key; the first one is kept.
    Duplicate {
        /// The name or URI of the item.
        key: Box<str>,
    },
    /// The item is not an object, or has no name or URI.
    Unnamed {
        /// The position in the list, from 0.
        index: usize,
    },
    /// The tool cannot be called over HTTP, because its `x-mcp-header` annotations are invalid (SEP-2243).
    InvalidHeaderAnnotation {
        /// The name of the tool.
        key: Box<str>,
        why: &'static str,
    },
}

/// Further warnings are dropped: they would tell nothing new.
const MAX_WARNINGS: usize = 1000;

impl McpItemKind {
    fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items, and the member that identifies an item.
    fn result_keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Tools => ("tools", "name"),
            Self::Prompts => ("prompts", "name"),
            Self::Resources => ("resources", "uri"),
            Self::Templates => ("resourceTemplates", "uriTemplate"),
        }
    }

    fn too_large(self, what: &'static str, limit: usize) -> McpError {
        McpError::AnswerTooLarge { method: self.method().into(), what, limit }
    }

    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }
}

impl McpConnection {
    /// Fetches all pages of a list within the deadline of the call. The request belongs to no caller, so notifications
    /// are not delivered. If the server does not announce the capability, the list is empty.
    pub async fn fetch_list(
        &self,
        of: McpItemKind,
        call: McpCallOptions,
    ) -> Result<McpListing, McpError> {
        let capabilities = self.server_description().server.get("capabilities");
        if capabilities.is_none_or(|all| all.get(of.capability()).is_none()) {
            return Ok(McpListing::default());
        }
        let deadline = call.deadline_or_default();
        let call = McpCallOptions { notifications: None, ..call };
        let late = |_| McpError::Timeout { method: of.method().into(), deadline };
        timeout(deadline, self.fetch_pages(of, &call)).await.map_err(late)?
    }

    async fn fetch_pages(
        &self,
        of: McpItemKind,
        call: &McpCallOptions,
    ) -> Result<McpListing, McpError> {
        let (method, limits) = (of.method(), *self.limits());
        let mut gathered = ListCollector::new(of, self.is_over_modern_http());
        let mut cursors = HashSet::new();
        let mut params = Map::new();
        for _ in 0..limits.max_pages {
            let page = expect_result(
                method,
                self.send_request(method, &mut params, call, CallRecipient::Internal).await?,
            )?;
            let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            // Collecting and dropping a long page takes long too, so it runs on the low-priority pool.
            gathered = run_low_priority(move || gathered.with_page(page, &limits)).await?;
            let Some(next) = next.filter(|next| !next.is_empty()) else {
                return Ok(gathered.listing);
            };
            if !cursors.insert(next.clone()) {
                return Err(McpError::CursorLoop { method: method.into() });
            }
            params = Map::from_iter([("cursor".to_owned(), json!(next))]);
        }
        Err(of.too_large("pages", limits.max_pages))
    }

    fn is_over_modern_http(&self) -> bool {
        self.server_description().era == ServerEra::Modern && self.stderr_text().is_none()
    }
}

struct ListCollector {
    kind: McpItemKind,
    checks_headers: bool,
    listing: McpListing,
    keys: HashSet<Box<str>>,
    bytes: usize,
    seen_items: usize,
    has_first_page: bool,
}

impl ListCollector {
    fn new(of: McpItemKind, is_over_modern_http: bool) -> Self {
        let checks_headers = is_over_modern_http && of == McpItemKind::Tools;
        let (listing, keys) = (McpListing::default(), HashSet::new());
        Self {
            kind: of,
            checks_headers,
            listing,
            keys,
            bytes: 0,
            seen_items: 0,
            has_first_page: false,
        }
    }

    /// Adds a page. Fails if the list exceeds a limit.
    fn with_page(mut self, page: Map<String, Value>, limits: &McpLimits) -> Result<Self, McpError> {
        self.bytes += page.get("nextCursor").map_or(0, estimate_memory);
        self.add_items(page)?;
        if limits.max_items < self.listing.items.len() {
            return Err(self.kind.too_large("items", limits.max_items));
        }
        if limits.max_list_bytes < self.bytes {
            return Err(self.kind.too_large("bytes", limits.max_list_bytes));
        }
        Ok(self)
    }

    fn add_items(&mut self, mut page: Map<String, Value>) -> Result<(), McpError> {
        let (member, _) = self.kind.result_keys();
        let Some(Value::Array(items)) = page.shift_remove(member) else {
            return Err(McpError::unreadable(self.kind.method(), "there is no list in it"));
        };
        for item in items {
            self.bytes += estimate_memory(&item);
            self.seen_items += 1;
            match self.check_item(&item) {
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
        if !std::mem::replace(&mut self.has_first_page, true) {
            page.shift_remove("nextCursor");
            self.listing.extra = page;
        }
        Ok(())
    }

    fn check_item(&mut self, item: &Value) -> Option<McpListWarning> {
        let (_, key) = self.kind.result_keys();
        let Some(key) = item.get(key).and_then(Value::as_str) else {
            return Some(McpListWarning::Unnamed { index: self.seen_items - 1 });
        };
        if self.checks_headers
            && let Some(why) = item.get("inputSchema").and_then(request_headers::annotation_error)
        {
            return Some(McpListWarning::InvalidHeaderAnnotation { key: key.into(), why });
        }
        let is_new = self.keys.insert(key.into());
        (!is_new).then(|| McpListWarning::Duplicate { key: key.into() })
    }
}

/// A rough estimate of the memory that a value takes, in bytes.
fn estimate_memory(value: &Value) -> usize {
    const VALUE: usize = 32;
    VALUE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(estimate_memory).sum(),
            Value::Object(members) => {
                members.iter().map(|(name, value)| name.len() + estimate_memory(value)).sum()
            }
        }
}
