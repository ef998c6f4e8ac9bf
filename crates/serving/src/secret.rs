//! `toolcrib secret …`: seal, list and remove. A value comes from standard input, never from the command line, where
//! every user of the machine could read it.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use model::SecretRef;
use secrecy::SecretString;
use toolcrib::{JournalPlace, SealingKey, SecretError, Secrets};

use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::journal::{open_or_make, open_to_change, open_to_read};
use crate::out;

/// What a secret may have, a line end, and one byte more, so that too much shows.
const READ_AT_MOST: u64 = (64 << 10) + 3;

pub(crate) async fn set(
    place: &JournalPlace,
    name: &str,
    key: Option<SealingKey>,
) -> Result<Ended, Failure> {
    check_name(name)?;
    // Before anybody types a secret for nothing.
    let key = key.ok_or(SecretError::NoKey)?;
    let value = read_value(name)?;
    let secrets = Secrets::new(open_or_make(place).await?, Some(key), |_| None);
    let reference = secrets.seal(name, &value).await?;
    out::print(&format!("sealed; sources refer to it as `{reference}`"))?;
    Ok(Ended::Fine)
}

pub(crate) async fn list(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    let names = Secrets::new(open_to_read(place).await?, None, |_| None).names().await?;
    if format.json {
        out::print_json(&names)?;
    } else if names.is_empty() {
        out::note("no secret is sealed here");
    } else {
        out::print(&names.iter().map(|name| out::plain(name)).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Ended::Fine)
}

pub(crate) async fn remove(place: &JournalPlace, name: &str, yes: bool) -> Result<Ended, Failure> {
    check_name(name)?;
    let secrets = Secrets::new(open_to_change(place).await?, None, |_| None);
    if !yes && !out::agreed(&format!("Remove the secret `{name}`?")).await? {
        out::note("nothing was changed");
        return Ok(Ended::Fine);
    }
    secrets.remove(name).await?;
    out::print(&format!("removed `{name}`"))?;
    Ok(Ended::Fine)
}

fn check_name(name: &str) -> Result<(), Failure> {
    if let Some(name) = name.strip_prefix("sealed:") {
        return Err(Failure::SecretNamePrefixed { name: name.to_owned() });
    }
    match format!("sealed:{name}").parse::<SecretRef>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::SecretName),
    }
}

/// One line from a terminal, everything from a file or pipe; without the line end.
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
