//! Checks the scopes of an agent's token before a call.
//!
//! The scopes that an admin set for the tool take precedence, then those of the source, then those of the
//! specification. The specification's scopes count only with token exchange, which uses the agent's own rights, or if
//! an admin enables them. Otherwise they describe a token of ours. An operator can declare that one scope of an issuer
//! includes others.

use std::collections::BTreeSet;

use catalog::source::Source;
use catalog::tool::Tool;
use model::{Agent, CallFailure, ErrorCode, SourceSettings};
use serde_json::{Map, Value};

use super::AgentView;

impl AgentView {
    /// Rejects an agent whose token lacks required scopes, and names them all.
    pub(super) fn check_scopes(
        &self,
        source: &Source,
        tool: Option<&Tool>,
    ) -> Result<(), CallFailure> {
        let required = required_scopes(source, tool);
        if required.is_empty() {
            return Ok(());
        }
        let mut has = token_scopes(&self.agent);
        let is_enough = |has: &BTreeSet<String>| required.iter().any(|all| all.is_subset(has));
        if is_enough(&has) {
            return Ok(());
        }
        let issuer = self.agent.claims.get("iss").and_then(Value::as_str);
        if let (Some(authenticator), Some(issuer)) = (self.crib.authenticator(), issuer) {
            authenticator.add_included_scopes(issuer, &mut has);
        }
        if is_enough(&has) {
            return Ok(());
        }
        let scopes: Vec<String> = required.into_iter().next().into_iter().flatten().collect();
        let named: Vec<String> = scopes.iter().map(|scope| format!("`{scope}`")).collect();
        let message = format!("this takes a token with these scopes: {}", named.join(", "));
        Err(CallFailure {
            scopes,
            ..CallFailure::new(ErrorCode::InsufficientScope, message, false)
        })
    }
}

/// Alternatives, each of which is sufficient. Empty: no scopes are required.
fn required_scopes(source: &Source, tool: Option<&Tool>) -> Vec<BTreeSet<String>> {
    let by_tool = tool.and_then(|tool| tool.overridden.required_scopes.as_ref());
    if let Some(said) = by_tool.or(source.profile.required_scopes.as_ref()) {
        return vec![said.iter().map(ToString::to_string).collect()];
    }
    let manifest = tool.and_then(Tool::served_manifest);
    let security = manifest.and_then(|manifest| manifest.security.as_ref());
    let is_wanted = match &source.profile.settings {
        SourceSettings::Openapi(settings) => settings.require_scopes,
        _ => false,
    };
    match security {
        Some(security) if is_wanted || source.profile.auth.is_per_agent() => {
            specification_scopes(security.as_str())
        }
        _ => Vec::new(),
    }
}

/// Parses `[{"scheme": {"type": "oauth2", "scopes": ["a"]}}]`, as discovery writes it.
fn specification_scopes(security: &str) -> Vec<BTreeSet<String>> {
    let alternatives: Vec<Map<String, Value>> = serde_json::from_str(security).unwrap_or_default();
    let of_scheme = |scheme: &Value| -> Vec<String> {
        let is_token = matches!(scheme["type"].as_str(), Some("oauth2" | "openIdConnect"));
        let scopes = scheme["scopes"].as_array().filter(|_| is_token).into_iter().flatten();
        scopes.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let all = |schemes: Map<String, Value>| schemes.values().flat_map(of_scheme).collect();
    alternatives.into_iter().map(all).collect()
}

/// The scopes of an agent's token: `scope` as a string (RFC 8693, section 4.2), or `scp` as an array or a string.
fn token_scopes(agent: &Agent) -> BTreeSet<String> {
    let mut scopes = BTreeSet::new();
    for claim in ["scope", "scp"] {
        match agent.claims.get(claim) {
            Some(Value::String(text)) => scopes.extend(text.split(' ').map(str::to_owned)),
            Some(Value::Array(list)) => {
                scopes.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {}
        }
    }
    scopes.remove("");
    scopes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn scopes(claims: Value) -> String {
        let claims = Arc::new(serde_json::from_value(claims).unwrap());
        let scopes = token_scopes(&Agent::new("ada", claims));
        scopes.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn scopes_are_read_from_either_claim() {
        assert_eq!(scopes(json!({"scope": "b  a", "sub": "ada"})), "a b");
        assert_eq!(scopes(json!({"scp": ["a", 1, "b c"]})), "a b c");
        assert_eq!(scopes(json!({"scp": "a b"})), "a b");
        assert_eq!(scopes(json!({"scope": ["a"], "scp": {"b": 1}})), "a");
        assert_eq!(scopes(json!({"scopes": "a"})), "");
    }

    #[test]
    fn a_specification_has_alternatives_and_only_token_schemes_have_scopes() {
        let security = json!([
            {"o": {"type": "oauth2", "scopes": ["a", "b"]}, "k": {"type": "apiKey", "scopes": ["x"]}},
            {"i": {"type": "openIdConnect", "scopes": ["c"]}},
        ]);
        let sets = |all: &[&[&str]]| -> Vec<BTreeSet<String>> {
            all.iter().map(|all| all.iter().map(ToString::to_string).collect()).collect()
        };
        assert_eq!(specification_scopes(&security.to_string()), sets(&[&["a", "b"], &["c"]]));
        assert_eq!(specification_scopes("[{}]"), sets(&[&[]]));
        assert_eq!(specification_scopes("[]"), sets(&[]));
    }
}
