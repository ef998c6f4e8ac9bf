//! The server section of a configuration file: issuers, names, limits, caches, the call log and search.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use api_types::oauth_scope::OAuthScope;
use api_types::server_names::{HostName, PublicUrl, WebOrigin};
use jiff::SignedDuration;
use model::{CallLimit, SecretRef};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib::{
    CallLogOptions, EmbeddingBackend, EmbeddingOptions, InvalidModel, IssuerConfig,
    JournalLocation, ToolsetCacheLimits,
};
use upstream::http::Url;

use crate::config_error::ConfigError;
use crate::connection_limits::ConnectionLimits;
use crate::declared_config::DeclaredConfig;
use crate::declared_config::config_problem::ConfigProblem;

/// Default retention of the call log, in days.
const DEFAULT_KEEP_DAYS: u32 = 90;

/// What the file says.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ServerSettings")]
pub struct ServerSettings {
    /// Whose tokens are taken.
    #[serde(default)]
    pub issuers: Vec<IssuerConfig>,
    /// Where the server is for everybody else.
    pub public_url: Option<PublicUrl>,
    /// Other names it answers to.
    #[serde(default)]
    pub allowed_hosts: Vec<HostName>,
    /// Pages from elsewhere that may ask.
    #[serde(default)]
    pub allowed_origins: Vec<WebOrigin>,
    /// What tokens must at least be asked for.
    #[serde(default)]
    pub scopes: Vec<OAuthScope>,
    #[serde(default)]
    limits: LimitSettings,
    #[serde(default)]
    cache: CacheSettings,
    /// How calls are recorded.
    #[serde(default)]
    record: RecordSettings,
    /// How tools are searched.
    #[serde(default)]
    pub search: SearchSettings,
}

/// How tools are searched.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Search")]
pub struct SearchSettings {
    /// Whether an agent finds sooner what it executed after similar questions.
    #[serde(default)]
    pub learns: bool,
    /// What makes vectors of texts.
    embeddings: Option<EmbeddingSettings>,
}

/// An endpoint that speaks like `/v1/embeddings` of `OpenAI`, or a folder with a model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "EmbeddingMembers")]
#[schemars(with = "EmbeddingMembers")]
struct EmbeddingSettings {
    maker: MakerSettings,
    file: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum MakerSettings {
    Endpoint { url: Url, model: Box<str>, key: Option<SecretRef> },
    Folder(PathBuf),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EmbeddingMembers {
    #[schemars(with = "Option<String>")]
    url: Option<Url>,
    model: Option<Box<str>>,
    /// A reference to what it is shown.
    key: Option<SecretRef>,
    /// A model to run here.
    folder: Option<PathBuf>,
    /// Where vectors are kept; beside the journal if that is a file.
    file: Option<PathBuf>,
}

impl TryFrom<EmbeddingMembers> for EmbeddingSettings {
    type Error = &'static str;

    fn try_from(members: EmbeddingMembers) -> Result<Self, Self::Error> {
        let EmbeddingMembers { url, model, key, folder, file } = members;
        let maker = match (url, model, key, folder) {
            (Some(url), Some(model), key, None) => MakerSettings::Endpoint { url, model, key },
            (None, None, None, Some(folder)) => MakerSettings::Folder(folder),
            _ => return Err("embeddings have either a `url` with a `model`, or a `folder` alone"),
        };
        Ok(Self { maker, file })
    }
}

impl MakerSettings {
    /// Opens the vector maker. Reading a model folder takes a while and runs in the background.
    async fn open_maker(self) -> Result<EmbeddingBackend, InvalidModel> {
        match self {
            Self::Endpoint { url, model, key } => {
                Ok(EmbeddingBackend::Endpoint { url, model, key })
            }
            Self::Folder(folder) => crate::sentence_model::open_sentence_model(folder).await,
        }
    }
}

impl SearchSettings {
    pub async fn embeddings(
        &self,
        journal: &JournalLocation,
    ) -> Result<Option<EmbeddingOptions>, InvalidModel> {
        let Some(EmbeddingSettings { maker, file }) = &self.embeddings else { return Ok(None) };
        let beside = || match journal {
            JournalLocation::File(path) => {
                let mut path = path.as_os_str().to_owned();
                path.push(".vectors");
                Some(path.into())
            }
            JournalLocation::Memory | JournalLocation::Postgres(_) => None,
        };
        let file = file.clone().or_else(beside);
        Ok(Some(EmbeddingOptions { backend: maker.clone().open_maker().await?, file }))
    }
}

/// How calls are recorded, and for how long.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Record")]
struct RecordSettings {
    #[serde(default)]
    mode: RecordMode,
    /// Days; 90 if it is left out, for ever if it is 0.
    keep_days: Option<u32>,
    /// Whether arguments are recorded, without what looks like a secret.
    #[serde(default)]
    arguments: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RecordMode {
    /// Calls are stored a moment after they were answered.
    #[default]
    Default,
    /// An answer waits until its call is on the disk.
    Strict,
    /// Nothing is recorded.
    Off,
}

/// What connections may take; times are in seconds.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LimitSettings {
    connections: Option<NonZeroU32>,
    streams: Option<NonZeroU32>,
    head_within: Option<NonZeroU32>,
    idle: Option<NonZeroU32>,
    last_answers: Option<u32>,
    /// How many calls each agent may make, whatever they are of.
    #[serde(default)]
    per_agent: CallLimit,
}

/// How long, and how much, what was worked out is kept. It is never used after a change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Cache")]
struct CacheSettings {
    /// Seconds, of the tools of an agent.
    toolsets_for: Option<u32>,
    /// Megabytes, of the tools of all agents.
    toolsets_mb: Option<u32>,
}

impl ServerSettings {
    /// The settings of a file. A public URL on the command line overrides that of the file.
    pub fn from_declared(
        declared: Option<&DeclaredConfig>,
        public_url: Option<&PublicUrl>,
    ) -> Result<Self, ConfigError> {
        let settings = match declared {
            Some(declared) => Self::parse_settings(&declared.server, public_url)
                .map_err(|mistake| declared.document.to_failure(vec![mistake]))?,
            None => Self::default(),
        };
        Ok(Self { public_url: public_url.cloned().or(settings.public_url), ..settings })
    }

    /// The first error in the server settings, checked without the public URL of a real server.
    pub(crate) fn find_error(server: &Value) -> Option<ConfigProblem> {
        let anywhere = PublicUrl::from_listener(([127, 0, 0, 1], 80).into(), true);
        let url = server.get("public_url").is_none().then_some(&anywhere);
        Self::parse_settings(server, url).err()
    }

    fn parse_settings(
        server: &Value,
        public_url: Option<&PublicUrl>,
    ) -> Result<Self, ConfigProblem> {
        let mut value = server.clone();
        let said = || value.get("public_url")?.as_str()?.parse().ok();
        if let Some(url) = public_url.cloned().or_else(said) {
            add_default_audiences(&mut value, &url);
        }
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let field = if path == "." { "" } else { path.as_str() };
            ConfigProblem::new(field, error.inner().to_string())
        })
    }

    pub fn connection_limits(&self) -> ConnectionLimits {
        let (usual, given) = (ConnectionLimits::default(), &self.limits);
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let time = |given: Option<NonZeroU32>| given.map(|time| seconds(time.get()));
        ConnectionLimits {
            max_connections: given
                .connections
                .map_or(usual.max_connections, |places| places.get() as usize),
            max_streams: given.streams.map_or(usual.max_streams, NonZeroU32::get),
            head_timeout: time(given.head_within).unwrap_or(usual.head_timeout),
            idle_timeout: time(given.idle).unwrap_or(usual.idle_timeout),
            drain_timeout: given.last_answers.map_or(usual.drain_timeout, seconds),
        }
    }

    /// The rate limit of each agent.
    pub fn per_agent_limit(&self) -> CallLimit {
        self.limits.per_agent
    }

    /// The options of the call log; `None` if it is off.
    pub fn record_options(&self) -> Option<CallLogOptions> {
        let RecordSettings { mode, keep_days, arguments } = self.record;
        let keep = match keep_days.unwrap_or(DEFAULT_KEEP_DAYS) {
            0 => None,
            days => Some(SignedDuration::from_hours(i64::from(days) * 24)),
        };
        let strict = mode == RecordMode::Strict;
        (mode != RecordMode::Off).then_some(CallLogOptions { strict, arguments, keep })
    }

    pub fn cache_limits(&self) -> ToolsetCacheLimits {
        let usual = ToolsetCacheLimits::default();
        let seconds = self.cache.toolsets_for.map(|seconds| Duration::from_secs(seconds.into()));
        let bytes = self.cache.toolsets_mb.map(|megabytes| u64::from(megabytes) << 20);
        ToolsetCacheLimits {
            time_to_live: seconds.unwrap_or(usual.time_to_live),
            max_bytes: bytes.unwrap_or(usual.max_bytes),
        }
    }
}

/// An issuer without a configured audience issues tokens for this server: adds its URLs as audiences.
fn add_default_audiences(settings: &mut Value, url: &PublicUrl) {
    let issuers = settings.get_mut("issuers").and_then(Value::as_array_mut).into_iter().flatten();
    for issuer in issuers.filter_map(Value::as_object_mut) {
        let audiences = || json!([url.to_string(), format!("{url}/mcp")]);
        issuer.entry("audience").or_insert_with(audiences);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<ServerSettings, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let declared =
            DeclaredConfig::read(file.path()).map_err(|failure| failure.full_message())?;
        ServerSettings::from_declared(Some(&declared), None)
            .map_err(|failure| failure.full_message())
    }

    #[test]
    fn issuers_and_limits_are_read_from_yaml_or_json() {
        let yaml = "issuers:\n  - issuer: https://id.example\n    audience: crib\ncache: {toolsets_for: 10}\n";
        let settings = read(yaml).unwrap();
        assert_eq!(&*settings.issuers[0].issuer, "https://id.example");
        assert_eq!(settings.cache_limits().time_to_live, Duration::from_secs(10));
        let limits = read("limits: {connections: 7, idle: 60}").unwrap().connection_limits();
        assert_eq!((limits.max_connections, limits.idle_timeout), (7, Duration::from_secs(60)));
        assert_eq!(limits.max_streams, ConnectionLimits::default().max_streams);
        let settings = read("limits: {per_agent: {per_minute: 600}}").unwrap();
        assert_eq!(settings.per_agent_limit().per_minute.map(NonZeroU32::get), Some(600));
        assert!(read("limits: {per_agent: {per_hour: 1}}").is_err());
        assert!(read(r#"{"issuers": []}"#).unwrap().issuers.is_empty());
    }

    #[test]
    fn calls_are_recorded_for_ninety_days_by_default() {
        let record = |text: &str| read(text).unwrap().record_options();
        let days = |days: i64| Some(SignedDuration::from_hours(24 * days));
        let usual = CallLogOptions { strict: false, arguments: false, keep: days(90) };
        assert_eq!(record("{}"), Some(usual));
        assert_eq!(record("record: {mode: \"off\"}"), None);
        let strict = CallLogOptions { strict: true, arguments: true, keep: days(7) };
        assert_eq!(record("record: {mode: strict, keep_days: 7, arguments: true}"), Some(strict));
        assert_eq!(record("record: {keep_days: 0}").unwrap().keep, None);
        assert!(
            read("record: {mode: loose}")
                .unwrap_err()
                .contains("`record.mode`: there is no `loose`")
        );
    }

    #[tokio::test]
    async fn vectors_are_kept_beside_the_journal_by_default() {
        let place = JournalLocation::File("crib.db".into());
        let embeddings = async |text: &str| read(text).unwrap().search.embeddings(&place).await;
        assert!(embeddings("{}").await.unwrap().is_none());
        let usual =
            "search: {embeddings: {url: 'http://[::1]:8081/v1/embeddings', model: m, key: env:K}}";
        let usual = embeddings(usual).await.unwrap().unwrap();
        assert_eq!(usual.file.as_deref(), Some(Path::new("crib.db.vectors")));
        let EmbeddingBackend::Endpoint { model, key, .. } = usual.backend else {
            panic!("no endpoint")
        };
        assert_eq!((&*model, key), ("m", Some(SecretRef::Env("K".into()))));
        let other = "search: {embeddings: {url: 'https://a.example', model: m, file: v}}";
        let other = embeddings(other).await.unwrap().unwrap();
        let file = other.file.unwrap();
        assert!(file.is_absolute() && file.ends_with("v"), "{file:?}");
        let nowhere = embeddings("search: {embeddings: {folder: /nowhere}}").await.unwrap_err();
        assert!(nowhere.to_string().contains("/nowhere/config.json"), "{nowhere}");
        for neither in
            ["{}", "{file: v}", "{model: m}", "{folder: a, model: m}", "{folder: a, key: env:K}"]
        {
            let error = read(&format!("search: {{embeddings: {neither}}}")).unwrap_err();
            assert!(error.contains("either a `url`"), "{error}");
        }
        assert!(read("search: {embeddings: {url: no, model: m}}").is_err());
        assert!(read("search: {embeddings: {url: 'https://a', model: m, key: hunter2}}").is_err());
    }

    #[test]
    fn search_does_not_learn_by_default() {
        assert!(!read("{}").unwrap().search.learns);
        assert!(read("search: {learns: true}").unwrap().search.learns);
        assert!(read("search: {learn: true}").unwrap_err().contains("learn"));
    }

    #[test]
    fn a_settings_error_names_its_position() {
        let error =
            read("issuers:\n  - issuer: x\n    audience: y\n    algoritms: [RS256]\n").unwrap_err();
        let expected =
            ":4:5: `issuers[0].algoritms`: is not known here; did you mean `algorithms`?";
        assert!(error.contains(expected), "{error}");
        assert!(read("isuers: []").unwrap_err().contains("isuers"));
        assert!(
            read("public_url: https://crib.example.com/mcp")
                .unwrap_err()
                .contains("without a path")
        );
        assert!(read("allowed_hosts: ['a.example:80']").unwrap_err().contains("any port will do"));
        assert!(read("limits: {streams: 0}").unwrap_err().contains("`limits.streams`"));
        assert!(read("a: [").is_err());
        for text in ["[]", "[[]]", "issuers"] {
            assert!(read(text).unwrap_err().contains("a mapping, such as `sources"), "{text}");
        }
    }
}
