//! `toolcrib call`: calls one tool of a target without a server, or prints its request without sending it.

mod arguments;
mod server;
pub(crate) mod shown;

use std::collections::BTreeSet;
use std::time::Instant;

use execution::{
    Answers, Begun, CredentialError, Credentials, HttpTool, HttpToolError, JOB_DEADLINE, Looked,
    Reply, Request, TemplateError, distance,
};
use model::{
    Discovered, Execution, Inventory, Kind, Manifest, Outcome, Primitive, SchemaRef, SecretRef,
    ToolId,
};
use secrecy::SecretString;
use serde_json::{Map, Value};
use toolcrib::{JournalPlace, Secrets, SystemClock};
use upstream::http::{HttpClient, Limits, Origin};

use crate::cli::Ended;
use crate::cli::target as options;
use crate::failure::Failure;
use crate::{config, out, progress, target};

/// Maximum number of similar names suggested for an unknown tool.
const SUGGESTIONS: usize = 3;

pub(crate) async fn call(given: &options::Call) -> Result<Ended, Failure> {
    let name = given.tool.as_str();
    if name.is_empty() {
        let given = target::shown(given.target.target.as_deref().unwrap_or_default());
        return Err(Failure::ToolMissing { given });
    }
    target::warn(&given.target);
    let credentials = credentials(&given.target.credentials).await?;
    let target = target::read(&given.target).await?;
    let (id, tool) = find(&target.found.inventory, name)?;
    let schema = tool.schema(&tool.manifest.input_schema).to_value();
    let arguments = arguments::read(given, &schema).await?;
    if let Some(connection) = &target.connection {
        return server::call(given, id, &tool.manifest, &schema, arguments, connection).await;
    }
    let answers = match target.kind {
        Kind::HttpManifest => Answers::ToolResult,
        _ => Answers::Api,
    };
    let tool = HttpTool::compile(id.clone(), &tool.manifest, &schema, answers)
        .map_err(|error| not_callable(&tool.manifest, error))?;
    tool.check(&arguments).map_err(|problems| Failure::Arguments {
        tool: name.to_owned(),
        problems: problems.iter().map(ToString::to_string).collect(),
    })?;
    warn_of_unknown_schemes(&tool, &credentials);
    let request = tool.request(&arguments).map_err(Failure::Request)?;
    if given.dry_run {
        return dry_run(given, &tool, request, credentials, target.origin.as_ref());
    }
    let request = authorised(&tool, request, &credentials, target.origin.as_ref())?;
    let limits = target::limits(&given.target, Limits::default());
    let client = target::client(&given.target);
    let sending = Sending { tool: &tool, client, limits, origin: target.origin, credentials };
    let sent = sending.send(&arguments, request);
    let outcome = progress::during("waiting for the answer", sent).await?;
    shown::outcome(&outcome, given.json.json)
}

/// The state that all requests of one call to an HTTP tool share.
struct Sending<'a> {
    tool: &'a HttpTool,
    client: HttpClient,
    limits: Limits,
    origin: Option<Origin>,
    credentials: Credentials,
}

impl Sending<'_> {
    /// Sends the first request and polls the job that it starts until the job ends or its deadline passes.
    async fn send(
        &self,
        arguments: &Map<String, Value>,
        request: Request,
    ) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let reply = self.once(request).await;
        let mut job = match self.tool.begun(start, arguments, reply) {
            Begun::Over(outcome, _) => return Ok(*outcome),
            Begun::Goes(job) => job,
        };
        while let Some(wait) = job.wait().filter(|_| start.elapsed() < JOB_DEADLINE) {
            tokio::time::sleep(wait).await;
            let mut request = job.status();
            self.tool
                .authorise(&mut request, &self.credentials, self.origin.as_ref())
                .map_err(Failure::Credential)?;
            match job.heard(self.once(request).await) {
                Looked::Over(outcome, _) | Looked::GivenUp(outcome) => return Ok(*outcome),
                Looked::Goes(_) | Looked::SentOn => {}
            }
        }
        Ok(job.out_of_time())
    }

    async fn once(&self, request: Request) -> Reply {
        self.tool.send(&self.client, self.limits, request, self.credentials.clone()).await
    }
}

fn dry_run(
    given: &options::Call,
    tool: &HttpTool,
    request: Request,
    credentials: Credentials,
    origin: Option<&Origin>,
) -> Result<Ended, Failure> {
    if given.show_secrets || credentials.is_empty() {
        let request = authorised(tool, request, &credentials, origin)?;
        shown::request(&shown::Shown::of(&request), given.json.json)?;
        return Ok(Ended::Fine);
    }
    let hidden = |scheme: String| (scheme, SecretString::from(shown::PLACEHOLDER));
    let hidden: Credentials = credentials.into_keys().map(hidden).collect();
    let request = authorised(tool, request, &hidden, origin)?;
    shown::request(&shown::Shown::without_secrets(&request), given.json.json)?;
    out::note("secrets are shown as ***; --show-secrets shows them");
    Ok(Ended::Fine)
}

/// Adds credentials to the request. If required ones are missing, the request is sent anyway: many specifications
/// demand more credentials than the API needs.
fn authorised(
    tool: &HttpTool,
    mut request: Request,
    credentials: &Credentials,
    origin: Option<&Origin>,
) -> Result<Request, Failure> {
    let met = tool.authorise(&mut request, credentials, origin).map_err(|error| match error {
        CredentialError::Origin { to, from } => Failure::OtherOrigin { to, from },
        error => Failure::Credential(error),
    })?;
    if !met {
        let wanted: Vec<String> =
            tool.security().alternatives().map(|schemes| schemes.join(" and ")).collect();
        let wanted = wanted.join(", or ");
        out::note(&format!(
            "note: the tool asks for a credential that is not given ({wanted}): see --credential"
        ));
    }
    Ok(request)
}

/// Notes each credential that the tool has no security scheme for. It is never sent; most likely its name is wrong.
fn warn_of_unknown_schemes(tool: &HttpTool, credentials: &Credentials) {
    let known: BTreeSet<&str> = tool.security().alternatives().flatten().collect();
    for scheme in credentials.keys().filter(|scheme| !known.contains(scheme.as_str())) {
        let known = match known.is_empty() {
            true => "it asks for none".to_owned(),
            false => format!("it has {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
        };
        out::note(&format!("note: the tool has no security scheme `{scheme}`: {known}"));
    }
}

/// Resolves `SCHEME=REF` options. An invalid reference may be the secret itself, so errors do not repeat it.
async fn credentials(given: &[String]) -> Result<Credentials, Failure> {
    let mut credentials = Credentials::new();
    if given.is_empty() {
        return Ok(credentials);
    }
    let journal = JournalPlace::Memory.open(SystemClock).await?;
    let secrets = Secrets::new(journal, None, SystemClock, config::variable_of_user);
    for text in given {
        let (scheme, reference) = text.split_once('=').ok_or(Failure::CredentialOption)?;
        let reference: SecretRef = reference.parse().map_err(|_| Failure::CredentialOption)?;
        if matches!(reference, SecretRef::Sealed(_)) {
            return Err(Failure::CredentialOption);
        }
        credentials.insert(scheme.to_owned(), secrets.read(&reference).await?);
    }
    Ok(credentials)
}

/// Finds a tool by its name or by its key.
fn find<'a>(inventory: &'a Inventory, name: &str) -> Result<(&'a ToolId, &'a Discovered), Failure> {
    let is_it = |(id, tool): &(&ToolId, &Discovered)| {
        (&*tool.manifest.name == name || id.key() == name)
            && tool.manifest.execution.primitive() == Primitive::Tool
    };
    inventory.tools.iter().find(is_it).ok_or_else(|| {
        let names = inventory.tools.values().map(|tool| &*tool.manifest.name);
        Failure::NoSuchTool { name: name.to_owned(), near: near(name, names) }
    })
}

/// The known names closest to the given one.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let contains = |known: &str| known.to_lowercase().contains(&name.to_lowercase());
    let mut near: Vec<(usize, &str)> = known
        .map(|known| (distance(name, known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 3 || contains(known))
        .collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

fn not_callable(tool: &Manifest<SchemaRef>, source: HttpToolError) -> Failure {
    match (&source, &tool.execution) {
        (HttpToolError::Template(TemplateError::Address { .. }), Execution::SyncHttp(request))
            if request.url_template.starts_with('/') =>
        {
            Failure::NoBaseUrl
        }
        _ => Failure::NotCallable { tool: tool.name.to_string(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_url_without_a_host_requires_a_base_url() {
        let failure = |url: &str| {
            let execution = serde_json::json!({"mode": "sync_http", "url_template": url});
            let manifest = serde_json::json!({
                "name": "a", "method": "GET", "path": "/a", "input_schema": {"inline": {}},
                "execution": execution,
            });
            let manifest: Manifest<SchemaRef> = serde_json::from_value(manifest).unwrap();
            let id = "s:a".parse().unwrap();
            let tool = HttpTool::compile(id, &manifest, &serde_json::json!({}), Answers::Api);
            not_callable(&manifest, tool.err().unwrap())
        };
        assert!(matches!(failure("/orders"), Failure::NoBaseUrl));
        assert!(matches!(failure("https://a.example/../b"), Failure::NotCallable { .. }));
        assert!(matches!(failure("ftp://a.example/"), Failure::NotCallable { .. }));
    }
}
