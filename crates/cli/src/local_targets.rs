//! Targets of `serve` and `stdio`: sources that the user names on the command line, without a configuration.
//!
//! Documents are read before the journal is opened, so that a mistake leaves nothing behind. A target may be anywhere,
//! also on this machine: the egress guard applies to addresses that specifications and upstreams name.

pub(crate) mod example_call;
pub(crate) mod register_targets;

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use model::{
    Isolation, Lifecycle, OpenapiSettings, SourceId, SourceKind, SourceProfile, SourceSettings,
    SourceUrl, SpecificationLocation, StdioCommand,
};
use serde_json::json;
use upstream::egress::EgressPolicy;

use crate::arguments::target_args::{TargetArg, TargetArgs};
use crate::arguments::target_options as options;
use crate::cli_error::CliError;
use crate::{environment, inspected_target, shell_text};

/// Time-out of a DNS lookup.
const DNS_TIMEOUT: Duration = Duration::from_secs(5);

/// A target to serve.
pub(crate) struct LocalTarget {
    /// The target as printed for the user.
    pub(crate) display_text: String,
    /// The proposed source id.
    proposed_id: SourceId,
    location: TargetLocation,
    /// The kind of the source, or the error of its detection.
    kind: Result<SourceKind, CliError>,
    allow: Vec<Box<str>>,
}

/// The location of a target, which identifies it in later runs.
enum TargetLocation {
    File(Box<str>),
    Url(SourceUrl),
    Program(StdioCommand),
}

/// Detects the kinds of all targets.
pub(crate) async fn inspect_targets(targets: &TargetArgs) -> Result<Vec<LocalTarget>, CliError> {
    let mut all = Vec::new();
    for given in targets.all_targets() {
        let mut wanted = match given {
            TargetArg::Program(words) => program_target(&words)?,
            TargetArg::Location(text, kind) => located_target(&text, kind).await?,
        };
        wanted.allow.extend(targets.allow.iter().map(|allowed| allowed.to_string().into()));
        all.push(wanted);
    }
    Ok(all)
}

/// The programs among the targets; they may be started because the user named them.
pub(crate) fn target_programs(wanted: &[LocalTarget]) -> Vec<StdioCommand> {
    let programs = wanted.iter().filter_map(|wanted| match &wanted.location {
        TargetLocation::Program(command) => Some(command.clone()),
        TargetLocation::File(_) | TargetLocation::Url(_) => None,
    });
    programs.collect()
}

fn program_target(words: &[String]) -> Result<LocalTarget, CliError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(CliError::CommandMissing);
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
        environment: environment::minimal_environment_refs(),
        directory: folder.map(|folder| folder.to_string_lossy().into()),
        sandbox: None,
    };
    let (shown, name) = (
        format!("-- {}", words.join(" ")),
        inspected_target::propose_source_id(naming_word(words)),
    );
    let (place, kind) = (TargetLocation::Program(command), Ok(SourceKind::Mcp));
    Ok(LocalTarget {
        display_text: shown,
        proposed_id: name,
        location: place,
        kind,
        allow: Vec::new(),
    })
}

/// The word that names a program; for a launcher such as `npx -y`, the word that names the launched program.
fn naming_word(words: &[String]) -> &str {
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

async fn located_target(text: &str, kind: Option<SourceKind>) -> Result<LocalTarget, CliError> {
    let (shown, name) =
        (shell_text::display_target(text), inspected_target::propose_source_id(text));
    if crate::shell_text::is_url(text) {
        let url: SourceUrl = text.parse().map_err(CliError::TargetUrl)?;
        let kind = match kind {
            Some(kind) => Ok(kind),
            None if inspected_target::is_likely_mcp_url(&url) => Ok(SourceKind::Mcp),
            None => detect_kind(text).await,
        };
        let allow = match is_public(&url).await {
            true => None,
            false => {
                inspected_target::allowed_by_user(text).map(|origin| origin.to_string().into())
            }
        };
        let allow = allow.into_iter().collect();
        return Ok(LocalTarget {
            display_text: shown,
            proposed_id: name,
            location: TargetLocation::Url(url),
            kind,
            allow,
        });
    }
    // Files are specifications. They are read at once: most mistakes are in them.
    let kind = match (kind, detect_kind(text).await) {
        (Some(SourceKind::HttpManifest), _) | (None, Ok(SourceKind::HttpManifest)) => {
            Err(CliError::ManifestInFile { file: shown.clone() })
        }
        (_, kind) => kind,
    };
    let path = Path::new(text);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let place = TargetLocation::File(path.to_string_lossy().into());
    Ok(LocalTarget {
        display_text: shown,
        proposed_id: name,
        location: place,
        kind,
        allow: Vec::new(),
    })
}

/// Whether a host is public, or does not resolve yet. Only hosts that are not public are allowed explicitly: otherwise,
/// the owner of the name could later redirect it to addresses in our network.
async fn is_public(url: &SourceUrl) -> bool {
    let guard = EgressPolicy { allow_private: false, allowed: Vec::new() };
    let url = url.as_url();
    if guard.check_url(url).is_err() {
        return false;
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return true;
    };
    let found = tokio::time::timeout(DNS_TIMEOUT, tokio::net::lookup_host((host, port)));
    let Ok(Ok(found)) = found.await else { return true };
    // One public address is enough: a name that resolves to both kinds could be either.
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.is_empty()
        || addresses.drain(..).any(|one| guard.check_addresses(host, port, &[one]).is_ok())
}

async fn detect_kind(text: &str) -> Result<SourceKind, CliError> {
    Ok(inspected_target::inspect_target(&options::TargetOptions::for_target(text)).await?.kind)
}

impl LocalTarget {
    /// The reason why the target cannot be read.
    pub(crate) fn problem(&self) -> Option<String> {
        let sentence = self.kind.as_ref().err()?.full_message();
        let why = sentence.strip_prefix(&format!("{}: ", self.display_text));
        Some(why.unwrap_or(&sentence).to_owned())
    }

    /// Whether a source has this target's location.
    fn is_source(&self, profile: &SourceProfile) -> bool {
        match (&self.location, &profile.settings) {
            (TargetLocation::File(path), SourceSettings::Openapi(openapi)) => {
                matches!(&openapi.specification, Some(SpecificationLocation::File(known)) if known == path)
            }
            (
                TargetLocation::Program(wanted),
                SourceSettings::Mcp { command: Some(command), .. },
            ) => command.has_same_invocation(wanted),
            (TargetLocation::Url(url), SourceSettings::HttpManifest {}) => {
                profile.url.as_ref() == Some(&manifest_base_url(url))
            }
            (TargetLocation::Url(url), SourceSettings::Openapi(openapi)) => {
                openapi.specification.is_none() && profile.url.as_ref() == Some(url)
            }
            (TargetLocation::Url(url), SourceSettings::Mcp { command: None, .. }) => {
                profile.url.as_ref() == Some(url)
            }
            (TargetLocation::File(_) | TargetLocation::Program(_) | TargetLocation::Url(_), _) => {
                false
            }
        }
    }

    /// The profile of the source for this target.
    fn source_profile(&self, id: &SourceId, kind: SourceKind) -> SourceProfile {
        let (settings, url) = match &self.location {
            TargetLocation::File(path) => {
                let specification = Some(SpecificationLocation::File(path.clone()));
                let settings = OpenapiSettings { specification, ..OpenapiSettings::default() };
                (SourceSettings::Openapi(settings), None)
            }
            TargetLocation::Program(command) => (mcp_settings(Some(command.clone())), None),
            TargetLocation::Url(url) => match kind {
                SourceKind::Mcp => (mcp_settings(None), Some(url.clone())),
                SourceKind::HttpManifest => {
                    (SourceSettings::HttpManifest {}, Some(manifest_base_url(url)))
                }
                _ => (SourceSettings::Openapi(OpenapiSettings::default()), Some(url.clone())),
            },
        };
        let said = json!({"name": id, "settings": settings, "url": url, "allow": self.allow});
        serde_json::from_value(said).expect("a profile that was put together here is one")
    }
}

fn mcp_settings(command: Option<StdioCommand>) -> SourceSettings {
    SourceSettings::Mcp {
        command,
        lifecycle: Lifecycle::default(),
        isolation: Isolation::default(),
    }
}

/// The base URL of an http manifest, which is at `{url}/tools`.
fn manifest_base_url(url: &SourceUrl) -> SourceUrl {
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
            assert_eq!(
                inspected_target::propose_source_id(naming_word(&words)).as_str(),
                name,
                "{line}"
            );
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
        let at = |text: &'static str, kind| async move {
            located_target(text, Some(kind)).await.unwrap()
        };
        let id: SourceId = "x".parse().unwrap();
        let spec = at("https://a.example/openapi.json", SourceKind::Openapi).await;
        let manifest = at("https://a.example/v1/tools", SourceKind::HttpManifest).await;
        let below = at("https://a.example/v1", SourceKind::HttpManifest).await;
        let server = at("https://a.example/openapi.json", SourceKind::Mcp).await;
        let run =
            |line: &str| program_target(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (one, other) = (run("npx -y a").unwrap(), run("npx -y b").unwrap());
        let all = [&spec, &manifest, &server, &one, &other];
        for (number, wanted) in all.iter().enumerate() {
            let profile = wanted.source_profile(&id, *wanted.kind.as_ref().unwrap());
            assert!(wanted.is_source(&profile), "{}", wanted.display_text);
            // Targets with equal URLs are the same, regardless of their detected kind.
            let others = all.iter().enumerate().filter(|(other, _)| *other != number);
            let same = others.filter(|(_, other)| other.is_source(&profile)).count();
            assert_eq!(same, usize::from([0, 2].contains(&number)), "{}", wanted.display_text);
        }
        assert!(below.is_source(&manifest.source_profile(&id, SourceKind::HttpManifest)));
        assert!(spec.allow.is_empty());
        assert_eq!(at("http://127.0.0.1:9/", SourceKind::Mcp).await.allow, ["127.0.0.1:9".into()]);
    }
}
