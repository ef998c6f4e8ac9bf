//! A token that is wished for: from whom, for whom, and what to say if there is none.

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

/// A token that is wished for.
pub(super) struct Wish<'a> {
    auth: &'a Auth,
    pub(super) giver: Giver<'a>,
    /// Whose token is exchanged. Without one, the token is our own: also where others are exchanged, to ask an MCP server
    /// what it offers.
    pub(super) subject: Option<(&'a Agent, &'a SecretString)>,
}

/// From whom it is, and what it is asked for with.
pub(super) enum Giver<'a> {
    /// Whom an admin says.
    Named { client: &'a TokenClient, whom: Whom<'a>, kinds: Kinds<'a> },
    /// Whom the MCP server at this url names; with who vouches for agents there, and the kind of token it takes.
    OfServer { url: &'a Url, client: &'a McpClient, vouching: Option<(&'a TokenClient, &'a str)> },
}

/// For whom a token is.
#[derive(Clone, Copy, Default)]
pub(super) struct Whom<'a> {
    pub(super) audience: Option<&'a str>,
    pub(super) resource: Option<&'a str>,
}

/// Which kind of token is given for which.
#[derive(Clone, Copy)]
pub(super) struct Kinds<'a> {
    pub(super) given: &'a str,
    pub(super) requested: &'a str,
}

/// How we prove who we are.
pub(super) struct Proofs {
    /// None where a certificate does.
    pub(super) own: Option<SecretString>,
    /// To whom vouches for agents.
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

    /// Everything that the token depends on. Two tokens of one agent may allow different things, and a secret or a
    /// certificate that was replaced was replaced for a reason: all are in it, as a digest that says nothing about them.
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

    /// The MCP server that says who gives it.
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

    /// Whether we asked for a token of our own where tokens are exchanged, and there is no other way to get one.
    pub(super) fn is_for_agents_alone(&self, error: &OAuthError) -> bool {
        let is_exchange = matches!(self.auth, Auth::TokenExchange { .. });
        let is_refused = matches!(error, OAuthError::Refused { code, .. }
            if matches!(&**code, "unauthorized_client" | "unsupported_grant_type"));
        is_exchange && self.subject.is_none() && is_refused
    }

    /// The cause is for admins.
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
