//! `toolcrib secret …`: seals, lists and removes secrets, locally or on a server. Values are read from standard input,
//! never from the command line, where every user of the machine could read them.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use axum::http::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toolcrib::{SecretError, Secrets, SystemClock};
use url::Url;

use crate::cli::secret::{SecretVerb, SetSecret};
use crate::cli::things::Done;
use crate::cli::{Ended, Json};
use crate::config::Config;
use crate::counter;
use crate::counter::place::{Place, in_use};
use crate::failure::Failure;
use crate::journal::{open_or_make, open_to_change, open_to_read};
use crate::out;

/// The maximum size of a secret, a line end, and one byte more, so that a value that is too long is detected.
const READ_AT_MOST: u64 = (64 << 10) + 3;
/// The API route of secrets.
const PATH: &str = "/api/secrets";

pub(crate) async fn secret(config: &Config, done: &Done<SecretVerb>) -> Result<Ended, Failure> {
    let server = done.at.server.as_ref();
    match &done.verb {
        SecretVerb::Set(arguments) => set(config, server, arguments).await?,
        SecretVerb::List(format) => list(config, server, format).await?,
        SecretVerb::Remove { name, yes } => remove(config, server, name, *yes).await?,
    }
    Ok(Ended::Fine)
}

async fn set(config: &Config, server: Option<&Url>, given: &SetSecret) -> Result<(), Failure> {
    let name = &given.name;
    let reference = Secrets::reference(name)?;
    // Check all requirements before the user types the secret.
    if let Some(url) = server {
        let place = Place::server(url)?;
        let body = json!({"value": read_value(name)?.expose_secret()});
        place.ask(Method::PUT, &path(name), Some(body)).await?;
    } else {
        let key = config.sealing_key(given.sealing_key_file.as_deref())?;
        let key = key.ok_or(SecretError::NoKey)?;
        let value = read_value(name)?;
        let journal = open_or_make(&config.journal).await.map_err(in_use)?;
        Secrets::new(journal, Some(key), SystemClock, |_| None).seal(name, &value).await?;
    }
    out::print(&format!("sealed; sources refer to it as `{reference}`"))
}

async fn list(config: &Config, server: Option<&Url>, format: &Json) -> Result<(), Failure> {
    let names = match server {
        Some(url) => {
            let rows = counter::all(&Place::server(url)?, PATH, &[]).await?;
            let names = rows.iter().filter_map(|row| row["name"].as_str());
            names.map(str::to_owned).collect()
        }
        None => {
            let journal = open_to_read(&config.journal).await?;
            Secrets::new(journal, None, SystemClock, |_| None).names().await?
        }
    };
    if format.json {
        return out::print_json(&names);
    }
    if names.is_empty() {
        out::note("no secret is sealed here");
        return Ok(());
    }
    out::print(&names.iter().map(|name| out::plain(name)).collect::<Vec<_>>().join("\n"))
}

async fn remove(
    config: &Config,
    server: Option<&Url>,
    name: &str,
    yes: bool,
) -> Result<(), Failure> {
    Secrets::reference(name)?;
    if let Some(url) = server {
        let place = Place::server(url)?;
        if !agreed(name, yes).await? {
            return Ok(());
        }
        place.ask(Method::DELETE, &path(name), None).await?;
    } else {
        let journal = open_to_change(&config.journal).await.map_err(in_use)?;
        if !agreed(name, yes).await? {
            return Ok(());
        }
        Secrets::new(journal, None, SystemClock, |_| None).remove(name).await?;
    }
    out::print(&format!("removed `{name}`"))
}

async fn agreed(name: &str, yes: bool) -> Result<bool, Failure> {
    let agreed = yes || out::agreed(&format!("Remove the secret `{name}`?")).await?;
    if !agreed {
        out::note("nothing was changed");
    }
    Ok(agreed)
}

fn path(name: &str) -> String {
    format!("{PATH}/{}", counter::segment(name))
}

/// Reads one line from a terminal, or everything from a file or pipe, without the line end.
fn read_value(name: &str) -> Result<SecretString, Failure> {
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
        stdin.lock().take(READ_AT_MOST).read_to_end(&mut bytes).map(drop)
    };
    read.map_err(Failure::SecretInput)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::SecretNotText)?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}
