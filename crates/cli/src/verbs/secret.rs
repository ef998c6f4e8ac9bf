//! `toolcrib secret …`: seals, lists and removes secrets, locally or on a server. Values are read from standard input,
//! never from the command line, where every user of the machine could read them.

use std::io;
use std::io::{IsTerminal as _, Read as _, Write as _};

use axum::http::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toolcrib::{SecretError, SecretStore, SystemClock};
use url::Url;

use crate::admin_client::admin_backend::{AdminBackend, suggest_server};
use crate::arguments::admin_verbs::AdminVerbArgs;
use crate::arguments::secret::{SecretVerb, SetSecretArgs};
use crate::arguments::{JsonFlag, VerbOutcome};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::verbs::journal::{open_or_create, open_to_change, open_to_read};
use crate::{admin_client, output};

/// The maximum size of a secret, a line end, and one byte more, so that a value that is too long is detected.
const MAX_INPUT_BYTES: u64 = (64 << 10) + 3;
/// The API route of secrets.
const SECRETS_PATH: &str = "/api/secrets";

pub(crate) async fn run_secret_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<SecretVerb>,
) -> Result<VerbOutcome, CliError> {
    let server = done.at.server.as_ref();
    match &done.verb {
        SecretVerb::Set(arguments) => set_secret(config, server, arguments).await?,
        SecretVerb::List(format) => list_secrets(config, server, format).await?,
        SecretVerb::Remove { name, yes } => remove_secret(config, server, name, *yes).await?,
    }
    Ok(VerbOutcome::Success)
}

async fn set_secret(
    config: &ProgramConfig,
    server: Option<&Url>,
    given: &SetSecretArgs,
) -> Result<(), CliError> {
    let name = &given.name;
    let reference = SecretStore::sealed_reference(name)?;
    // Check all requirements before the user types the secret.
    if let Some(url) = server {
        let place = AdminBackend::remote(url)?;
        let body = json!({"value": read_value(name)?.expose_secret()});
        place.send(Method::PUT, &secret_path(name), Some(body)).await?;
    } else {
        let key = config.sealing_key(given.sealing_key_file.as_deref())?;
        let key = key.ok_or(SecretError::NoKey)?;
        let value = read_value(name)?;
        let journal = open_or_create(&config.journal).await.map_err(suggest_server)?;
        SecretStore::new(journal, Some(key), SystemClock, |_| None)
            .seal_secret(name, &value)
            .await?;
    }
    output::print_text(&format!("sealed; sources refer to it as `{reference}`"))
}

async fn list_secrets(
    config: &ProgramConfig,
    server: Option<&Url>,
    format: &JsonFlag,
) -> Result<(), CliError> {
    let names = match server {
        Some(url) => {
            let rows =
                admin_client::fetch_all_pages(&AdminBackend::remote(url)?, SECRETS_PATH, &[])
                    .await?;
            let names = rows.iter().filter_map(|row| row["name"].as_str());
            names.map(str::to_owned).collect()
        }
        None => {
            let journal = open_to_read(&config.journal).await?;
            SecretStore::new(journal, None, SystemClock, |_| None).sealed_names().await?
        }
    };
    if format.json {
        return output::print_json(&names);
    }
    if names.is_empty() {
        output::print_note("no secret is sealed here");
        return Ok(());
    }
    output::print_text(
        &names.iter().map(|name| output::escape_for_terminal(name)).collect::<Vec<_>>().join("\n"),
    )
}

async fn remove_secret(
    config: &ProgramConfig,
    server: Option<&Url>,
    name: &str,
    yes: bool,
) -> Result<(), CliError> {
    SecretStore::sealed_reference(name)?;
    if let Some(url) = server {
        let place = AdminBackend::remote(url)?;
        if !confirm_removal(name, yes).await? {
            return Ok(());
        }
        place.send(Method::DELETE, &secret_path(name), None).await?;
    } else {
        let journal = open_to_change(&config.journal).await.map_err(suggest_server)?;
        if !confirm_removal(name, yes).await? {
            return Ok(());
        }
        SecretStore::new(journal, None, SystemClock, |_| None).remove_secret(name).await?;
    }
    output::print_text(&format!("removed `{name}`"))
}

async fn confirm_removal(name: &str, yes: bool) -> Result<bool, CliError> {
    let agreed = yes || output::confirm(&format!("Remove the secret `{name}`?")).await?;
    if !agreed {
        output::print_note("nothing was changed");
    }
    Ok(agreed)
}

fn secret_path(name: &str) -> String {
    format!("{SECRETS_PATH}/{}", admin_client::path_segment(name))
}

/// Reads one line from a terminal, or everything from a file or pipe, without the line end.
fn read_value(name: &str) -> Result<SecretString, CliError> {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    let read = if stdin.is_terminal() {
        let mut stderr = io::stderr();
        drop(
            write!(stderr, "Value of `{name}` (it is shown as you type): ")
                .and_then(|()| stderr.flush()),
        );
        let mut line = String::new();
        stdin.read_line(&mut line).map(|_| bytes = line.into_bytes())
    } else {
        stdin.lock().take(MAX_INPUT_BYTES).read_to_end(&mut bytes).map(drop)
    };
    read.map_err(CliError::SecretInput)?;
    let text = String::from_utf8(bytes).map_err(|_| CliError::SecretNotText)?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}
