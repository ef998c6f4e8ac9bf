//! A token request: from which server, for which audience, and the failure to report if it fails.

use model::{
    Agent, Auth, Digest, ErrorCode, Failure, McpClient, Name, SecretRef, Settings, SourceId,
};
use model::{SourceProfile, TokenClient};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use upstream::http::{HttpError, Url};
use upstream::mcp::oauth::{ACCESS_TOKEN, OAuthError};

use super::{Certificate, read};
use crate::secrets::Secrets;
use crate::upstreams::whose;

/// A token to request.
pub(super) struct Wish<'a> {
    auth: &'a Auth,
    pub(super) giver: Giver<'a>,
    /// The agent whose token is exchanged. Without one, the token is toolcrib's own, even where others are exchanged:
    /// discovery at an MCP server needs it.
    pub(super) subject: Option<(&'a Agent, &'a SecretString)>,
}

/// The server that issues the token, and the parameters of the request.
pub(super) enum Giver<'a> {
    /// The configured authorization server.
    Named { client: &'a TokenClient, whom: Whom<'a>, kinds: Kinds<'a> },
    /// The one that the MCP server at this URL names; with the identity provider for agents, and the token type it
    /// accepts.
    OfServer { url: &'a Url, client: &'a McpClient, vouching: Option<(&'a TokenClient, &'a str)> },
}

/// The audience or resource of a token.
#[derive(Clone, Copy, Default)]
pub(super) struct Whom<'a> {
    pub(super) audience: Option<&'a str>,
    pub(super) resource: Option<&'a str>,
}

/// The type of the offered token and of the requested one.
#[derive(Clone, Copy)]
pub(super) struct Kinds<'a> {
    pub(super) given: &'a str,
    pub(super) requested: &'a str,
}

/// The client secrets with which toolcrib authenticates.
pub(super) struct Proofs {
    /// `None` where a certificate authenticates instead.
    pub(super) own: Option<SecretString>,
    /// For the identity provider that asserts the agent's identity.
    pub(super) vouching: Option<SecretString>,
}

impl<'a> Wish<'a> {
    pub(super) fn of(
        profile: &'a SourceProfile,
        auth: &'a Auth,
        subject: Option<(&'a Agent, &'a SecretString)>,
    ) -> Option<Self> {
        let url = match &profile.settings {
            Settings::Mcp { command: None, .. } => profile.url.as_ref(),
            _ => None,
        };
        let of_server =
            |client, vouching| Some(Giver::OfServer { url: url?.as_url(), client, vouching });
        let giver = match auth {
            Auth::None | Auth::ApiKey { .. } | Auth::Basic { .. } | Auth::Bearer { .. } => None,
            Auth::ClientCredentials { client, audience } => {
                let whom = Whom { audience: audience.as_deref(), resource: None };
                Some(Giver::Named { client, whom, kinds: kinds(None, None) })
            }
            Auth::TokenExchange {
                client,
                audience,
                resource,
                subject_token_type: given,
                requested_token_type: requested,
            } => {
                let audience = audience.as_ref().map(Name::as_str);
                let whom = Whom { audience, resource: resource.as_deref() };
                let kinds = kinds(given.as_deref(), requested.as_deref());
                Some(Giver::Named { client, whom, kinds })
            }
            Auth::McpOauth { client } => of_server(client, None),
            Auth::McpEnterprise { client, identity_provider, subject_token_type } => {
                let given = subject_token_type.as_deref().unwrap_or(ACCESS_TOKEN);
                of_server(client, Some((identity_provider, given)))
            }
        };
        Some(Self { auth, giver: giver?, subject })
    }

    pub(super) async fn proofs(
        &self,
        source: &SourceId,
        secrets: Option<&Secrets>,
    ) -> Result<Proofs, Failure> {
        let (own, vouching) = match self.giver {
            Giver::Named { client, .. } => (client.client_secret.as_ref(), None),
            Giver::OfServer { client, vouching, .. } => {
                let of_provider =
                    vouching.and_then(|(provider, _)| provider.client_secret.as_ref());
                (Some(&client.client_secret), of_provider)
            }
        };
        let read = async |secret: Option<&SecretRef>| match secret {
            Some(secret) => read(source, secret, secrets).await.map(Some),
            None => Ok(None),
        };
        Ok(Proofs { own: read(own).await?, vouching: read(vouching).await? })
    }

    /// A digest of everything the token depends on. Two tokens of one agent may allow different things, and a replaced
    /// secret or certificate was replaced for a reason: the digest covers all of them and reveals none.
    pub(super) fn key(
        &self,
        source: &SourceId,
        proofs: &Proofs,
        certificate: Option<&Certificate>,
    ) -> Digest {
        let subject = self.subject.map(|(agent, token)| (whose(agent), token.expose_secret()));
        let (server, certificate) = (self.server(), certificate.map(Certificate::pem));
        let parts = json!([source, self.auth, server, proofs.texts(), certificate, subject]);
        Digest::of(parts.to_string())
    }

    /// The MCP server that names the issuer.
    pub(super) fn server(&self) -> Option<&'a Url> {
        match self.giver {
            Giver::Named { .. } => None,
            Giver::OfServer { url, .. } => Some(url),
        }
    }

    fn code(&self) -> ErrorCode {
        match self.subject {
            Some(_) => ErrorCode::TokenExchangeFailed,
            None => ErrorCode::ClientCredentialsFailed,
        }
    }

    fn what(&self) -> &'static str {
        match self.subject {
            Some(_) => "the agent's token cannot be exchanged for one of the source",
            None => "there is no token for the source",
        }
    }

    /// Whether toolcrib requested a token of its own where tokens are exchanged, and the server supports no other
    /// grant.
    pub(super) fn is_for_agents_alone(&self, error: &OAuthError) -> bool {
        let is_exchange = matches!(self.auth, Auth::TokenExchange { .. });
        let is_refused = matches!(error, OAuthError::Refused { code, .. }
            if matches!(&**code, "unauthorized_client" | "unsupported_grant_type"));
        is_exchange && self.subject.is_none() && is_refused
    }

    /// The cause is only for admins.
    pub(super) fn failed(&self, source: &SourceId, cause: &dyn std::error::Error) -> Failure {
        let cause = model::plain_line(&model::sentence(cause));
        tracing::warn!(%source, "{} `{source}`: {cause}", self.what());
        Failure::new(self.code(), self.what(), false).because(cause)
    }

    pub(super) fn refused(&self, source: &SourceId, error: &OAuthError) -> Failure {
        let failure = self.failed(source, error);
        let what = self.what();
        match error {
            OAuthError::Refused { code, .. } => {
                let message = format!("{what}: the authorization server says `{code}`");
                let retryable = matches!(&**code, "temporarily_unavailable" | "server_error");
                Failure { message, retryable, ..failure }
            }
            OAuthError::Status { status, .. } => {
                let message = format!("{what}: the authorization server answers with {status}");
                Failure { message, ..failure }
            }
            OAuthError::InTrouble { status, retry_after, .. } => {
                let message = format!("{what}: the authorization server answers with {status}");
                let retry_after = *retry_after;
                Failure { message, retryable: true, retry_after, ..failure }
            }
            OAuthError::Http { source, .. } => {
                let is_refused = matches!(**source, HttpError::Refused(_));
                let message = format!("{what}: the authorization server does not answer");
                Failure { message, retryable: !is_refused, ..failure }
            }
            _ => failure,
        }
    }
}

fn kinds<'a>(given: Option<&'a str>, requested: Option<&'a str>) -> Kinds<'a> {
    let [given, requested] = [given, requested].map(|kind| kind.unwrap_or(ACCESS_TOKEN));
    Kinds { given, requested }
}

impl Proofs {
    pub(super) fn texts(&self) -> (Option<&str>, Option<&str>) {
        let own = self.own.as_ref().map(|secret| secret.expose_secret());
        (own, self.vouching.as_ref().map(|secret| secret.expose_secret()))
    }
}
