//! `toolcrib import`: registers the MCP servers that other programs have configured as sources.
//!
//! It reads configurations of desktop clients (`mcpServers`, `servers`) and the `server.json` of the official registry.
//! Values of environment variables and headers are most often secrets: they are encrypted, never stored in plain text.

mod client_file;
mod server_json;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use catalog::source::SourceCommand;
use model::{
    ApiKeyLocation, Auth, InvalidCommand, Isolation, Lifecycle, SecretRef, Settings, SourceId,
    SourceProfile, SourceUrl, StdioCommand,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use toolcrib::{
    Catalog, Command, CommandError, Context, JournalPlace, Refusal, Secrets, SystemClock,
};
use url::Url;

use crate::cli::Ended;
use crate::cli::import::ImportServers;
use crate::config::Config;
use crate::failure::Failure;
use crate::journal::{open_or_make, show};
use crate::{out, target};

/// Maximum bytes of a file.
const LIMIT: u64 = 4 << 20;

/// An MCP server in the configuration of another program.
#[derive(Debug, PartialEq)]
struct Server {
    name: String,
    description: String,
    place: Place,
}

#[derive(Debug, PartialEq)]
enum Place {
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
struct NotTaken {
    name: String,
    why: String,
}

type Read = Vec<Result<Server, NotTaken>>;

pub(crate) async fn import(config: &Config, given: &ImportServers) -> Result<Ended, Failure> {
    let bytes = match given.file.as_str() {
        "-" => target::from_stdin(LIMIT).await?,
        path => target::from_file(Path::new(path), LIMIT)?,
    };
    let read = read(&given.file, &bytes)?;
    let key = config.sealing_key(given.sealing_key_file.as_deref())?;
    // A dry run registers in an in-memory journal, which is then dropped.
    let (journal, taken) = match given.dry_run {
        true => (JournalPlace::Memory.open(SystemClock).await?, sources_of(&config.journal).await?),
        false => (open_or_make(&config.journal).await?, BTreeSet::new()),
    };
    let secrets = Secrets::new(std::sync::Arc::clone(&journal), key, SystemClock, |_| None);
    let mut store = Store { secrets };
    let catalog = Catalog::open(journal).await?;
    let (done, not_done) = match given.dry_run {
        true => ("would be registered as", "would not be taken"),
        false => ("registered as", "was not taken"),
    };
    let mut is_whole = true;
    for one in read {
        match register(&catalog, &taken, &mut store, one).await? {
            Ok((id, server)) => {
                let name = plain(&server.name);
                let place = server.place.to_string();
                out::print(&format!("{name}: {done} `{id}`: {}", plain(&place)))?;
            }
            Err(NotTaken { name, why }) => {
                is_whole = false;
                out::note(&format!("{} {not_done}: {why}", plain(&name)));
            }
        }
    }
    catalog.close().await;
    if !given.dry_run {
        out::note(
            "a server refreshes new sources by itself; programs need `toolcrib serve --allow-stdio`",
        );
    }
    Ok(if is_whole { Ended::Fine } else { Ended::ProblemsFound })
}

/// The ids of the existing sources. A missing journal file has none; it is not created.
async fn sources_of(place: &JournalPlace) -> Result<BTreeSet<SourceId>, Failure> {
    if matches!(place, JournalPlace::File(path) if !path.exists()) {
        return Ok(BTreeSet::new());
    }
    let snapshot = show::snapshot(place, None).await?;
    Ok(snapshot.sources().map(|entry| entry.source.id.clone()).collect())
}

/// Parses all servers of a file.
fn read(file: &str, bytes: &[u8]) -> Result<Read, Failure> {
    let text = client_file::without_comments(&String::from_utf8_lossy(bytes));
    let document: Value = serde_json::from_str(&text)
        .map_err(|source| Failure::ImportNotJson { file: target::shown(file), source })?;
    let servers = client_file::servers(&document).or_else(|| server_json::servers(&document));
    servers.ok_or(Failure::ImportUnknown)
}

async fn register(
    catalog: &Catalog,
    taken: &BTreeSet<SourceId>,
    store: &mut Store,
    server: Result<Server, NotTaken>,
) -> Result<Result<(SourceId, Server), NotTaken>, Failure> {
    let server = match server {
        Ok(server) => server,
        Err(not) => return Ok(Err(not)),
    };
    let name = server.name.clone();
    let not = |why: String| Ok(Err(NotTaken { name: name.clone(), why }));
    let Ok(id) = SourceId::from_name(&server.name) else {
        return not("no id can be made of its name".to_owned());
    };
    if taken.contains(&id) || catalog.snapshot().source(&id).is_some() {
        return not(format!("there is a source `{id}` already"));
    }
    let profile = match profile(&id, &server, store).await? {
        Ok(profile) => profile,
        Err(why) => return not(why),
    };
    let command = Command::Source(id.clone(), SourceCommand::Register(profile));
    match catalog.execute(command, Context::by("cli:import"), None).await {
        Ok(_) => Ok(Ok((id, server))),
        Err(CommandError::Refused(refusal @ Refusal::AlreadyExists { .. })) => {
            not(refusal.to_string())
        }
        Err(error) => Err(Failure::NotRegistered(error)),
    }
}

async fn profile(
    id: &SourceId,
    server: &Server,
    store: &mut Store,
) -> Result<Result<SourceProfile, String>, Failure> {
    let (mut url, mut auth, mut command) = (None, Auth::None, None);
    match &server.place {
        Place::Program { program, arguments, environment, folder } => {
            let mut started = StdioCommand {
                program: program.as_str().into(),
                arguments: arguments.iter().map(|text| text.as_str().into()).collect(),
                environment: BTreeMap::new(),
                directory: folder.as_deref().map(Into::into),
                sandbox: None,
            };
            // Validate before sealing any secret: a rejected server must leave nothing behind.
            let variables = environment.keys().filter_map(|name| InvalidCommand::of_variable(name));
            if let Some(problem) = started.problems().into_iter().chain(variables).next() {
                return Ok(Err(problem.to_string()));
            }
            if let Some(why) = arguments.iter().find_map(|argument| objection(argument)) {
                return Ok(Err(why));
            }
            for (name, value) in environment {
                match store.keep(&format!("{id}/{name}"), value).await? {
                    Ok(reference) => {
                        started.environment.insert(name.as_str().into(), reference);
                    }
                    Err(why) => return Ok(Err(why)),
                }
            }
            command = Some(started);
        }
        Place::Url { url: text, headers } => {
            match text.parse::<SourceUrl>() {
                Ok(parsed) => url = Some(parsed),
                Err(error) => return Ok(Err(error.to_string())),
            }
            if 1 < headers.len() {
                let why = "it sends several headers, and a source sends one: register it by hand";
                return Ok(Err(why.to_owned()));
            }
            if let Some((name, value)) = headers.first_key_value() {
                auth = match of_header(id, name, value, store).await? {
                    Ok(auth) => auth,
                    Err(why) => return Ok(Err(why)),
                };
            }
        }
    }
    let (lifecycle, isolation) = (Lifecycle::Persistent, Isolation::Auto);
    let settings = Settings::Mcp { command, lifecycle, isolation };
    let profile = json!({"name": server.name, "description": server.description, "settings": settings, "auth": auth});
    let mut profile: SourceProfile = match serde_json::from_value(profile) {
        Ok(profile) => profile,
        Err(error) => return Ok(Err(error.to_string())),
    };
    profile.url = url;
    Ok(Ok(profile))
}

async fn of_header(
    id: &SourceId,
    name: &str,
    value: &str,
    store: &mut Store,
) -> Result<Result<Auth, String>, Failure> {
    let bearer =
        value.strip_prefix("Bearer ").filter(|_| name.eq_ignore_ascii_case("authorization"));
    let kept = store.keep(&format!("{id}/{name}"), bearer.unwrap_or(value)).await?;
    Ok(kept.map(|reference| match bearer {
        Some(_) => Auth::Bearer { token: reference },
        None => {
            let (location, name) = (ApiKeyLocation::Header, name.into());
            Auth::ApiKey { location, name, value: reference }
        }
    }))
}

/// Seals the values of imported servers as secrets.
struct Store {
    secrets: Secrets,
}

impl Store {
    /// A reference to a value: `${NAME}` becomes an environment reference, every other value is sealed.
    async fn keep(
        &mut self,
        name: &str,
        value: &str,
    ) -> Result<Result<SecretRef, String>, Failure> {
        if let Some(variable) = variable(value) {
            return Ok(format!("env:{variable}")
                .parse()
                .map_err(|_| format!("`{}` is no name of a variable", plain(variable))));
        }
        match self.secrets.seal(name, &SecretString::from(value)).await {
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
fn objection(argument: &str) -> Option<String> {
    if argument.contains("${") {
        let shown = plain(argument);
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
fn variable(value: &str) -> Option<&str> {
    let name = value.strip_prefix("${")?.strip_suffix('}')?;
    Some(name.strip_prefix("env:").unwrap_or(name)).filter(|name| !name.contains([':', '$', '{']))
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program { program, arguments, .. } => {
                let words = std::iter::once(program).chain(arguments);
                let words: Vec<_> = words.map(|word| plain(word)).collect();
                f.write_str(&words.join(" "))
            }
            Self::Url { url, .. } => f.write_str(&plain(url.split('?').next().unwrap_or(url))),
        }
    }
}

fn plain(text: &str) -> String {
    out::plain(text).into_owned()
}

/// The string, number and boolean fields of an object, as strings.
fn texts(object: Option<&Value>) -> BTreeMap<String, String> {
    let object = object.and_then(Value::as_object).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    object.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_distinguished_from_a_value() {
        assert_eq!(variable("${TOKEN}"), Some("TOKEN"));
        assert_eq!(variable("${env:TOKEN}"), Some("TOKEN"));
        for value in ["TOKEN", "${input:token}", "a ${TOKEN}", "${a}${b}", ""] {
            assert_eq!(variable(value), None, "{value}");
        }
    }

    #[test]
    fn a_file_of_unknown_format_is_rejected() {
        assert!(matches!(read("f", b"{"), Err(Failure::ImportNotJson { .. })));
        assert!(matches!(read("f", b"{}"), Err(Failure::ImportUnknown)));
        assert!(matches!(read("f", b"[1]"), Err(Failure::ImportUnknown)));
    }
}
