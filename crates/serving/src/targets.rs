//! Targets of `serve` and `stdio`: sources that the user names on the command line, without a configuration.
//!
//! Documents are read before the journal is opened, so that a mistake leaves nothing behind. A target may be anywhere,
//! also on this machine: the egress guard applies to addresses that specifications and upstreams name.

pub(crate) mod example;
pub(crate) mod register;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use model::{
    Isolation, Kind, Lifecycle, OpenapiSettings, Settings, SourceId, SourceProfile, SourceUrl,
    SpecificationPlace, StdioCommand,
};
use serde_json::json;
use upstream::egress::Egress;

use crate::cli::target as options;
use crate::cli::targets::{Given, Targets};
use crate::failure::Failure;
use crate::{config, target};

/// Time-out of a DNS lookup.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(5);

/// A target to serve.
pub(crate) struct Wanted {
    /// The target as printed for the user.
    pub(crate) shown: String,
    /// The proposed source id.
    name: SourceId,
    place: Place,
    /// The kind of the source, or the error of its detection.
    kind: Result<Kind, Failure>,
    allow: Vec<Box<str>>,
}

/// The location of a target, which identifies it in later runs.
enum Place {
    File(Box<str>),
    Url(SourceUrl),
    Program(StdioCommand),
}

/// Detects the kinds of all targets.
pub(crate) async fn look_at(targets: &Targets) -> Result<Vec<Wanted>, Failure> {
    let mut all = Vec::new();
    for given in targets.all() {
        let mut wanted = match given {
            Given::Program(words) => program(&words)?,
            Given::Place(text, kind) => place(&text, kind).await?,
        };
        wanted.allow.extend(targets.allow.iter().map(|allowed| allowed.to_string().into()));
        all.push(wanted);
    }
    Ok(all)
}

/// The programs among the targets; they may be started because the user named them.
pub(crate) fn programs(wanted: &[Wanted]) -> Vec<StdioCommand> {
    let programs = wanted.iter().filter_map(|wanted| match &wanted.place {
        Place::Program(command) => Some(command.clone()),
        Place::File(_) | Place::Url(_) => None,
    });
    programs.collect()
}

fn program(words: &[String]) -> Result<Wanted, Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::CommandMissing);
    };
    let folder = std::env::current_dir().ok();
    // Make paths absolute: the server may be started in another folder the next time.
    let program = match std::path::absolute(program) {
        Ok(path) if program.contains('/') => path.to_string_lossy().into_owned(),
        _ => program.clone(),
    };
    let command = StdioCommand {
        program: program.as_str().into(),
        arguments: arguments.iter().map(|word| word.as_str().into()).collect(),
        environment: config::little_environment_by_reference(),
        directory: folder.map(|folder| folder.to_string_lossy().into()),
        sandbox: None,
    };
    let (shown, name) = (format!("-- {}", words.join(" ")), target::source_id(named_after(words)));
    let (place, kind) = (Place::Program(command), Ok(Kind::Mcp));
    Ok(Wanted { shown, name, place, kind, allow: Vec::new() })
}

/// The word that names a program; for a launcher such as `npx -y`, the word that names the launched program.
fn named_after(words: &[String]) -> &str {
    const STARTERS: [&str; 12] = [
        "npx", "bunx", "pnpx", "uvx", "pipx", "uv", "bun", "deno", "node", "python", "python3",
        "docker",
    ];
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let Some((program, rest)) = words.split_first() else { return "" };
    if !STARTERS.contains(&name(program).as_str()) {
        return program;
    }
    // The word after an option may be its value, and a value may be a secret.
    let mut after_option = false;
    let mut rest = rest.iter().filter(|word| {
        let is_option = word.starts_with('-');
        let may_be_value = std::mem::replace(&mut after_option, is_option && takes_value(word));
        !is_option && !may_be_value && *word != "run"
    });
    let named = rest.next().map_or(program.as_str(), String::as_str);
    // Remove the version: `@scope/server@1.2`.
    match named.rsplit_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => named,
    }
}

/// Whether an option of a launcher takes a value, as far as known. After `-m` of Python follows the program.
fn takes_value(option: &str) -> bool {
    const WITHOUT: [&str; 12] =
        ["-y", "--yes", "-q", "--quiet", "-i", "-t", "-it", "-ti", "--rm", "--init", "-m", "-u"];
    !option.contains('=') && !WITHOUT.contains(&option)
}

async fn place(text: &str, kind: Option<Kind>) -> Result<Wanted, Failure> {
    let (shown, name) = (target::shown(text), target::source_id(text));
    if target::is_url(text) {
        let url: SourceUrl = text.parse().map_err(Failure::TargetUrl)?;
        let kind = match kind {
            Some(kind) => Ok(kind),
            None if target::is_server(&url) => Ok(Kind::Mcp),
            None => kind_of(text).await,
        };
        let allow = match is_public(&url).await {
            true => None,
            false => target::typed_origin(text).map(|origin| origin.to_string().into()),
        };
        let allow = allow.into_iter().collect();
        return Ok(Wanted { shown, name, place: Place::Url(url), kind, allow });
    }
    // Files are specifications. They are read at once: most mistakes are in them.
    let kind = match (kind, kind_of(text).await) {
        (Some(Kind::HttpManifest), _) | (None, Ok(Kind::HttpManifest)) => {
            Err(Failure::ManifestInFile { file: shown.clone() })
        }
        (_, kind) => kind,
    };
    let path = Path::new(text);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let place = Place::File(path.to_string_lossy().into());
    Ok(Wanted { shown, name, place, kind, allow: Vec::new() })
}

/// Whether a host is public, or does not resolve yet. Only hosts that are not public are allowed explicitly: otherwise,
/// the owner of the name could later redirect it to addresses in our network.
async fn is_public(url: &SourceUrl) -> bool {
    let guard = Egress { allow_private: false, allowed: Vec::new() };
    let url = url.as_url();
    if guard.check_url(url).is_err() {
        return false;
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return true;
    };
    let found = tokio::time::timeout(LOOKED_UP_WITHIN, tokio::net::lookup_host((host, port)));
    let Ok(Ok(found)) = found.await else { return true };
    // One public address is enough: a name that resolves to both kinds could be either.
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.is_empty()
        || addresses.drain(..).any(|one| guard.check_addresses(host, port, &[one]).is_ok())
}

async fn kind_of(text: &str) -> Result<Kind, Failure> {
    Ok(target::read(&options::Target::of(text)).await?.kind)
}

impl Wanted {
    /// The reason why the target cannot be read.
    pub(crate) fn problem(&self) -> Option<String> {
        let sentence = self.kind.as_ref().err()?.sentence();
        let why = sentence.strip_prefix(&format!("{}: ", self.shown));
        Some(why.unwrap_or(&sentence).to_owned())
    }

    /// Whether a source has this target's location.
    fn is(&self, profile: &SourceProfile) -> bool {
        match (&self.place, &profile.settings) {
            (Place::File(path), Settings::Openapi(openapi)) => {
                matches!(&openapi.specification, Some(SpecificationPlace::File(known)) if known == path)
            }
            (Place::Program(wanted), Settings::Mcp { command: Some(command), .. }) => {
                command.runs_the_same(wanted)
            }
            (Place::Url(url), Settings::HttpManifest {}) => {
                profile.url.as_ref() == Some(&without_tools(url))
            }
            (Place::Url(url), Settings::Openapi(openapi)) => {
                openapi.specification.is_none() && profile.url.as_ref() == Some(url)
            }
            (Place::Url(url), Settings::Mcp { command: None, .. }) => {
                profile.url.as_ref() == Some(url)
            }
            (Place::File(_) | Place::Program(_) | Place::Url(_), _) => false,
        }
    }

    /// The profile of the source for this target.
    fn profile(&self, id: &SourceId, kind: Kind) -> SourceProfile {
        let (settings, url) = match &self.place {
            Place::File(path) => {
                let specification = Some(SpecificationPlace::File(path.clone()));
                let settings = OpenapiSettings { specification, ..OpenapiSettings::default() };
                (Settings::Openapi(settings), None)
            }
            Place::Program(command) => (server(Some(command.clone())), None),
            Place::Url(url) => match kind {
                Kind::Mcp => (server(None), Some(url.clone())),
                Kind::HttpManifest => (Settings::HttpManifest {}, Some(without_tools(url))),
                _ => (Settings::Openapi(OpenapiSettings::default()), Some(url.clone())),
            },
        };
        let said = json!({"name": id, "settings": settings, "url": url, "allow": self.allow});
        serde_json::from_value(said).expect("a profile that was put together here is one")
    }
}

fn server(command: Option<StdioCommand>) -> Settings {
    Settings::Mcp { command, lifecycle: Lifecycle::default(), isolation: Isolation::default() }
}

/// The base URL of an http manifest, which is at `{url}/tools`.
fn without_tools(url: &SourceUrl) -> SourceUrl {
    let mut base = url.as_url().clone();
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/tools").unwrap_or(path).to_owned();
    base.set_path(&path);
    base.as_str().parse().expect("the url of a source, shortened, is one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launched_program_gives_the_name() {
        for (line, name) in [
            ("/opt/bin/crm --fast", "crm"),
            ("npx -y @modelcontextprotocol/server-everything@2 stdio", "server-everything"),
            ("uvx mcp-server-time", "mcp-server-time"),
            ("docker run -i --rm mcp/time", "time"),
            ("docker run -i -e TOKEN=hunter2 --env-file .env ghcr.io/acme/crm:1", "crm-1"),
            ("uv --directory /srv/x run weather", "weather"),
            ("python3 -m weather", "weather"),
            ("node build/index.js", "index"),
            ("npx", "npx"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(target::source_id(named_after(&words)).as_str(), name, "{line}");
        }
    }

    #[tokio::test]
    async fn only_private_hosts_are_allowed_explicitly() {
        for (url, is_so) in [
            ("http://127.0.0.1:9/", false),
            ("http://localhost:9/", false),
            ("http://10.0.0.7/", false),
            ("https://93.184.215.14/", true),
            ("https://nowhere.invalid/", true),
        ] {
            assert_eq!(is_public(&url.parse().unwrap()).await, is_so, "{url}");
        }
    }

    #[tokio::test]
    async fn a_target_is_identified_by_its_location() {
        let at = |text: &'static str, kind| async move { place(text, Some(kind)).await.unwrap() };
        let id: SourceId = "x".parse().unwrap();
        let spec = at("https://a.example/openapi.json", Kind::Openapi).await;
        let manifest = at("https://a.example/v1/tools", Kind::HttpManifest).await;
        let below = at("https://a.example/v1", Kind::HttpManifest).await;
        let server = at("https://a.example/openapi.json", Kind::Mcp).await;
        let run = |line: &str| program(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (one, other) = (run("npx -y a").unwrap(), run("npx -y b").unwrap());
        let all = [&spec, &manifest, &server, &one, &other];
        for (number, wanted) in all.iter().enumerate() {
            let profile = wanted.profile(&id, *wanted.kind.as_ref().unwrap());
            assert!(wanted.is(&profile), "{}", wanted.shown);
            // Targets with equal URLs are the same, regardless of their detected kind.
            let others = all.iter().enumerate().filter(|(other, _)| *other != number);
            let same = others.filter(|(_, other)| other.is(&profile)).count();
            assert_eq!(same, usize::from([0, 2].contains(&number)), "{}", wanted.shown);
        }
        assert!(below.is(&manifest.profile(&id, Kind::HttpManifest)));
        assert!(spec.allow.is_empty());
        assert_eq!(at("http://127.0.0.1:9/", Kind::Mcp).await.allow, ["127.0.0.1:9".into()]);
    }
}
