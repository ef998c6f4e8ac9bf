//! Targets of `serve` and `stdio`: what somebody at a terminal names becomes sources, without a configuration.
//!
//! Documents are looked at before the journal is opened, so that a mistake leaves nothing behind. What was typed may be
//! anywhere, also on this machine: the guard is against addresses that specifications and upstreams name.

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

/// How long a resolver may take to say where a name leads.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(5);

/// A target that is to be served.
pub(crate) struct Wanted {
    /// As people see it.
    pub(crate) shown: String,
    /// What it would be called.
    name: SourceId,
    place: Place,
    /// What it is, or why that cannot be said.
    kind: Result<Kind, Failure>,
    allow: Vec<Box<str>>,
}

/// Where a target is, by which it is known again.
enum Place {
    File(Box<str>),
    Url(SourceUrl),
    Program(StdioCommand),
}

/// Finds out what the targets are.
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

/// The programs among them, which are started because they were named.
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
    // A path is one from here, wherever the server is started the next time.
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

/// What tells a program from others. Of one that only starts another, as `npx -y` does, it is the other.
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
    // Behind an option may stand its value, and a value may be a secret.
    let mut after_option = false;
    let mut rest = rest.iter().filter(|word| {
        let is_option = word.starts_with('-');
        let may_be_value = std::mem::replace(&mut after_option, is_option && takes_value(word));
        !is_option && !may_be_value && *word != "run"
    });
    let named = rest.next().map_or(program.as_str(), String::as_str);
    // Without its version: `@scope/server@1.2`.
    match named.rsplit_once('@') {
        Some((name, _)) if !name.is_empty() => name,
        _ => named,
    }
}

/// Whether an option of one that starts others is one with a value, as far as is known. `-m` of Python has the program.
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
    // A file is a specification, and is read at once: most mistakes are in here.
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

/// Whether a name leads where everybody may go, or nowhere yet. Only what does not needs leave: with it, who owns a name
/// could have it lead to our neighbours later.
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
    // One that is public is enough: who answers with both could mean either.
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.is_empty()
        || addresses.drain(..).any(|one| guard.check_addresses(host, port, &[one]).is_ok())
}

async fn kind_of(text: &str) -> Result<Kind, Failure> {
    Ok(target::read(&options::Target::of(text)).await?.kind)
}

impl Wanted {
    /// Why it cannot be read.
    pub(crate) fn problem(&self) -> Option<String> {
        let sentence = self.kind.as_ref().err()?.sentence();
        let why = sentence.strip_prefix(&format!("{}: ", self.shown));
        Some(why.unwrap_or(&sentence).to_owned())
    }

    /// Whether a source is this target.
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

    /// The source that it becomes.
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

/// An http manifest is at `{url}/tools`.
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
    fn a_program_that_starts_another_gives_the_name_of_that() {
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
    async fn only_what_is_not_public_is_let_through_the_guard() {
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
    async fn a_target_is_known_again_by_its_place() {
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
            // The same URL is the same target, whatever it was taken for.
            let others = all.iter().enumerate().filter(|(other, _)| *other != number);
            let same = others.filter(|(_, other)| other.is(&profile)).count();
            assert_eq!(same, usize::from([0, 2].contains(&number)), "{}", wanted.shown);
        }
        assert!(below.is(&manifest.profile(&id, Kind::HttpManifest)));
        assert!(spec.allow.is_empty());
        assert_eq!(at("http://127.0.0.1:9/", Kind::Mcp).await.allow, ["127.0.0.1:9".into()]);
    }
}
