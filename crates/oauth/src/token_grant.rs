//! Tokens without a user's consent, as an admin configures: client credentials (RFC 6749, section 4.4), token exchange
//! (RFC 8693), and assertions of an identity provider (RFC 7523).

use std::borrow::Cow;
use std::fmt;

use model::ClientProof;
use serde::Deserialize;
use serde_json::Value;
use upstream::http::header::{AUTHORIZATION, HeaderMap};
use upstream::http::origin_text;
use url::form_urlencoded::Serializer;

use super::oauth_requests::{OAuthTransport, invalid_response, parse_document};
use super::oauth_settings::OAuthLimits;
use super::token_endpoint::{
    TOKEN_SUBJECT, TokenFormRequest, basic_auth_header, is_valid_token, parse_lifetime,
    post_token_form, secret_spellings,
};
use super::{HttpClient, OAuthError, Url, authorization_server};

const GRANT_TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The type of the token that is given and, by default, requested (RFC 8693, section 3).
pub const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";
/// The type of token with which an identity provider vouches for a user at exactly one authorization server (Identity
/// Assertion JWT Authorization Grant).
pub const ID_JAG_TYPE: &str = "urn:ietf:params:oauth:token-type:id-jag";
const GRANT_JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// The type of an access token in JWT format.
const JWT_TYPE: &str = "urn:ietf:params:oauth:token-type:jwt";

/// A token endpoint.
#[derive(Clone, Debug)]
pub struct TokenEndpoint {
    url: Url,
    /// The endpoint for clients with a certificate, as the metadata states it (RFC 8705, section 5). It is not
    /// validated yet, because other clients do not need it.
    mtls_url: Option<Box<str>>,
    /// The client authentication that the metadata prefers.
    proof: Option<ClientProof>,
}

/// A request for a token. It has no `Debug`, because it contains secrets.
#[derive(Clone, Copy)]
pub struct TokenGrant<'a> {
    pub client_id: &'a str,
    /// The client secret; without one, the client authenticates with its certificate (RFC 8705, section 2.1).
    pub client_secret: Option<&'a str>,
    /// Where the secret is sent; by default as the metadata states, otherwise in a header.
    pub proof: Option<ClientProof>,
    /// The value exchanged for the token.
    pub subject: GrantSubject<'a>,
    /// The party that the token is for.
    pub audience: Option<&'a str>,
    /// The same as the URL of a resource (RFC 8707).
    pub resource: Option<&'a str>,
    /// The requested scopes.
    pub scopes: &'a [Box<str>],
}

/// The value exchanged for a token.
#[derive(Clone, Copy)]
pub enum GrantSubject<'a> {
    /// Nothing: the token is for the client itself.
    ClientItself,
    /// A user's token.
    Token {
        token: &'a str,
        /// The type of the token.
        subject_type: &'a str,
        /// The requested type of token.
        requested_type: &'a str,
    },
    /// An assertion of the user's identity provider.
    Assertion(&'a str),
}

impl<'a> GrantSubject<'a> {
    fn subject_token(self) -> Option<&'a str> {
        match self {
            Self::ClientItself => None,
            Self::Token { token, .. } | Self::Assertion(token) => Some(token),
        }
    }
}

/// An issued token. Its `Debug` prints no secret.
pub struct IssuedToken {
    pub token: String,
    /// The lifetime in seconds, if the server stated it.
    pub expires_in: Option<u64>,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedToken").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct GrantResponse {
    access_token: String,
    token_type: Option<String>,
    issued_token_type: Option<String>,
    expires_in: Option<Value>,
}

/// Requests tokens: under the client's egress policy, within limits, and encrypted unless plain HTTP is trusted.
#[derive(Clone)]
pub struct GrantClient {
    /// The client for all requests.
    pub client: HttpClient,
    pub limits: OAuthLimits,
    /// Whether plain HTTP to authorization servers on other machines is allowed.
    pub trusts_plain_http: bool,
}

impl GrantClient {
    pub(super) fn transport(&self) -> OAuthTransport<'_> {
        let Self { client, limits, trusts_plain_http } = self;
        OAuthTransport { client, limits: *limits, trusts_plain_http: *trusts_plain_http }
    }

    /// The token endpoint at this URL.
    pub fn token_endpoint(&self, url: &Url) -> Result<TokenEndpoint, OAuthError> {
        let url = self.transport().parse_endpoint("the place for tokens", url.as_str())?;
        Ok(TokenEndpoint { url, mtls_url: None, proof: None })
    }

    /// Finds the token endpoint in the metadata of an issuer (RFC 8414, OpenID Connect Discovery).
    pub async fn discover_endpoint(&self, issuer: &str) -> Result<TokenEndpoint, OAuthError> {
        let server =
            authorization_server::find_authorization_server(self.transport(), issuer).await?;
        let methods = server.metadata.token_endpoint_auth_methods_supported.as_deref();
        let takes = |name: &str| methods.is_some_and(|all| all.iter().any(|method| method == name));
        // Every authorization server must support Basic (RFC 6749, section 2.3.1).
        let is_post = takes("client_secret_post") && !takes("client_secret_basic");
        let with_certificate = server.mtls_token_endpoint().map(Into::into);
        let proof = is_post.then_some(ClientProof::Post);
        Ok(TokenEndpoint { url: server.token_endpoint, mtls_url: with_certificate, proof })
    }

    /// Requests a token once.
    pub async fn request_token(
        &self,
        place: &TokenEndpoint,
        grant: TokenGrant<'_>,
    ) -> Result<IssuedToken, OAuthError> {
        let url = self.endpoint_url(place)?;
        let (headers, form) = grant_form(place, grant)?;
        let mut secrets = secret_spellings(grant.client_secret);
        secrets.extend(grant.subject.subject_token().map(str::to_owned));
        let sent = TokenFormRequest { headers, form, secrets };
        let document = post_token_form(self.transport(), &url, &origin_text(&url), sent).await?;
        check_response(&url, parse_document(TOKEN_SUBJECT, &url, document)?, grant.subject)
    }

    fn endpoint_url<'a>(&self, place: &'a TokenEndpoint) -> Result<Cow<'a, Url>, OAuthError> {
        match &place.mtls_url {
            Some(other) if self.client.has_client_certificate() => self
                .transport()
                .parse_endpoint("the place for tokens with a certificate", other)
                .map(Cow::Owned),
            Some(_) | None => Ok(Cow::Borrowed(&place.url)),
        }
    }
}

fn grant_form(
    place: &TokenEndpoint,
    grant: TokenGrant<'_>,
) -> Result<(HeaderMap, String), OAuthError> {
    let odd = || invalid_response("a client", &place.url, "it cannot be shown");
    let mut form = Serializer::new(String::new());
    match grant.subject {
        GrantSubject::ClientItself => {
            form.append_pair("grant_type", "client_credentials");
        }
        GrantSubject::Token { token, subject_type: given, requested_type: requested } => {
            form.append_pair("grant_type", GRANT_TOKEN_EXCHANGE);
            form.append_pair("subject_token", token);
            form.append_pair("subject_token_type", given);
            form.append_pair("requested_token_type", requested);
        }
        GrantSubject::Assertion(assertion) => {
            form.append_pair("grant_type", GRANT_JWT_BEARER).append_pair("assertion", assertion);
        }
    }
    if let Some(audience) = grant.audience {
        form.append_pair("audience", audience);
    }
    if let Some(resource) = grant.resource {
        form.append_pair("resource", resource);
    }
    if !grant.scopes.is_empty() {
        form.append_pair("scope", &grant.scopes.join(" "));
    }
    let mut headers = HeaderMap::new();
    match (grant.client_secret, grant.proof.or(place.proof).unwrap_or(ClientProof::Basic)) {
        (Some(secret), ClientProof::Basic) => {
            headers
                .insert(AUTHORIZATION, basic_auth_header(grant.client_id, secret).ok_or_else(odd)?);
        }
        (Some(secret), ClientProof::Post) => {
            form.append_pair("client_id", grant.client_id).append_pair("client_secret", secret);
        }
        (None, _) => {
            form.append_pair("client_id", grant.client_id);
        }
    }
    Ok((headers, form.finish()))
}

fn check_response(
    place: &Url,
    answer: GrantResponse,
    offered: GrantSubject<'_>,
) -> Result<IssuedToken, OAuthError> {
    let refuse = |why| invalid_response(TOKEN_SUBJECT, place, why);
    let requested = match offered {
        GrantSubject::Token { requested_type: requested, .. } => Some(requested),
        GrantSubject::ClientItself | GrantSubject::Assertion(_) => None,
    };
    // Other token types need another way of sending. A token that is not an access token has the type `N_A` (RFC 8693,
    // section 2.2.1); it is accepted if an admin requested that type. Some servers omit the type or use other names.
    let says = |words: &[&str]| {
        let said = answer.token_type.as_deref().unwrap_or("bearer");
        words.iter().any(|word| said.eq_ignore_ascii_case(word))
    };
    let is_bearer =
        says(&["bearer", "bearertoken", "access_token"]) && requested != Some(ID_JAG_TYPE);
    let is_no_access_token = says(&["n_a"])
        && answer.issued_token_type.as_deref().is_some_and(|issued| issued != ACCESS_TOKEN_TYPE)
        && requested.is_some_and(|requested| requested != ACCESS_TOKEN_TYPE);
    if !is_bearer && !is_no_access_token {
        return Err(refuse("it is not one that its bearer may use"));
    }
    if !is_valid_token(&answer.access_token) {
        return Err(refuse("it has characters that no token has, or too many"));
    }
    if let Some(requested) = requested {
        let fits = |kind: &str| match requested {
            ID_JAG_TYPE => kind == ID_JAG_TYPE,
            requested => [requested, ACCESS_TOKEN_TYPE, JWT_TYPE].contains(&kind),
        };
        if !answer.issued_token_type.as_deref().is_some_and(fits) {
            return Err(refuse("its `issued_token_type` is not what was asked for"));
        }
    }
    // A server that returns the same token has exchanged nothing: the token would be sent to a party it is not meant
    // for.
    if offered.subject_token() == Some(&*answer.access_token) {
        return Err(refuse("it is the one that was to be exchanged"));
    }
    let expires_in = answer.expires_in.as_ref().and_then(parse_lifetime);
    Ok(IssuedToken { token: answer.access_token, expires_in })
}
