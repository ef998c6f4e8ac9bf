//! The hosts that tool calls go to. A specification may name any host; calls to a non-public address are rejected
//! unless the source allows that address.

use std::collections::BTreeSet;

use model::{Execution, SourceId, SourceProfile};
use toolcrib::Snapshot;
use upstream::egress::{EgressError, EgressPolicy};
use upstream::http::Url;

/// The root URLs of all hosts that tools of a source call, except hosts that are filled in by call arguments.
pub(crate) fn source_destinations(snapshot: &Snapshot, id: &SourceId) -> BTreeSet<Url> {
    let tools = snapshot.tools().filter(|entry| entry.tool.id.source_id() == id.as_str());
    let manifests = tools.filter_map(|entry| entry.tool.served_manifest());
    let templates = manifests.filter_map(|manifest| match &manifest.execution {
        Execution::SyncHttp(request) | Execution::AsyncPoll { request, .. } => {
            Some(&*request.url_template)
        }
        Execution::McpCall
        | Execution::McpPrompt
        | Execution::McpResource { .. }
        | Execution::McpTemplate { .. }
        | Execution::Builtin
        | Execution::Workflow { .. }
        | Execution::Custom { .. } => None,
    });
    templates.filter_map(root_url).collect()
}

/// The root URL of a template's host; `None` if the host contains a placeholder.
pub(crate) fn root_url(template: &str) -> Option<Url> {
    let (scheme, rest) = template.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    if host.contains("{{") {
        return None;
    }
    Url::parse(&format!("{scheme}://{host}/")).ok()
}

/// Whether calls to this URL are rejected, judged by the URL alone, without a DNS lookup.
pub(crate) fn is_forbidden_destination(profile: &SourceProfile, url: &Url) -> bool {
    let allowed = profile.allow.iter().filter_map(|text| text.parse().ok()).collect();
    let egress = EgressPolicy { allow_private: false, allowed };
    matches!(egress.check_url(url), Err(EgressError::Forbidden { .. }))
}

/// `host:port`, the form in which `allow` lists it.
pub(crate) fn host_and_port(url: &Url) -> String {
    let port = url.port_or_known_default().unwrap_or_default();
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_url_is_known_unless_an_argument_fills_in_the_host() {
        let root = |template| root_url(template).map(|url| url.to_string());
        let known = |url: &str| Some(url.to_owned());
        assert_eq!(root("http://127.0.0.1:9/v1/{{x}}"), known("http://127.0.0.1:9/"));
        assert_eq!(root("https://a.test?q={{x}}"), known("https://a.test/"));
        assert_eq!(root("https://{{x}}.a.test/v1"), None);
        assert_eq!(root("/v1/{{x}}"), None);
    }
}
