//! Credentials are put into a request as the specification's security schemes say.
//!
//! Secrets are in nothing but the request: not in errors, and not in its `Debug`. To show a request, show it before.

mod mask;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::header::is_token;
use model::{ApiKeyLocation, RawJson};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use upstream::http::Shown;
use upstream::http::header::{HeaderMap, HeaderName, HeaderValue};
use url::{Origin, Url};

pub use self::mask::{Mask, without_credentials};
pub(crate) use self::mask::{masked, masked_of_cut_off};
use crate::Request;
use crate::template::{cookie_encoded, is_header_text, percent_encoded};

/// The credentials of a source, by the name of the scheme. For `basic` it is `user:password`.
pub type Credentials = BTreeMap<String, SecretString>;

/// What an operation asks for: alternatives, each of which needs all of its schemes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security(Vec<BTreeMap<String, Scheme>>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "type")]
enum Scheme {
    #[serde(rename = "apiKey")]
    ApiKey { r#in: Location, name: String },
    #[serde(rename = "http")]
    Http { scheme: String },
    #[serde(rename = "oauth2", alias = "openIdConnect")]
    Token,
    /// `mutualTLS`, and what specifications may still think of.
    #[serde(other)]
    Unsupported,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Location {
    Header,
    Query,
    Cookie,
}

/// The credential of a source itself: in every request to it, whatever its operations ask for.
#[derive(Clone)]
pub struct Own {
    scheme: Scheme,
    secret: SecretString,
}

/// What a request is given besides what its template says.
#[derive(Clone, Default)]
pub struct Given {
    /// For what operations ask for.
    pub credentials: Credentials,
    /// The source's own.
    pub own: Option<Own>,
    /// What the own one was got with. It is not sent, and not to be repeated either.
    pub proof: Option<SecretString>,
    /// Headers of the agent's request that are passed on, to where credentials go and nowhere else.
    pub headers: Vec<(String, String)>,
    /// Headers that say which trace the request is part of. That is no secret, and goes wherever the request does.
    pub trace: Vec<(String, String)>,
}

/// What the own credential is called where it stands beside others. No scheme is named so: that would be no text.
const OWN: &str = "\0auth";

impl Own {
    /// A key, in a place of this name.
    pub fn api_key(location: ApiKeyLocation, name: &str, key: SecretString) -> Self {
        let r#in = match location {
            ApiKeyLocation::Header => Location::Header,
            ApiKeyLocation::Query => Location::Query,
            ApiKeyLocation::Cookie => Location::Cookie,
        };
        Self { scheme: Scheme::ApiKey { r#in, name: name.to_owned() }, secret: key }
    }

    /// HTTP Basic.
    pub fn basic(username: &str, password: &SecretString) -> Self {
        let secret = format!("{username}:{}", password.expose_secret()).into();
        Self { scheme: Scheme::Http { scheme: "basic".to_owned() }, secret }
    }

    /// A bearer token.
    pub fn bearer(token: SecretString) -> Self {
        Self { scheme: Scheme::Token, secret: token }
    }

    /// Puts it into a request, which goes to the origin it is for, if there is one.
    pub fn apply(
        &self,
        origin: Option<&Origin>,
        request: &mut Request,
    ) -> Result<(), CredentialError> {
        let to = request.url.origin();
        if let Some(origin) = origin.filter(|origin| **origin != to) {
            let from = origin.ascii_serialization();
            return Err(CredentialError::Origin { to: to.ascii_serialization(), from });
        }
        self.scheme.place("auth", self.secret.expose_secret(), request)
    }
}

impl Own {
    /// For the documents of an origin; none if it cannot be sent.
    pub fn shown(&self, origin: Origin) -> Option<Shown> {
        let url = format!("{}/", origin.ascii_serialization()).parse().ok()?;
        let mut request =
            Request { method: "GET".to_owned(), url, headers: Vec::new(), body: None };
        let query = match &self.scheme {
            Scheme::ApiKey { r#in: Location::Query, name } => {
                Some((name.clone(), self.secret.expose_secret().to_owned()))
            }
            scheme => {
                scheme.place("auth", self.secret.expose_secret(), &mut request).ok()?;
                None
            }
        };
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            let mut value = HeaderValue::try_from(value).ok()?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name).ok()?, value);
        }
        Some(Shown { origin, headers, query })
    }
}

impl Given {
    /// The headers of a request to this url, with an origin that credentials are for, if there is one (requirement O7).
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

    /// All that must not be repeated.
    pub(crate) fn hidden(&self) -> Credentials {
        let mut hidden = self.credentials.clone();
        hidden.extend(self.proof.clone().map(|proof| (format!("{OWN} proof"), proof)));
        let Some(own) = &self.own else { return hidden };
        hidden.insert(OWN.to_owned(), own.secret.clone());
        // The password alone is as bad as both.
        if let (Scheme::Http { .. }, Some((_, password))) =
            (&own.scheme, own.secret.expose_secret().split_once(':'))
        {
            hidden.insert(format!("{OWN} password"), password.into());
        }
        hidden
    }
}

/// Why credentials cannot be used. Never repeats them.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum CredentialError {
    /// Not a list of alternatives.
    #[error("the security requirements cannot be read")]
    Unreadable,
    /// The name of a header or cookie that cannot be one.
    #[error("the security scheme `{scheme}` names a header that cannot be sent")]
    Name {
        /// The name of the scheme.
        scheme: String,
    },
    /// A line break, for example.
    #[error("the credential for `{scheme}` has a character that cannot be sent")]
    Value {
        /// The name of the scheme.
        scheme: String,
    },
    /// Nobody said that the credential may go there.
    #[error("calls go to `{to}`, not to `{from}` where the specification is from")]
    Origin {
        /// Where the request would go.
        to: String,
        /// Where credentials may go.
        from: String,
    },
}

impl Security {
    /// Reads a manifest's `security`. Without one, nothing is asked for.
    pub fn parse(security: Option<&RawJson>) -> Result<Self, CredentialError> {
        let Some(security) = security else { return Ok(Self::default()) };
        let alternatives = serde_json::from_str(security.as_str());
        alternatives.map(Self).map_err(|_| CredentialError::Unreadable)
    }

    /// The names of the schemes of each alternative. An empty one says that no credential is needed.
    pub fn alternatives(&self) -> impl Iterator<Item = Vec<&str>> {
        self.0.iter().map(|schemes| schemes.keys().map(String::as_str).collect())
    }

    /// Puts credentials into the request: the first alternative that can be met, and rather one with credentials than
    /// one without. False if none can be met; then the request is as it was.
    pub fn apply(
        &self,
        credentials: &Credentials,
        request: &mut Request,
    ) -> Result<bool, CredentialError> {
        let Some(schemes) = self.given(credentials) else {
            return Ok(self.0.is_empty() || self.0.iter().any(BTreeMap::is_empty));
        };
        for (name, scheme) in schemes {
            scheme.place(name, credentials[name].expose_secret(), request)?;
        }
        Ok(true)
    }

    /// The passwords alone of those that are sent as a name with a password: one is as bad as both.
    pub(crate) fn passwords(&self, credentials: &Credentials) -> Credentials {
        let schemes = self.0.iter().flatten().filter(|(_, scheme)| scheme.is_basic());
        let passwords = schemes.filter_map(|(name, _)| {
            let (_, password) = credentials.get(name)?.expose_secret().split_once(':')?;
            Some((format!("{name}\0password"), password.into()))
        });
        passwords.collect()
    }

    /// The same, but only if the request goes to this origin: a specification may name any server (requirement O7).
    pub(crate) fn apply_within(
        &self,
        origin: &Origin,
        credentials: &Credentials,
        request: &mut Request,
    ) -> Result<bool, CredentialError> {
        let to = request.url.origin();
        if to != *origin && self.given(credentials).is_some() {
            let from = origin.ascii_serialization();
            return Err(CredentialError::Origin { to: to.ascii_serialization(), from });
        }
        self.apply(credentials, request)
    }

    /// The alternative that is met with credentials.
    fn given(&self, credentials: &Credentials) -> Option<&BTreeMap<String, Scheme>> {
        let is_given = |(name, scheme): (&String, &Scheme)| {
            credentials.contains_key(name) && scheme.is_supported()
        };
        self.0.iter().find(|schemes| !schemes.is_empty() && schemes.iter().all(is_given))
    }
}

impl Scheme {
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

    fn place(
        &self,
        name: &str,
        secret: &str,
        request: &mut Request,
    ) -> Result<(), CredentialError> {
        match self {
            Self::ApiKey { r#in: Location::Header, name: header } => {
                set_header(name, header, secret.to_owned(), request)
            }
            Self::ApiKey { r#in: Location::Query, name: parameter } => {
                add_to_query(parameter, secret, request);
                Ok(())
            }
            Self::ApiKey { r#in: Location::Cookie, name: cookie } => {
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
    request: &mut Request,
) -> Result<(), CredentialError> {
    if !is_token(name) {
        return Err(CredentialError::Name { scheme: scheme.to_owned() });
    }
    if !is_header_text(&value) {
        return Err(CredentialError::Value { scheme: scheme.to_owned() });
    }
    request.set_header(name, value);
    Ok(())
}

/// Behind what is there, but for a pair of the same name: an agent does not choose the credential.
fn add_to_query(name: &str, secret: &str, request: &mut Request) {
    let pairs = request.url.query().unwrap_or_default().split('&');
    let mut kept: Vec<String> =
        pairs.filter(|pair| is_other(pair, name)).map(str::to_owned).collect();
    kept.push(format!("{}={}", percent_encoded(name), percent_encoded(secret)));
    request.url.set_query(Some(&kept.join("&")));
}

fn add_cookie(name: &str, secret: &str, request: &mut Request) {
    let cookies = request.header("cookie").unwrap_or_default().split("; ");
    let mut kept: Vec<String> =
        cookies.filter(|cookie| is_other(cookie, name)).map(str::to_owned).collect();
    kept.push(format!("{}={}", percent_encoded(name), cookie_encoded(secret)));
    request.set_header("Cookie", kept.join("; "));
}

/// Names are held against each other as an upstream reads them: `%61` is `a`.
fn is_other(pair: &str, name: &str) -> bool {
    let written = pair.split_once('=').map_or(pair, |(name, _)| name).replace('+', " ");
    !pair.is_empty() && percent_decode_str(&written).decode_utf8_lossy() != name
}

#[cfg(test)]
mod tests;
