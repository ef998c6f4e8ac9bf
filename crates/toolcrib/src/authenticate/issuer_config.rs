//! The configuration of a trusted issuer, as an admin writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use access::{InvalidIssuer, InvalidKeySet, Issuer, JwsAlgorithm, TokenType};
use jiff::SignedDuration;
use model::{SecretRef, is_scope};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::egress::AllowedDestination;
use upstream::http::Url;

use crate::SecretError;

/// An issuer whose tokens are taken.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Issuer")]
pub struct IssuerConfig {
    /// Exactly as in the `iss` of its tokens.
    pub issuer: Box<str>,
    /// What its tokens for this server have in `aud`.
    #[schemars(with = "Option<IssuerAudience>")]
    pub audience: IssuerAudience,
    /// Where its keys are.
    #[serde(default)]
    pub keys: KeySource,
    /// What it may sign with: `RS256`, `PS256`, `ES256`, `ES384` and `EdDSA`, or `HS256` with a secret.
    pub algorithms: Option<Vec<JwsAlgorithm>>,
    /// How its access tokens are told from others.
    #[serde(default)]
    pub token_type: TokenType,
    /// How far its clock may be from ours, in seconds.
    pub clock_skew: Option<u32>,
    /// Scopes that include others: who has `admin` may do what `read` allows, with `{admin: [read]}`. It holds where calls
    /// need scopes; policies see the claims as they are.
    #[serde(default)]
    pub scope_includes: ScopeIncludes,
    /// What may be reached for its keys although it is not public: addresses, networks, host names.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<AllowedDestination>,
}

/// The scopes that each scope includes, by its name.
pub(super) type ScopeIncludes = BTreeMap<Box<str>, BTreeSet<Box<str>>>;

/// One or several: any of them will do.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Audience")]
pub enum IssuerAudience {
    /// One.
    One(Box<str>),
    /// Several.
    Several(Vec<Box<str>>),
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "IssuerKeys")]
pub enum KeySource {
    /// The issuer is a url and says it there: OpenID Connect Discovery, or else RFC 8414.
    #[default]
    Discovery,
    /// A JWK set on the web.
    JwksUrl(#[schemars(with = "String")] Url),
    /// A JWK set right here.
    Jwks(serde_json::Value),
    /// A JWK set in a file the server can read.
    JwksFile(PathBuf),
    /// Public keys in PEM right here.
    Pem(Box<str>),
    /// Public keys in PEM in a file the server can read.
    PemFile(PathBuf),
    /// A shared secret, for `HS256` and the like.
    Secret(SecretRef),
}

/// Why an issuer cannot be trusted as configured.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The issuer violates a rule.
    #[error(transparent)]
    Rule(#[from] InvalidIssuer),
    /// Two entries for one issuer are ambiguous.
    #[error("issuer `{issuer}` is there twice: name all audiences in one place")]
    DuplicateIssuer {
        /// The issuer.
        issuer: String,
    },
    /// Secrets work only with symmetric algorithms, and public keys only with asymmetric ones.
    #[error(
        "issuer `{issuer}` has a `secret` and no algorithm for it, or the other way round: `HS256`, `HS384` and `HS512` need a secret, and nothing else does"
    )]
    SecretAndAlgorithm {
        /// The issuer.
        issuer: String,
    },
    /// The text is not valid as a scope.
    #[error(
        "`scope_includes` of issuer `{issuer}` has `{scope}`, which is no scope: name each one by itself, without spaces"
    )]
    Scope {
        /// The issuer.
        issuer: String,
        /// The text.
        scope: String,
    },
    /// There is no URL to fetch its keys from.
    #[error("issuer `{issuer}` is not a url, so say where its keys are: `keys: {{jwks_url: …}}`")]
    NoUrl {
        /// The issuer.
        issuer: String,
    },
    /// Anyone on the network path could substitute keys.
    #[error(
        "the keys of issuer `{issuer}` would come over `http`: use `https`, or name the host in `allow` if the way to it is your own"
    )]
    PlainHttp {
        /// The issuer.
        issuer: String,
    },
    /// The keys are malformed.
    #[error("the keys of issuer `{issuer}` cannot be used")]
    Keys {
        /// The issuer.
        issuer: String,
        /// The cause.
        source: InvalidKeySet,
    },
    /// No key suits the algorithms, so no token could be verified.
    #[error(
        "no key of issuer `{issuer}` is for its algorithms, or its secret is too short for them"
    )]
    NoSuitableKey {
        /// The issuer.
        issuer: String,
    },
    /// The key file cannot be read.
    #[error("the keys of issuer `{issuer}` cannot be read")]
    File {
        /// The issuer.
        issuer: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The secret cannot be read.
    #[error("the secret of issuer `{issuer}` cannot be had")]
    Secret {
        /// The issuer.
        issuer: String,
        /// The cause.
        source: SecretError,
    },
}

impl IssuerConfig {
    /// The rules that its tokens must satisfy.
    pub(super) fn token_rules(&self) -> Result<Issuer, IssuerError> {
        let audiences = match &self.audience {
            IssuerAudience::One(audience) => vec![audience.clone()],
            IssuerAudience::Several(audiences) => audiences.clone(),
        };
        let scopes =
            self.scope_includes.iter().flat_map(|(scope, all)| [scope].into_iter().chain(all));
        if let Some(odd) = scopes.into_iter().find(|scope| !is_scope(scope)) {
            let (issuer, scope) = (self.issuer.to_string(), odd.to_string());
            return Err(IssuerError::Scope { issuer, scope });
        }
        let has_secret = matches!(self.keys, KeySource::Secret(_));
        let mut rules = Issuer::new(self.issuer.clone(), audiences)?;
        rules = rules.with_token_type(self.token_type);
        if let Some(skew) = self.clock_skew {
            rules = rules.with_skew(SignedDuration::from_secs(skew.into()))?;
        }
        match &self.algorithms {
            Some(algorithms) => rules = rules.with_algorithms(algorithms.clone())?,
            None if has_secret => rules = rules.with_algorithms(vec![JwsAlgorithm::HS256])?,
            None => {}
        }
        if rules.algorithms().iter().any(|algorithm| algorithm.needs_secret() != has_secret) {
            return Err(IssuerError::SecretAndAlgorithm { issuer: self.issuer.to_string() });
        }
        Ok(rules)
    }
}
