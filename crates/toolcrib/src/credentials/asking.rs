//! Fetching a token: from the configured authorization server, or from the one that an MCP server names.

use model::{Digest, McpClient, SourceId, SourceUrl, TokenClient};
use secrecy::ExposeSecret as _;
use serde_json::json;
use upstream::egress::Allowed;
use upstream::http::{HttpClient, Url};
use upstream::mcp::oauth::{
    ACCESS_TOKEN, Grant, Granted, Grants, ID_JAG, OAuthError, OAuthLimits, Offered,
};

use super::tokens::Tokens;
use super::wish::{Giver, Kinds, Proofs, Whom, Wish};

/// Everything that one token request needs.
pub(super) struct Asking<'a> {
    pub(super) tokens: &'a Tokens,
    pub(super) source: &'a SourceId,
    pub(super) wish: &'a Wish<'a>,
    pub(super) proofs: &'a Proofs,
    pub(super) to_upstream: HttpClient,
    pub(super) to_authorities: HttpClient,
    pub(super) allowed: Vec<Allowed>,
}

impl Asking<'_> {
    pub(super) async fn granted(&self) -> Result<Granted, OAuthError> {
        match self.wish.giver {
            Giver::Named { client, whom: Whom { audience, resource }, kinds } => {
                let offered = self.exchanged(kinds).unwrap_or(Offered::Nothing);
                let (client_secret, _) = self.proofs.texts();
                let grant = Grant { client_secret, audience, resource, ..by(client, offered) };
                self.named(client, grant).await
            }
            Giver::OfServer { url, client, vouching } => {
                let granted = self.of_server(url, client, vouching).await;
                granted.inspect_err(|error| {
                    if may_have_moved(error) {
                        self.tokens.look_at_server_again(url);
                    }
                })
            }
        }
    }

    /// Offers the agent's token for exchange, if the request is for an agent.
    fn exchanged<'a>(&'a self, Kinds { given, requested }: Kinds<'a>) -> Option<Offered<'a>> {
        let (_, token) = self.wish.subject?;
        Some(Offered::Token { token: token.expose_secret(), given, requested })
    }

    async fn named(&self, client: &TokenClient, grant: Grant<'_>) -> Result<Granted, OAuthError> {
        let url = client.token_url.as_ref().map(SourceUrl::as_url);
        let issuer = client.issuer.as_deref().unwrap_or_default();
        let grants = self.grants(url.cloned().or_else(|| issuer.parse().ok()));
        let place = match url {
            Some(url) => grants.place(url)?,
            None => self.tokens.place(issuer, &grants).await?,
        };
        let granted = grants.ask(&place, grant).await;
        granted.inspect_err(|error| self.may_be_elsewhere(issuer, error))
    }

    /// Fetches a token from an authorization server that the MCP server names. The agent's token goes only to the
    /// identity provider; the authorization server gets the provider's assertion, and the MCP server the token for
    /// that.
    async fn of_server(
        &self,
        url: &Url,
        client: &McpClient,
        vouching: Option<(&TokenClient, &str)>,
    ) -> Result<Granted, OAuthError> {
        let (client_secret, vouching_secret) = self.proofs.texts();
        let limits = OAuthLimits::default();
        let to_upstream =
            Grants { client: self.to_upstream.clone(), limits, trusts_plain_http: false };
        let protected = self.tokens.protected(url, &to_upstream).await?;
        let bound = json!([self.source, url, client.client_id, client_secret]);
        let bound = Digest::of(bound.to_string());
        let known = client.issuer.clone().or_else(|| self.tokens.bound(&bound));
        let issuer = protected.issuer(known.as_deref())?;
        let grants = self.grants(issuer.parse().ok());
        let place = self.tokens.place(issuer, &grants).await?;
        let (resource, scopes) = (
            Some(protected.resource.as_str()),
            match &*client.scopes {
                [] => &*protected.scopes,
                scopes => scopes,
            },
        );
        let given = vouching.map_or(ACCESS_TOKEN, |(_, given)| given);
        let offered = self.exchanged(Kinds { given, requested: ID_JAG });
        let assertion = match (vouching.zip(vouching_secret), offered) {
            (Some(((provider, _), secret)), Some(offered)) => {
                let (client_secret, audience) = (Some(secret), Some(issuer));
                let by = by(provider, offered);
                let grant = Grant { client_secret, audience, resource, scopes, ..by };
                Some(self.named(provider, grant).await?.token)
            }
            _ => None,
        };
        self.tokens.bind(bound, issuer);
        let grant = Grant {
            client_id: &client.client_id,
            client_secret,
            proof: client.client_proof,
            offered: assertion.as_deref().map_or(Offered::Nothing, Offered::Assertion),
            audience: None,
            resource,
            scopes,
        };
        let granted = grants.ask(&place, grant).await;
        granted.inspect_err(|error| self.may_be_elsewhere(issuer, error))
    }

    fn may_be_elsewhere(&self, issuer: &str, error: &OAuthError) {
        if may_have_moved(error) {
            self.tokens.look_again(issuer);
        }
    }

    /// Plain HTTP is trusted to hosts that an admin allowed by name: the network there is the admin's own.
    fn grants(&self, to: Option<Url>) -> Grants {
        let trusts = |url: &Url| self.allowed.iter().any(|allowed| allowed.names(url));
        Grants {
            trusts_plain_http: to.as_ref().is_some_and(trusts),
            client: self.to_authorities.clone(),
            limits: OAuthLimits::default(),
        }
    }
}

/// Errors about one agent's token or request. They do not show that the authorization server has moved. Its metadata is
/// shared by all agents, so no single agent may cause it to be forgotten.
const OF_ONE_AGENT: [&str; 8] = [
    "access_denied",
    "consent_required",
    "interaction_required",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "login_required",
];

fn may_have_moved(error: &OAuthError) -> bool {
    match error {
        OAuthError::Refused { code, .. } => !OF_ONE_AGENT.contains(&&**code),
        // The server exists and is overloaded.
        OAuthError::InTrouble { status: 408 | 425 | 429, .. } => false,
        _ => true,
    }
}

/// A grant for this client, without its secret.
fn by<'a>(client: &'a TokenClient, offered: Offered<'a>) -> Grant<'a> {
    Grant {
        client_id: &client.client_id,
        client_secret: None,
        proof: client.client_proof,
        offered,
        audience: None,
        resource: None,
        scopes: &client.scopes,
    }
}
