//! `toolcrib import`: registers the MCP servers that other programs have configured as sources.
//!
//! It reads configurations of desktop clients (`mcpServers`, `servers`) and the `server.json` of the official registry.
//! Values of environment variables and headers are most often secrets: they are encrypted, never stored in plain text.

mod client_file;
mod server_json;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catalog::source::SourceCommand;
use config::config_error::read_limited_file;
use model::{
    ApiKeyLocation, CommandProblem, Isolation, Lifecycle, SecretRef, SourceId, SourceProfile,
    SourceSettings, SourceUrl, StdioCommand, UpstreamAuth,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use toolcrib::{
    Catalog, ChangeContext, Command, CommandError, CommandRefusal, JournalLocation, SecretStore,
    SystemClock,
};
use url::Url;

use crate::arguments::VerbOutcome;
use crate::arguments::import::ImportServersArgs;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::verbs::journal::{open_or_create, show};
use crate::{inspected_target, output, shell_text};

/// Maximum bytes of a file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// An MCP server in the configuration of another program.
#[derive(Debug, PartialEq)]
struct ImportedServer {
    name: String,
    description: String,
    transport: ImportedTransport,
}

#[derive(Debug, PartialEq)]
enum ImportedTransport {
    Program {
        program: String,
        arguments: Vec<String>,
        environment: BTreeMap<String, String>,
        folder: Option<String>,
    },
    Url {
        url: String,
        headers: BTreeMap<String, String>,
    },
}

/// A server that cannot be imported, with the reason.
#[derive(Debug, PartialEq)]
struct SkippedServer {
    name: String,
    why: String,
}

type ParsedServers = Vec<Result<ImportedServer, SkippedServer>>;

pub(crate) async fn import_mcp_servers(
    config: &ProgramConfig,
    given: &ImportServersArgs,
) -> Result<VerbOutcome, CliError> {
    let bytes = match given.file.as_str() {
        "-" => inspected_target::read_stdin(MAX_FILE_BYTES).await?,
        path => read_limited_file(Path::new(path), MAX_FILE_BYTES)?,
    };
    let read = parse_servers(&given.file, &bytes)?;
    let key = config.sealing_key(given.sealing_key_file.as_deref())?;
    // A dry run registers in an in-memory journal, which is then dropped.
    let (journal, taken) = match given.dry_run {
        true => (
            JournalLocation::Memory.open(SystemClock).await?,
            existing_sources(&config.journal).await?,
        ),
        false => (open_or_create(&config.journal).await?, BTreeSet::new()),
    };
    let secrets = SecretStore::new(std::sync::Arc::clone(&journal), key, SystemClock, |_| None);
    let mut store = ImportSecretStore { secrets };
    let catalog = Catalog::open(journal).await?;
    let (done, not_done) = match given.dry_run {
        true => ("would be registered as", "would not be taken"),
        false => ("registered as", "was not taken"),
    };
    let mut is_whole = true;
    for one in read {
        match register_source(&catalog, &taken, &mut store, one).await? {
            Ok((id, server)) => {
                let name = plain_text(&server.name);
                let place = server.transport.to_string();
                output::print_text(&format!("{name}: {done} `{id}`: {}", plain_text(&place)))?;
            }
            Err(SkippedServer { name, why }) => {
                is_whole = false;
                output::print_note(&format!("{} {not_done}: {why}", plain_text(&name)));
            }
        }
    }
    catalog.close().await;
    if !given.dry_run {
        output::print_note(
            "a server refreshes new sources by itself; programs need `toolcrib serve --allow-stdio`",
        );
    }
    Ok(if is_whole { VerbOutcome::Success } else { VerbOutcome::ProblemsFound })
}

/// The ids of the existing sources. A missing journal file has none; it is not created.
async fn existing_sources(place: &JournalLocation) -> Result<BTreeSet<SourceId>, CliError> {
    if matches!(place, JournalLocation::File(path) if !path.exists()) {
        return Ok(BTreeSet::new());
    }
    let snapshot = show::read_snapshot(place, None).await?;
    Ok(snapshot.sources().map(|entry| entry.source.id.clone()).collect())
}

/// Parses all servers of a file.
fn parse_servers(file: &str, bytes: &[u8]) -> Result<ParsedServers, CliError> {
    let text = client_file::without_comments(&String::from_utf8_lossy(bytes));
    let document: Value = serde_json::from_str(&text).map_err(|source| {
        CliError::ImportNotJson { file: shell_text::display_target(file), source }
    })?;
    let servers = client_file::parse_client_file(&document)
        .or_else(|| server_json::parse_registry_document(&document));
    servers.ok_or(CliError::ImportUnknown)
}

async fn register_source(
    catalog: &Catalog,
    taken: &BTreeSet<SourceId>,
    store: &mut ImportSecretStore,
    server: Result<ImportedServer, SkippedServer>,
) -> Result<Result<(SourceId, ImportedServer), SkippedServer>, CliError> {
    let server = match server {
        Ok(server) => server,
        Err(not) => return Ok(Err(not)),
    };
    let name = server.name.clone();
    let not = |why: String| Ok(Err(SkippedServer { name: name.clone(), why }));
    let Ok(id) = SourceId::from_name(&server.name) else {
        return not("no id can be made of its name".to_owned());
    };
    if taken.contains(&id) || catalog.snapshot().source(&id).is_some() {
        return not(format!("there is a source `{id}` already"));
    }
    let profile = match build_profile(&id, &server, store).await? {
        Ok(profile) => profile,
        Err(why) => return not(why),
    };
    let command = Command::Source(id.clone(), SourceCommand::Register(profile));
    match catalog.execute(command, ChangeContext::by_actor("cli:import"), None).await {
        Ok(_) => Ok(Ok((id, server))),
        Err(CommandError::Refused(refusal @ CommandRefusal::AlreadyExists { .. })) => {
            not(refusal.to_string())
        }
        Err(error) => Err(CliError::NotRegistered(error)),
    }
}

async fn build_profile(
    id: &SourceId,
    server: &ImportedServer,
    store: &mut ImportSecretStore,
) -> Result<Result<SourceProfile, String>, CliError> {
    let (mut url, mut auth, mut command) = (None, UpstreamAuth::None, None);
    match &server.transport {
        ImportedTransport::Program { program, arguments, environment, folder } => {
            let mut started = StdioCommand {
                program: program.as_str().into(),
                arguments: arguments.iter().map(|text| text.as_str().into()).collect(),
                environment: BTreeMap::new(),
                directory: folder.as_deref().map(Into::into),
                sandbox: None,
            };
            // Validate before sealing any secret: a rejected server must leave nothing behind.
            let variables =
                environment.keys().filter_map(|name| CommandProblem::for_variable(name));
            if let Some(problem) = started.find_problems().into_iter().chain(variables).next() {
                return Ok(Err(problem.to_string()));
            }
            if let Some(why) = arguments.iter().find_map(|argument| reject_argument(argument)) {
                return Ok(Err(why));
            }
            for (name, value) in environment {
                match store.store_value(&format!("{id}/{name}"), value).await? {
                    Ok(reference) => {
                        started.environment.insert(name.as_str().into(), reference);
                    }
                    Err(why) => return Ok(Err(why)),
                }
            }
            command = Some(started);
        }
        ImportedTransport::Url { url: text, headers } => {
            match text.parse::<SourceUrl>() {
                Ok(parsed) => url = Some(parsed),
                Err(error) => return Ok(Err(error.to_string())),
            }
            if 1 < headers.len() {
                let why = "it sends several headers, and a source sends one: register it by hand";
                return Ok(Err(why.to_owned()));
            }
            if let Some((name, value)) = headers.first_key_value() {
                auth = match auth_from_header(id, name, value, store).await? {
                    Ok(auth) => auth,
                    Err(why) => return Ok(Err(why)),
                };
            }
        }
    }
    let (lifecycle, isolation) = (Lifecycle::Persistent, Isolation::Auto);
    let settings = SourceSettings::Mcp { command, lifecycle, isolation };
    let profile = json!({"name": server.name, "description": server.description, "settings": settings, "auth": auth});
    let mut profile: SourceProfile = match serde_json::from_value(profile) {
        Ok(profile) => profile,
        Err(error) => return Ok(Err(error.to_string())),
    };
    profile.url = url;
    Ok(Ok(profile))
}

async fn auth_from_header(
    id: &SourceId,
    name: &str,
    value: &str,
    store: &mut ImportSecretStore,
) -> Result<Result<UpstreamAuth, String>, CliError> {
    let bearer =
        value.strip_prefix("Bearer ").filter(|_| name.eq_ignore_ascii_case("authorization"));
    let kept = store.store_value(&format!("{id}/{name}"), bearer.unwrap_or(value)).await?;
    Ok(kept.map(|reference| match bearer {
        Some(_) => UpstreamAuth::Bearer { token: reference },
        None => {
            let (location, name) = (ApiKeyLocation::Header, name.into());
            UpstreamAuth::ApiKey { location, name, value: reference }
        }
    }))
}

/// Seals the values of imported servers as secrets.
struct ImportSecretStore {
    secrets: SecretStore,
}

impl ImportSecretStore {
    /// A reference to a value: `${NAME}` becomes an environment reference, every other value is sealed.
    async fn store_value(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Result<SecretRef, String>, CliError> {
        if let Some(variable) = variable_name(value) {
            return Ok(format!("env:{variable}")
                .parse()
                .map_err(|_| format!("`{}` is no name of a variable", plain_text(variable))));
        }
        match self.secrets.seal_secret(name, &SecretString::from(value)).await {
            Ok(reference) => Ok(Ok(reference)),
            Err(toolcrib::SecretError::NoKey) => Ok(Err(
                "its secrets must be sealed: give --sealing-key-file FILE, here and to the \
                        server (`openssl rand -base64 32 > FILE` makes one)"
                    .to_owned(),
            )),
            Err(error) => Err(error.into()),
        }
    }
}

/// Why an argument cannot be stored in a source as it is; `None` if it can.
fn reject_argument(argument: &str) -> Option<String> {
    if argument.contains("${") {
        let shown = plain_text(argument);
        return Some(format!(
            "nobody fills in its argument `{shown}` here: write what it stands for"
        ));
    }
    let value = argument.split_once('=').map_or("", |(_, value)| value);
    let mut urls = [argument, value].into_iter().filter_map(|text| text.parse::<Url>().ok());
    urls.any(|url| url.password().is_some()).then(|| {
        "one of its arguments holds a password, and arguments stand in the journal as they are: \
         give it to the program by its environment"
            .to_owned()
    })
}

/// The name of the variable in `${NAME}` or `${env:NAME}`.
fn variable_name(value: &str) -> Option<&str> {
    let name = value.strip_prefix("${")?.strip_suffix('}')?;
    Some(name.strip_prefix("env:").unwrap_or(name)).filter(|name| !name.contains([':', '$', '{']))
}

impl std::fmt::Display for ImportedTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program { program, arguments, .. } => {
                let words = std::iter::once(program).chain(arguments);
                let words: Vec<_> = words.map(|word| plain_text(word)).collect();
                f.write_str(&words.join(" "))
            }
            Self::Url { url, .. } => f.write_str(&plain_text(url.split('?').next().unwrap_or(url))),
        }
    }
}

fn plain_text(text: &str) -> String {
    output::escape_for_terminal(text).into_owned()
}

/// The string, number and boolean fields of an object, as strings.
fn string_map(object: Option<&Value>) -> BTreeMap<String, String> {
    let object = object.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    object.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

fn string_field(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_distinguished_from_a_value() {
        assert_eq!(variable_name("${TOKEN}"), Some("TOKEN"));
        assert_eq!(variable_name("${env:TOKEN}"), Some("TOKEN"));
        for value in ["TOKEN", "${input:token}", "a ${TOKEN}", "${a}${b}", ""] {
            assert_eq!(variable_name(value), None, "{value}");
        }
    }

    #[test]
    fn a_file_of_unknown_format_is_rejected() {
        assert!(matches!(parse_servers("f", b"{"), Err(CliError::ImportNotJson { .. })));
        assert!(matches!(parse_servers("f", b"{}"), Err(CliError::ImportUnknown)));
        assert!(matches!(parse_servers("f", b"[1]"), Err(CliError::ImportUnknown)));
    }
}
