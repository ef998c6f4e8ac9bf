//! Fetching a token: from the configured authorization server, or from the one that an MCP server names.

use model::{Digest, McpClient, SourceId, SourceUrl, TokenClient};
use oauth::{
    ACCESS_TOKEN_TYPE, GrantClient, GrantSubject, ID_JAG_TYPE, IssuedToken, OAuthError,
    OAuthLimits, TokenGrant,
};
use secrecy::ExposeSecret as _;
use serde_json::json;
use upstream::egress::AllowedDestination;
use upstream::http::{HttpClient, Url};

use super::token_cache::TokenCache;
use super::token_request::{
    ClientSecrets, ExchangeTokenTypes, TokenIssuer, TokenRequest, TokenTarget,
};

/// Everything that one token request needs.
pub(super) struct TokenFetch<'a> {
    pub(super) tokens: &'a TokenCache,
    pub(super) source: &'a SourceId,
    pub(super) wish: &'a TokenRequest<'a>,
    pub(super) proofs: &'a ClientSecrets,
    pub(super) upstream_client: HttpClient,
    pub(super) authority_client: HttpClient,
    pub(super) allowed: Vec<AllowedDestination>,
}

impl TokenFetch<'_> {
    pub(super) async fn fetch_token(&self) -> Result<IssuedToken, OAuthError> {
        match self.wish.issuer {
            TokenIssuer::Configured { client, whom: TokenTarget { audience, resource }, kinds } => {
                let offered = self.offer_subject_token(kinds).unwrap_or(GrantSubject::ClientItself);
                let (client_secret, _) = self.proofs.secret_texts();
                let grant = TokenGrant {
                    client_secret,
                    audience,
                    resource,
                    ..client_grant(client, offered)
                };
                self.fetch_from_configured_server(client, grant).await
            }
            TokenIssuer::NamedByMcpServer { url, client, vouching } => {
                let granted = self.fetch_for_mcp_server(url, client, vouching).await;
                granted.inspect_err(|error| {
                    if may_have_moved(error) {
                        self.tokens.forget_server(url);
                    }
                })
            }
        }
    }

    /// Offers the agent's token for exchange, if the request is for an agent.
    fn offer_subject_token<'a>(
        &'a self,
        ExchangeTokenTypes { offered: given, requested }: ExchangeTokenTypes<'a>,
    ) -> Option<GrantSubject<'a>> {
        let (_, token) = self.wish.subject?;
        Some(GrantSubject::Token {
            token: token.expose_secret(),
            subject_type: given,
            requested_type: requested,
        })
    }

    async fn fetch_from_configured_server(
        &self,
        client: &TokenClient,
        grant: TokenGrant<'_>,
    ) -> Result<IssuedToken, OAuthError> {
        let url = client.token_url.as_ref().map(SourceUrl::as_url);
        let issuer = client.issuer.as_deref().unwrap_or_default();
        let grants = self.grants_client(url.cloned().or_else(|| issuer.parse().ok()));
        let place = match url {
            Some(url) => grants.token_endpoint(url)?,
            None => self.tokens.token_endpoint(issuer, &grants).await?,
        };
        let granted = grants.request_token(&place, grant).await;
        granted.inspect_err(|error| self.forget_moved_issuer(issuer, error))
    }

    /// Fetches a token from an authorization server that the MCP server names. The agent's token goes only to the
    /// identity provider; the authorization server gets the provider's assertion, and the MCP server the token for
    /// that.
    async fn fetch_for_mcp_server(
        &self,
        url: &Url,
        client: &McpClient,
        vouching: Option<(&TokenClient, &str)>,
    ) -> Result<IssuedToken, OAuthError> {
        let (client_secret, vouching_secret) = self.proofs.secret_texts();
        let limits = OAuthLimits::default();
        let to_upstream =
            GrantClient { client: self.upstream_client.clone(), limits, trusts_plain_http: false };
        let protected = self.tokens.protected_resource(url, &to_upstream).await?;
        let bound = json!([self.source, url, client.client_id, client_secret]);
        let bound = Digest::of_bytes(bound.to_string());
        let known = client.issuer.clone().or_else(|| self.tokens.bound_issuer(&bound));
        let issuer = protected.select_issuer(known.as_deref())?;
        let grants = self.grants_client(issuer.parse().ok());
        let place = self.tokens.token_endpoint(issuer, &grants).await?;
        let (resource, scopes) = (
            Some(protected.resource.as_str()),
            match &*client.scopes {
                [] => &*protected.scopes,
                scopes => scopes,
            },
        );
        let given = vouching.map_or(ACCESS_TOKEN_TYPE, |(_, given)| given);
        let offered =
            self.offer_subject_token(ExchangeTokenTypes { offered: given, requested: ID_JAG_TYPE });
        let assertion = match (vouching.zip(vouching_secret), offered) {
            (Some(((provider, _), secret)), Some(offered)) => {
                let (client_secret, audience) = (Some(secret), Some(issuer));
                let by = client_grant(provider, offered);
                let grant = TokenGrant { client_secret, audience, resource, scopes, ..by };
                Some(self.fetch_from_configured_server(provider, grant).await?.token)
            }
            _ => None,
        };
        self.tokens.bind_issuer(bound, issuer);
        let grant = TokenGrant {
            client_id: &client.client_id,
            client_secret,
            proof: client.client_proof,
            subject: assertion
                .as_deref()
                .map_or(GrantSubject::ClientItself, GrantSubject::Assertion),
            audience: None,
            resource,
            scopes,
        };
        let granted = grants.request_token(&place, grant).await;
        granted.inspect_err(|error| self.forget_moved_issuer(issuer, error))
    }

    fn forget_moved_issuer(&self, issuer: &str, error: &OAuthError) {
        if may_have_moved(error) {
            self.tokens.forget_issuer(issuer);
        }
    }

    /// Plain HTTP is trusted to hosts that an admin allowed by name: the network there is the admin's own.
    fn grants_client(&self, to: Option<Url>) -> GrantClient {
        let trusts = |url: &Url| self.allowed.iter().any(|allowed| allowed.matches_url(url));
        GrantClient {
            trusts_plain_http: to.as_ref().is_some_and(trusts),
            client: self.authority_client.clone(),
            limits: OAuthLimits::default(),
        }
    }
}

/// Errors about one agent's token or request. They do not show that the authorization server has moved. Its metadata is
/// shared by all agents, so no single agent may cause it to be forgotten.
const PER_AGENT_ERRORS: [&str; 8] = [
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
        OAuthError::Refused { code, .. } => !PER_AGENT_ERRORS.contains(&&**code),
        // The server exists and is overloaded.
        OAuthError::TemporarilyUnavailable { status: 408 | 425 | 429, .. } => false,
        _ => true,
    }
}

/// A grant for this client, without its secret.
fn client_grant<'a>(client: &'a TokenClient, offered: GrantSubject<'a>) -> TokenGrant<'a> {
    TokenGrant {
        client_id: &client.client_id,
        client_secret: None,
        proof: client.client_proof,
        subject: offered,
        audience: None,
        resource: None,
        scopes: &client.scopes,
    }
}
