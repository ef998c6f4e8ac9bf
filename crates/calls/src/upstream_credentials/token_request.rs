//! A token request: from which server, for which audience, and the failure to report if it fails.

use model::{
    Agent, CallFailure, Digest, DisplayName, ErrorCode, McpClient, SecretRef, SourceId,
    SourceProfile, SourceSettings, TokenClient, UpstreamAuth,
};
use oauth::{ACCESS_TOKEN_TYPE, OAuthError};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use upstream::http::{HttpError, Url};

use super::{CertificateWithKey, read_secret};
use crate::principal::principal_key;
use crate::secrets::SecretStore;

/// A token to request.
pub(super) struct TokenRequest<'a> {
    auth: &'a UpstreamAuth,
    pub(super) issuer: TokenIssuer<'a>,
    /// The agent whose token is exchanged. Without one, the token is toolcrib's own, even where others are exchanged:
    /// discovery at an MCP server needs it.
    pub(super) subject: Option<(&'a Agent, &'a SecretString)>,
}

/// The server that issues the token, and the parameters of the request.
pub(super) enum TokenIssuer<'a> {
    /// The configured authorization server.
    Configured { client: &'a TokenClient, whom: TokenTarget<'a>, kinds: ExchangeTokenTypes<'a> },
    /// The one that the MCP server at this URL names; with the identity provider for agents, and the token type it
    /// accepts.
    NamedByMcpServer {
        url: &'a Url,
        client: &'a McpClient,
        vouching: Option<(&'a TokenClient, &'a str)>,
    },
}

/// The audience or resource of a token.
#[derive(Clone, Copy, Default)]
pub(super) struct TokenTarget<'a> {
    pub(super) audience: Option<&'a str>,
    pub(super) resource: Option<&'a str>,
}

/// The type of the offered token and of the requested one.
#[derive(Clone, Copy)]
pub(super) struct ExchangeTokenTypes<'a> {
    pub(super) offered: &'a str,
    pub(super) requested: &'a str,
}

/// The client secrets with which toolcrib authenticates.
pub(super) struct ClientSecrets {
    /// `None` where a certificate authenticates instead.
    pub(super) own: Option<SecretString>,
    /// For the identity provider that asserts the agent's identity.
    pub(super) identity_provider: Option<SecretString>,
}

impl<'a> TokenRequest<'a> {
    pub(super) fn from_profile(
        profile: &'a SourceProfile,
        auth: &'a UpstreamAuth,
        subject: Option<(&'a Agent, &'a SecretString)>,
    ) -> Option<Self> {
        let url = match &profile.settings {
            SourceSettings::Mcp { command: None, .. } => profile.url.as_ref(),
            _ => None,
        };
        let of_server = |client, vouching| {
            Some(TokenIssuer::NamedByMcpServer { url: url?.as_url(), client, vouching })
        };
        let giver = match auth {
            UpstreamAuth::None
            | UpstreamAuth::ApiKey { .. }
            | UpstreamAuth::Basic { .. }
            | UpstreamAuth::Bearer { .. } => None,
            UpstreamAuth::ClientCredentials { client, audience } => {
                let whom = TokenTarget { audience: audience.as_deref(), resource: None };
                Some(TokenIssuer::Configured {
                    client,
                    whom,
                    kinds: exchange_token_types(None, None),
                })
            }
            UpstreamAuth::TokenExchange {
                client,
                audience,
                resource,
                subject_token_type: given,
                requested_token_type: requested,
            } => {
                let audience = audience.as_ref().map(DisplayName::as_str);
                let whom = TokenTarget { audience, resource: resource.as_deref() };
                let kinds = exchange_token_types(given.as_deref(), requested.as_deref());
                Some(TokenIssuer::Configured { client, whom, kinds })
            }
            UpstreamAuth::McpOauth { client } => of_server(client, None),
            UpstreamAuth::McpEnterprise { client, identity_provider, subject_token_type } => {
                let given = subject_token_type.as_deref().unwrap_or(ACCESS_TOKEN_TYPE);
                of_server(client, Some((identity_provider, given)))
            }
        };
        Some(Self { auth, issuer: giver?, subject })
    }

    pub(super) async fn read_client_secrets(
        &self,
        source: &SourceId,
        secrets: Option<&SecretStore>,
    ) -> Result<ClientSecrets, CallFailure> {
        let (own, vouching) = match self.issuer {
            TokenIssuer::Configured { client, .. } => (client.client_secret.as_ref(), None),
            TokenIssuer::NamedByMcpServer { client, vouching, .. } => {
                let of_provider =
                    vouching.and_then(|(provider, _)| provider.client_secret.as_ref());
                (Some(&client.client_secret), of_provider)
            }
        };
        let read = async |secret: Option<&SecretRef>| match secret {
            Some(secret) => read_secret(source, secret, secrets).await.map(Some),
            None => Ok(None),
        };
        Ok(ClientSecrets { own: read(own).await?, identity_provider: read(vouching).await? })
    }

    /// A digest of everything the token depends on. Two tokens of one agent may allow different things, and a replaced
    /// secret or certificate was replaced for a reason: the digest covers all of them and reveals none.
    pub(super) fn cache_key(
        &self,
        source: &SourceId,
        proofs: &ClientSecrets,
        certificate: Option<&CertificateWithKey>,
    ) -> Digest {
        let subject =
            self.subject.map(|(agent, token)| (principal_key(agent), token.expose_secret()));
        let (server, certificate) =
            (self.mcp_server_url(), certificate.map(CertificateWithKey::pem_texts));
        let parts = json!([source, self.auth, server, proofs.secret_texts(), certificate, subject]);
        Digest::of_bytes(parts.to_string())
    }

    /// The MCP server that names the issuer.
    pub(super) fn mcp_server_url(&self) -> Option<&'a Url> {
        match self.issuer {
            TokenIssuer::Configured { .. } => None,
            TokenIssuer::NamedByMcpServer { url, .. } => Some(url),
        }
    }

    fn error_code(&self) -> ErrorCode {
        match self.subject {
            Some(_) => ErrorCode::TokenExchangeFailed,
            None => ErrorCode::ClientCredentialsFailed,
        }
    }

    fn failure_summary(&self) -> &'static str {
        match self.subject {
            Some(_) => "the agent's token cannot be exchanged for one of the source",
            None => "there is no token for the source",
        }
    }

    /// Whether toolcrib requested a token of its own where tokens are exchanged, and the server supports no other
    /// grant.
    pub(super) fn is_for_agents_only(&self, error: &OAuthError) -> bool {
        let is_exchange = matches!(self.auth, UpstreamAuth::TokenExchange { .. });
        let is_refused = matches!(error, OAuthError::Refused { code, .. }
            if matches!(&**code, "unauthorized_client" | "unsupported_grant_type"));
        is_exchange && self.subject.is_none() && is_refused
    }

    /// The cause is only for admins.
    pub(super) fn token_failure(
        &self,
        source: &SourceId,
        cause: &dyn std::error::Error,
    ) -> CallFailure {
        let cause = model::printable_line(&model::format_error_chain(cause));
        tracing::warn!(%source, "{} `{source}`: {cause}", self.failure_summary());
        CallFailure::new(self.error_code(), self.failure_summary(), false).with_cause(cause)
    }

    pub(super) fn oauth_failure(&self, source: &SourceId, error: &OAuthError) -> CallFailure {
        let failure = self.token_failure(source, error);
        let what = self.failure_summary();
        match error {
            OAuthError::Refused { code, .. } => {
                let message = format!("{what}: the authorization server says `{code}`");
                let retryable = matches!(&**code, "temporarily_unavailable" | "server_error");
                CallFailure { message, retryable, ..failure }
            }
            OAuthError::NotTokenEndpoint { status, .. } => {
                let message = format!("{what}: the authorization server answers with {status}");
                CallFailure { message, ..failure }
            }
            OAuthError::TemporarilyUnavailable { status, retry_after, .. } => {
                let message = format!("{what}: the authorization server answers with {status}");
                let retry_after = *retry_after;
                CallFailure { message, retryable: true, retry_after, ..failure }
            }
            OAuthError::Http { source, .. } => {
                let is_refused = matches!(**source, HttpError::EgressDenied(_));
                let message = format!("{what}: the authorization server does not answer");
                CallFailure { message, retryable: !is_refused, ..failure }
            }
            _ => failure,
        }
    }
}

fn exchange_token_types<'a>(
    given: Option<&'a str>,
    requested: Option<&'a str>,
) -> ExchangeTokenTypes<'a> {
    let [given, requested] = [given, requested].map(|kind| kind.unwrap_or(ACCESS_TOKEN_TYPE));
    ExchangeTokenTypes { offered: given, requested }
}

impl ClientSecrets {
    pub(super) fn secret_texts(&self) -> (Option<&str>, Option<&str>) {
        let own = self.own.as_ref().map(|secret| secret.expose_secret());
        (own, self.identity_provider.as_ref().map(|secret| secret.expose_secret()))
    }
}
