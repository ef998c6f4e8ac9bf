//! The address of a source's MCP server, and the credentials for it.

use std::collections::BTreeMap;
use std::ffi::OsString;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_client::McpTarget;
use model::secret_ref::is_secret_name;
use model::{ApiKeyLocation, SecretRef, SourceProfile, SourceSettings, StdioCommand, UpstreamAuth};
use secrecy::{ExposeSecret as _, SecretString};
use upstream::http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use upstream::http::{ClientTlsCertificate, HttpClient};
use upstream::stdio::{ProgramSpec, SandboxPaths};

use super::{ProgramHost, UpstreamError};
use crate::secrets::SecretStore;

/// The environment of a program.
pub(super) type ProgramEnvironment = BTreeMap<Box<str>, SecretString>;

/// The current secrets of a source.
pub(super) struct TargetCredentials {
    headers: HeaderMap,
    /// The values that the server must not repeat.
    masked: Vec<SecretString>,
    environment: ProgramEnvironment,
    /// A certificate chain and its key.
    certificate: Option<(SecretString, SecretString)>,
}

impl PartialEq for TargetCredentials {
    fn eq(&self, other: &Self) -> bool {
        fn environment_pairs(shown: &TargetCredentials) -> impl Iterator<Item = (&str, &str)> {
            shown.environment.iter().map(|(name, value)| (&**name, value.expose_secret()))
        }
        fn certificate_pair(shown: &TargetCredentials) -> Option<(&str, &str)> {
            let (chain, key) = shown.certificate.as_ref()?;
            Some((chain.expose_secret(), key.expose_secret()))
        }
        self.headers == other.headers
            && environment_pairs(self).eq(environment_pairs(other))
            && certificate_pair(self) == certificate_pair(other)
    }
}

impl TargetCredentials {
    pub(super) async fn read_for(
        profile: &SourceProfile,
        secrets: Option<&SecretStore>,
    ) -> Result<Self, UpstreamError> {
        let command = stdio_command(profile);
        let environment = match command {
            Some(command) => read_environment(command, secrets).await?,
            None => ProgramEnvironment::new(),
        };
        let certificate = match &profile.client_certificate {
            Some(it) => {
                Some((read_secret(&it.chain, secrets).await?, read_secret(&it.key, secrets).await?))
            }
            None => None,
        };
        let (headers, mut hidden) = auth_headers(&profile.auth, secrets).await?;
        let variables = command.into_iter().flat_map(|command| &command.environment);
        let secret = variables.filter(|(name, from)| is_secret_variable(name, from));
        hidden.extend(secret.filter_map(|(name, _)| environment.get(name).cloned()));
        Ok(Self { headers, masked: hidden, environment, certificate })
    }

    pub(super) fn masked(&self) -> &[SecretString] {
        &self.masked
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.environment.is_empty() && self.certificate.is_none()
    }
}

/// Whether the whole value of a variable is a secret. Programs get their entire environment by reference, including
/// `HOME` or `production` as a mode: such words must stay readable in their output.
fn is_secret_variable(name: &str, from: &SecretRef) -> bool {
    match from {
        SecretRef::Env(variable) => is_secret_name(name) || is_secret_name(variable),
        SecretRef::File(_) | SecretRef::Sealed(_) => true,
    }
}

fn stdio_command(profile: &SourceProfile) -> Option<&StdioCommand> {
    match &profile.settings {
        SourceSettings::Mcp { command, .. } => command.as_ref(),
        _ => None,
    }
}

async fn read_secret(
    secret: &SecretRef,
    secrets: Option<&SecretStore>,
) -> Result<SecretString, UpstreamError> {
    Ok(secrets.ok_or(UpstreamError::NoSecrets)?.read_secret(secret).await?)
}

/// The header of a credential, and the secrets in it.
async fn auth_headers(
    auth: &UpstreamAuth,
    secrets: Option<&SecretStore>,
) -> Result<(HeaderMap, Vec<SecretString>), UpstreamError> {
    let (name, text, hidden) = match auth {
        // A requested token is given to the connection, and to each call.
        UpstreamAuth::None
        | UpstreamAuth::ClientCredentials { .. }
        | UpstreamAuth::TokenExchange { .. }
        | UpstreamAuth::McpOauth { .. }
        | UpstreamAuth::McpEnterprise { .. } => {
            return Ok((HeaderMap::new(), Vec::new()));
        }
        UpstreamAuth::Bearer { token } => {
            let token = read_secret(token, secrets).await?;
            ("authorization", format!("Bearer {}", token.expose_secret()), vec![token])
        }
        UpstreamAuth::Basic { username, password } => {
            let password = read_secret(password, secrets).await?;
            let pair = format!("{username}:{}", password.expose_secret());
            let text = format!("Basic {}", STANDARD.encode(&pair));
            ("authorization", text, vec![pair.into(), password])
        }
        UpstreamAuth::ApiKey { location: ApiKeyLocation::Header, name, value } => {
            let value = read_secret(value, secrets).await?;
            (&**name, value.expose_secret().to_owned(), vec![value])
        }
        UpstreamAuth::ApiKey { location: ApiKeyLocation::Cookie, name, value } => {
            let value = read_secret(value, secrets).await?;
            ("cookie", format!("{name}={}", value.expose_secret()), vec![value])
        }
        UpstreamAuth::ApiKey { location: ApiKeyLocation::Query, .. } => {
            return Err(UpstreamError::NotThisAuth { kind: "api_key in the query" });
        }
    };
    let odd = || UpstreamError::NotAHeader { name: name.into() };
    let named = match name {
        "authorization" => AUTHORIZATION,
        name => HeaderName::try_from(name).map_err(|_| odd())?,
    };
    let mut value = HeaderValue::try_from(text).map_err(|_| odd())?;
    value.set_sensitive(true);
    Ok((HeaderMap::from_iter([(named, value)]), hidden))
}

fn to_sandbox(said: &model::CommandSandbox) -> SandboxPaths {
    let paths = |said: &[Box<str>]| said.iter().map(|path| path.to_string().into()).collect();
    SandboxPaths { read: paths(&said.read), write: paths(&said.write) }
}

/// Checks again at use, because a source may have been registered before its settings became invalid.
pub(super) fn check_profile(profile: &SourceProfile) -> Result<(), UpstreamError> {
    stdio_command(profile).map_or(Ok(()), check_command)
}

pub(super) fn check_command(command: &StdioCommand) -> Result<(), UpstreamError> {
    let problems = command.find_problems();
    problems.into_iter().next().map_or(Ok(()), |problem| Err(problem.into()))
}

pub(super) fn resolve_target(
    profile: &SourceProfile,
    shown: &TargetCredentials,
    client: &HttpClient,
    host: &ProgramHost,
) -> Result<McpTarget, UpstreamError> {
    if let Some(command) = stdio_command(profile) {
        return Ok(McpTarget::Program(build_program(command, &shown.environment, host)?));
    }
    let url = profile.url.as_ref().ok_or(UpstreamError::Nowhere)?.as_url().clone();
    let mut client = client.with_allowed_texts(&profile.allow)?;
    if let Some((chain, key)) = &shown.certificate {
        let identity = ClientTlsCertificate::from_pem(chain.expose_secret(), key.expose_secret())?;
        client = client.with_client_certificate(identity, Some(url.origin()));
    }
    Ok(McpTarget::Http { client, url, headers: shown.headers.clone() })
}

/// Prepares a program for starting, if this host allows it.
pub(super) fn build_program(
    command: &StdioCommand,
    environment: &ProgramEnvironment,
    host: &ProgramHost,
) -> Result<ProgramSpec, UpstreamError> {
    if !host.allows_command(command) {
        return Err(UpstreamError::NoPrograms);
    }
    // Hardly any program works without it: it also resolves the programs that it starts itself.
    let path = host.search_path.clone().map(|path| (OsString::from("PATH"), path));
    let environment = environment
        .iter()
        .map(|(name, value)| (OsString::from(&**name), OsString::from(value.expose_secret())));
    Ok(ProgramSpec {
        command: command.program.to_string().into(),
        arguments: command.arguments.iter().map(|text| OsString::from(&**text)).collect(),
        environment: path.into_iter().chain(environment).collect(),
        working_directory: command.directory.as_ref().map(|folder| folder.to_string().into()),
        search_path: host.search_path.clone(),
        binder: host.bound_by.clone(),
        hidden: host.hidden.clone(),
        sandbox: command.sandbox.as_ref().map(to_sandbox),
        stderr: None,
    })
}

/// Reads the environment of a command, including its secrets.
pub(super) async fn read_environment(
    command: &StdioCommand,
    secrets: Option<&SecretStore>,
) -> Result<ProgramEnvironment, UpstreamError> {
    let mut environment = ProgramEnvironment::new();
    for (name, secret) in &command.environment {
        environment.insert(name.clone(), read_secret(secret, secrets).await?);
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use catalog::clock::SystemClock;
    use serde_json::json;
    use upstream::egress::EgressPolicy;

    use super::*;
    use crate::journal_location::JournalLocation;

    #[tokio::test]
    async fn a_program_is_started_only_where_the_host_allows_it() {
        let profile =
            json!({"name": "Files", "settings": {"kind": "mcp", "command": {"program": "files"}}});
        let profile: SourceProfile = serde_json::from_value(profile).unwrap();
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let shown = TargetCredentials::read_for(&profile, None).await.unwrap();
        let at = |host: &ProgramHost| resolve_target(&profile, &shown, &client, host);
        assert!(matches!(at(&ProgramHost::default()), Err(UpstreamError::NoPrograms)));
        let search_path = Some("/bin".into());
        let open = ProgramHost { allows_any: true, search_path, ..ProgramHost::default() };
        let Ok(McpTarget::Program(program)) = at(&open) else { panic!("no program") };
        let named = |program: &str, directory: Option<&str>| {
            let command = json!({"program": program, "directory": directory});
            let named = vec![serde_json::from_value(command).unwrap()];
            at(&ProgramHost { allowed_commands: named, ..ProgramHost::default() })
        };
        assert!(named("files", None).is_ok());
        for other in [named("pipes", None), named("files", Some("/srv"))] {
            assert!(matches!(other, Err(UpstreamError::NoPrograms)));
        }
        let path = (OsString::from("PATH"), OsString::from("/bin"));
        assert_eq!(program.environment.into_iter().collect::<Vec<_>>(), [path]);
    }

    #[tokio::test]
    async fn a_program_cannot_access_hidden_paths_that_its_source_does_not_name() {
        let sandbox = json!({"read": ["/srv"], "write": ["/data"]});
        let command = json!({"program": "files", "sandbox": sandbox});
        let profile = json!({"name": "Files", "settings": {"kind": "mcp", "command": command}});
        let profile: SourceProfile = serde_json::from_value(profile).unwrap();
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let shown = TargetCredentials::read_for(&profile, None).await.unwrap();
        let hidden = vec!["/var/lib/crib".into()];
        let host = ProgramHost { allows_any: true, hidden, ..ProgramHost::default() };
        let Ok(McpTarget::Program(program)) = resolve_target(&profile, &shown, &client, &host)
        else {
            panic!("no program")
        };
        assert_eq!(program.hidden, host.hidden);
        let sandbox = SandboxPaths { read: vec!["/srv".into()], write: vec!["/data".into()] };
        assert_eq!(program.sandbox, Some(sandbox));
    }

    #[tokio::test]
    async fn secrets_in_a_programs_environment_are_masked() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"of-a-file").unwrap();
        let file = format!("file:{}", file.path().display());
        let environment = json!({"GITHUB_TOKEN": "env:A", "DATABASE": "env:DB_PASSWORD",
            "CONFIG": file, "HOME": "env:HOME", "NODE_ENV": "env:B"});
        let command = json!({"program": "files", "environment": environment});
        let profile = json!({"name": "Files", "settings": {"kind": "mcp", "command": command}});
        let profile: SourceProfile = serde_json::from_value(profile).unwrap();
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let secrets =
            SecretStore::new(journal, None, SystemClock, |name| Some(format!("value of {name}")));
        let shown = TargetCredentials::read_for(&profile, Some(&secrets)).await.unwrap();
        let hidden: Vec<_> = shown.masked().iter().map(SecretString::expose_secret).collect();
        assert_eq!(hidden, ["of-a-file", "value of DB_PASSWORD", "value of A"]);
        assert_eq!(shown.environment.len(), 5);
    }

    #[test]
    fn a_registered_program_with_a_forbidden_command_is_not_started() {
        let check = |environment| {
            let command = json!({"program": "files", "environment": environment});
            let profile = json!({"name": "Files", "settings": {"kind": "mcp", "command": command}});
            check_profile(&serde_json::from_value(profile).unwrap())
        };
        assert!(check(json!({"NODE_ENV": "env:A"})).is_ok());
        let refused = check(json!({"NODE_OPTIONS": "env:A"})).unwrap_err().to_string();
        let expected = "`environment.NODE_OPTIONS` of the command: may not be set: it can make Node.js run other code";
        assert!(refused.starts_with(expected), "{refused}");
    }
}
