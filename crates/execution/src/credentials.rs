//! Adds credentials to a request as the security schemes of the specification require.
//!
//! Secrets appear only in the request: neither in errors nor in its `Debug`. To show a request, use it before this
//! step.

mod credential_mask;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::header_names::is_header_name;
use model::{ApiKeyLocation, RawJson};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use upstream::http::OriginCredential;
use upstream::http::header::{HeaderMap, HeaderName, HeaderValue};
use url::{Origin, Url};

pub use self::credential_mask::{CredentialMask, without_credentials};
pub(crate) use self::credential_mask::{mask_credentials, mask_truncated};
use crate::RenderedRequest;
use crate::template::{cookie_encoded, is_header_text, percent_encoded};

/// The credentials of a source, by the name of the scheme. For `basic` the value is `user:password`.
pub type Credentials = BTreeMap<String, SecretString>;

/// The security requirements of an operation: alternatives, each of which needs all of its schemes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecurityRequirements(Vec<BTreeMap<String, SecurityScheme>>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type")]
enum SecurityScheme {
    #[serde(rename = "apiKey")]
    ApiKey { r#in: SchemeLocation, name: String },
    #[serde(rename = "http")]
    Http { scheme: String },
    #[serde(rename = "oauth2", alias = "openIdConnect")]
    Token,
    /// `mutualTLS`, and types of future specifications.
    #[serde(other)]
    Unsupported,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SchemeLocation {
    Header,
    Query,
    Cookie,
}

/// The credential of the source itself, added to every request regardless of the requirements of the operation.
#[derive(Clone)]
pub struct SourceCredential {
    scheme: SecurityScheme,
    secret: SecretString,
}

/// Credentials and headers that are added to a rendered request.
#[derive(Clone, Default)]
pub struct CallCredentials {
    /// The credentials for the security requirements of operations.
    pub credentials: Credentials,
    /// The credential of the source.
    pub own: Option<SourceCredential>,
    /// The client secret that the source credential was obtained with. It is not sent, and masked in responses.
    pub proof: Option<SecretString>,
    /// Headers of the agent's request that are passed on, only to origins that receive credentials.
    pub headers: Vec<(String, String)>,
    /// Trace context headers. They are not secret and are sent with every request.
    pub trace: Vec<(String, String)>,
}

/// The name of the source credential among others. It cannot clash: no scheme name contains a NUL.
const SOURCE_CREDENTIAL_NAME: &str = "\0auth";

impl SourceCredential {
    /// An API key in a header, query parameter or cookie with this name.
    pub fn api_key(location: ApiKeyLocation, name: &str, key: SecretString) -> Self {
        let r#in = match location {
            ApiKeyLocation::Header => SchemeLocation::Header,
            ApiKeyLocation::Query => SchemeLocation::Query,
            ApiKeyLocation::Cookie => SchemeLocation::Cookie,
        };
        Self { scheme: SecurityScheme::ApiKey { r#in, name: name.to_owned() }, secret: key }
    }

    /// HTTP Basic authentication.
    pub fn basic(username: &str, password: &SecretString) -> Self {
        let secret = format!("{username}:{}", password.expose_secret()).into();
        Self { scheme: SecurityScheme::Http { scheme: "basic".to_owned() }, secret }
    }

    /// A bearer token.
    pub fn bearer(token: SecretString) -> Self {
        Self { scheme: SecurityScheme::Token, secret: token }
    }

    /// Adds the credential to a request. If `origin` is set, fails unless the request goes there.
    pub fn apply(
        &self,
        origin: Option<&Origin>,
        request: &mut RenderedRequest,
    ) -> Result<(), CredentialError> {
        let to = request.url.origin();
        if let Some(origin) = origin.filter(|origin| **origin != to) {
            let from = origin.ascii_serialization();
            return Err(CredentialError::ForeignOrigin { to: to.ascii_serialization(), from });
        }
        self.scheme.add_to_request("auth", self.secret.expose_secret(), request)
    }
}

impl SourceCredential {
    /// The credential for documents of an origin; `None` if it cannot be sent.
    pub fn for_documents(&self, origin: Origin) -> Option<OriginCredential> {
        let url = format!("{}/", origin.ascii_serialization()).parse().ok()?;
        let mut request =
            RenderedRequest { method: "GET".to_owned(), url, headers: Vec::new(), body: None };
        let query = match &self.scheme {
            SecurityScheme::ApiKey { r#in: SchemeLocation::Query, name } => {
                Some((name.clone(), self.secret.expose_secret().to_owned()))
            }
            scheme => {
                scheme.add_to_request("auth", self.secret.expose_secret(), &mut request).ok()?;
                None
            }
        };
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name).ok()?, value);
        }
        Some(OriginCredential { origin, headers, query })
    }
}

impl CallCredentials {
    /// The headers for a request to this URL. With `origin`, passed-on headers are sent only to it (requirement O7).
    pub(crate) fn headers_to<'a>(
        &'a self,
        url: &Url,
        origin: Option<&Origin>,
    ) -> impl Iterator<Item = &'a (String, String)> + use<'a> {
        let is_meant =
            origin.is_none_or(|origin| self.headers.is_empty() || url.origin() == *origin);
        let passed_on = if is_meant { &*self.headers } else { &[] };
        passed_on.iter().chain(&self.trace)
    }

    /// All secrets that must be masked in responses.
    pub(crate) fn secrets_to_mask(&self) -> Credentials {
        let mut hidden = self.credentials.clone();
        hidden.extend(
            self.proof.clone().map(|proof| (format!("{SOURCE_CREDENTIAL_NAME} proof"), proof)),
        );
        let Some(own) = &self.own else { return hidden };
        hidden.insert(SOURCE_CREDENTIAL_NAME.to_owned(), own.secret.clone());
        // A leaked password alone is as harmful as both parts.
        if let (SecurityScheme::Http { .. }, Some((_, password))) =
            (&own.scheme, own.secret.expose_secret().split_once(':'))
        {
            hidden.insert(format!("{SOURCE_CREDENTIAL_NAME} password"), password.into());
        }
        hidden
    }
}

/// Why credentials cannot be used. Never contains a credential.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CredentialError {
    /// The requirements are not a list of alternatives.
    #[error("the security requirements cannot be read")]
    Unreadable,
    /// The name of the header or cookie is invalid.
    #[error("the security scheme `{scheme}` names a header that cannot be sent")]
    InvalidName {
        /// The name of the scheme.
        scheme: String,
    },
    /// The credential contains an invalid character, such as a line break.
    #[error("the credential for `{scheme}` has a character that cannot be sent")]
    InvalidValue {
        /// The name of the scheme.
        scheme: String,
    },
    /// No setting allows credentials for the origin of the request.
    #[error("calls go to `{to}`, not to `{from}` where the specification is from")]
    ForeignOrigin {
        /// The origin of the request.
        to: String,
        /// The origin that may receive credentials.
        from: String,
    },
}

impl SecurityRequirements {
    /// Parses the `security` of a manifest. Without one, no credentials are required.
    pub fn parse(security: Option<&RawJson>) -> Result<Self, CredentialError> {
        let Some(security) = security else { return Ok(Self::default()) };
        let alternatives = serde_json::from_str(security.as_str());
        alternatives.map(Self).map_err(|_| CredentialError::Unreadable)
    }

    /// The names of the schemes of each alternative. An empty alternative means that no credential is needed.
    pub fn alternatives(&self) -> impl Iterator<Item = Vec<&str>> {
        self.0.iter().map(|schemes| schemes.keys().map(String::as_str).collect())
    }

    /// Adds the credentials of the first alternative that can be satisfied, preferring alternatives with credentials.
    /// Returns false if none can be satisfied, and leaves the request unchanged.
    pub fn apply(
        &self,
        credentials: &Credentials,
        request: &mut RenderedRequest,
    ) -> Result<bool, CredentialError> {
        let Some(schemes) = self.satisfied_alternative(credentials) else {
            return Ok(self.0.is_empty() || self.0.iter().any(BTreeMap::is_empty));
        };
        for (name, scheme) in schemes {
            scheme.add_to_request(name, credentials[name].expose_secret(), request)?;
        }
        Ok(true)
    }

    /// The passwords of Basic credentials: a leaked password alone is as harmful as both parts.
    pub(crate) fn basic_passwords(&self, credentials: &Credentials) -> Credentials {
        let schemes = self.0.iter().flatten().filter(|(_, scheme)| scheme.is_basic());
        let passwords = schemes.filter_map(|(name, _)| {
            let (_, password) = credentials.get(name)?.expose_secret().split_once(':')?;
            Some((format!("{name}\0password"), password.into()))
        });
        passwords.collect()
    }

    /// Adds credentials only if the request goes to this origin: a specification may name any server (requirement O7).
    pub(crate) fn apply_to_origin(
        &self,
        origin: &Origin,
        credentials: &Credentials,
        request: &mut RenderedRequest,
    ) -> Result<bool, CredentialError> {
        let to = request.url.origin();
        if to != *origin && self.satisfied_alternative(credentials).is_some() {
            let from = origin.ascii_serialization();
            return Err(CredentialError::ForeignOrigin { to: to.ascii_serialization(), from });
        }
        self.apply(credentials, request)
    }

    /// The first alternative that the credentials satisfy.
    fn satisfied_alternative(
        &self,
        credentials: &Credentials,
    ) -> Option<&BTreeMap<String, SecurityScheme>> {
        let is_given = |(name, scheme): (&String, &SecurityScheme)| {
            credentials.contains_key(name) && scheme.is_supported()
        };
        self.0.iter().find(|schemes| !schemes.is_empty() && schemes.iter().all(is_given))
    }
}

impl SecurityScheme {
    fn is_basic(&self) -> bool {
        matches!(self, Self::Http { scheme } if scheme.eq_ignore_ascii_case("basic"))
    }

    fn is_supported(&self) -> bool {
        match self {
            Self::ApiKey { .. } | Self::Token => true,
            Self::Http { scheme } => {
                ["basic", "bearer"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
            }
            Self::Unsupported => false,
        }
    }

    fn add_to_request(
        &self,
        name: &str,
        secret: &str,
        request: &mut RenderedRequest,
    ) -> Result<(), CredentialError> {
        match self {
            Self::ApiKey { r#in: SchemeLocation::Header, name: header } => {
                set_header(name, header, secret.to_owned(), request)
            }
            Self::ApiKey { r#in: SchemeLocation::Query, name: parameter } => {
                add_to_query(parameter, secret, request);
                Ok(())
            }
            Self::ApiKey { r#in: SchemeLocation::Cookie, name: cookie } => {
                add_cookie(cookie, secret, request);
                Ok(())
            }
            Self::Http { scheme } if scheme.eq_ignore_ascii_case("basic") => {
                let value = format!("Basic {}", BASE64_STANDARD.encode(secret));
                set_header(name, "Authorization", value, request)
            }
            Self::Http { .. } | Self::Token | Self::Unsupported => {
                set_header(name, "Authorization", format!("Bearer {secret}"), request)
            }
        }
    }
}

fn set_header(
    scheme: &str,
    name: &str,
    value: String,
    request: &mut RenderedRequest,
) -> Result<(), CredentialError> {
    if !is_header_name(name) {
        return Err(CredentialError::InvalidName { scheme: scheme.to_owned() });
    }
    if !is_header_text(&value) {
        return Err(CredentialError::InvalidValue { scheme: scheme.to_owned() });
    }
    request.set_header(name, value);
    Ok(())
}

/// Appends the credential to the query and removes pairs of the same name, so that an agent cannot choose the
/// credential.
fn add_to_query(name: &str, secret: &str, request: &mut RenderedRequest) {
    let pairs = request.url.query().unwrap_or_default().split('&');
    let mut kept: Vec<String> =
        pairs.filter(|pair| has_other_name(pair, name)).map(str::to_owned).collect();
    kept.push(format!("{}={}", percent_encoded(name), percent_encoded(secret)));
    request.url.set_query(Some(&kept.join("&")));
}

fn add_cookie(name: &str, secret: &str, request: &mut RenderedRequest) {
    let cookies = request.header("cookie").unwrap_or_default().split("; ");
    let mut kept: Vec<String> =
        cookies.filter(|cookie| has_other_name(cookie, name)).map(str::to_owned).collect();
    kept.push(format!("{}={}", percent_encoded(name), cookie_encoded(secret)));
    request.set_header("Cookie", kept.join("; "));
}

/// Compares names as an upstream decodes them: `%61` is `a`.
fn has_other_name(pair: &str, name: &str) -> bool {
    let written = pair.split_once('=').map_or(pair, |(name, _)| name).replace('+', " ");
    !pair.is_empty() && percent_decode_str(&written).decode_utf8_lossy() != name
}

#[cfg(test)]
mod tests;
