//! `toolcrib call`: calls one tool of a target without a server, or prints its request without sending it.

mod call_arguments;
pub(crate) mod call_output;
mod mcp_call;

use std::collections::BTreeSet;
use std::time::Instant;

use api_types::request_preview::{PLACEHOLDER, RequestPreview};
use execution::{
    CredentialError, Credentials, HttpTool, HttpToolError, HttpToolResponse, JOB_DEADLINE,
    JobStart, PollResult, RenderedRequest, TemplateError, UpstreamReply, edit_distance,
};
use model::{
    DiscoveredTool, Execution, Inventory, Manifest, McpPrimitive, Outcome, SchemaRef, SecretRef,
    SourceKind, ToolId,
};
use secrecy::SecretString;
use serde_json::{Map, Value};
use toolcrib::{JournalLocation, SecretStore, SystemClock};
use upstream::http::{ExchangeLimits, HttpClient, Origin};

use crate::arguments::{VerbOutcome, target_options as options};
use crate::cli_error::CliError;
use crate::{environment, inspected_target, output, progress, shell_text};

/// Maximum number of similar names suggested for an unknown tool.
const SUGGESTIONS: usize = 3;

pub(crate) async fn call_target_tool(given: &options::CallArgs) -> Result<VerbOutcome, CliError> {
    let name = given.tool.as_str();
    if name.is_empty() {
        let given = shell_text::display_target(given.target.target.as_deref().unwrap_or_default());
        return Err(CliError::ToolMissing { given });
    }
    inspected_target::warn_allow_private(&given.target);
    let credentials = resolve_credentials(&given.target.credentials).await?;
    let target = inspected_target::inspect_target(&given.target).await?;
    let (id, tool) = find_tool(&target.found.inventory, name)?;
    let schema = tool.schema(&tool.manifest.input_schema).to_value();
    let arguments = call_arguments::read_call_arguments(given, &schema).await?;
    if let Some(connection) = &target.connection {
        return mcp_call::call_mcp_tool(given, id, &tool.manifest, &schema, arguments, connection)
            .await;
    }
    let answers = match target.kind {
        SourceKind::HttpManifest => HttpToolResponse::ToolResult,
        _ => HttpToolResponse::Api,
    };
    let tool = HttpTool::compile(id.clone(), &tool.manifest, &schema, answers)
        .map_err(|error| compile_failure(&tool.manifest, error))?;
    tool.check_arguments(&arguments).map_err(|problems| CliError::Arguments {
        tool: name.to_owned(),
        problems: problems.iter().map(ToString::to_string).collect(),
    })?;
    warn_of_unknown_schemes(&tool, &credentials);
    let request = tool.render_request(&arguments).map_err(CliError::InvalidRequest)?;
    if given.dry_run {
        return print_dry_run(given, &tool, request, credentials, target.origin.as_ref());
    }
    let request = add_credentials(&tool, request, &credentials, target.origin.as_ref())?;
    let limits = inspected_target::http_limits(&given.target, ExchangeLimits::default());
    let client = inspected_target::target_http_client(&given.target);
    let sending =
        DirectHttpCall { tool: &tool, client, limits, origin: target.origin, credentials };
    let sent = sending.send_until_finished(&arguments, request);
    let outcome = progress::show_while("waiting for the answer", sent).await?;
    call_output::print_outcome(&outcome, given.json.json)
}

/// The state that all requests of one call to an HTTP tool share.
struct DirectHttpCall<'a> {
    tool: &'a HttpTool,
    client: HttpClient,
    limits: ExchangeLimits,
    origin: Option<Origin>,
    credentials: Credentials,
}

impl DirectHttpCall<'_> {
    /// Sends the first request and polls the job that it starts until the job ends or its deadline passes.
    async fn send_until_finished(
        &self,
        arguments: &Map<String, Value>,
        request: RenderedRequest,
    ) -> Result<Outcome, CliError> {
        let start = Instant::now();
        let reply = self.send_once(request).await;
        let mut job = match self.tool.start_job(start, arguments, reply) {
            JobStart::Finished(outcome, _) => return Ok(*outcome),
            JobStart::Running(job) => job,
        };
        while let Some(wait) = job.next_wait().filter(|_| start.elapsed() < JOB_DEADLINE) {
            tokio::time::sleep(wait).await;
            let mut request = job.status_request();
            self.tool
                .add_credentials(&mut request, &self.credentials, self.origin.as_ref())
                .map_err(CliError::Credential)?;
            match job.handle_reply(self.send_once(request).await) {
                PollResult::Finished(outcome, _) | PollResult::Abandoned(outcome) => {
                    return Ok(*outcome);
                }
                PollResult::Running(_) | PollResult::Redirected => {}
            }
        }
        Ok(job.timeout_outcome())
    }

    async fn send_once(&self, request: RenderedRequest) -> UpstreamReply {
        self.tool.send_request(&self.client, self.limits, request, self.credentials.clone()).await
    }
}

fn print_dry_run(
    given: &options::CallArgs,
    tool: &HttpTool,
    request: RenderedRequest,
    credentials: Credentials,
    origin: Option<&Origin>,
) -> Result<VerbOutcome, CliError> {
    if given.show_secrets || credentials.is_empty() {
        let request = add_credentials(tool, request, &credentials, origin)?;
        call_output::print_request(&RequestPreview::from_request(&request), given.json.json)?;
        return Ok(VerbOutcome::Success);
    }
    let hidden = |scheme: String| (scheme, SecretString::from(PLACEHOLDER));
    let hidden: Credentials = credentials.into_keys().map(hidden).collect();
    let request = add_credentials(tool, request, &hidden, origin)?;
    call_output::print_request(&RequestPreview::without_secrets(&request), given.json.json)?;
    output::print_note("secrets are shown as ***; --show-secrets shows them");
    Ok(VerbOutcome::Success)
}

/// Adds credentials to the request. If required ones are missing, the request is sent anyway: many specifications
/// demand more credentials than the API needs.
fn add_credentials(
    tool: &HttpTool,
    mut request: RenderedRequest,
    credentials: &Credentials,
    origin: Option<&Origin>,
) -> Result<RenderedRequest, CliError> {
    let met =
        tool.add_credentials(&mut request, credentials, origin).map_err(|error| match error {
            CredentialError::ForeignOrigin { to, from } => CliError::OtherOrigin { to, from },
            error => CliError::Credential(error),
        })?;
    if !met {
        let wanted: Vec<String> =
            tool.security().alternatives().map(|schemes| schemes.join(" and ")).collect();
        let wanted = wanted.join(", or ");
        output::print_note(&format!(
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
        output::print_note(&format!("note: the tool has no security scheme `{scheme}`: {known}"));
    }
}

/// Resolves `SCHEME=REF` options. An invalid reference may be the secret itself, so errors do not repeat it.
async fn resolve_credentials(given: &[String]) -> Result<Credentials, CliError> {
    let mut credentials = Credentials::new();
    if given.is_empty() {
        return Ok(credentials);
    }
    let journal = JournalLocation::Memory.open(SystemClock).await?;
    let secrets = SecretStore::new(journal, None, SystemClock, environment::secret_variable);
    for text in given {
        let (scheme, reference) = text.split_once('=').ok_or(CliError::CredentialOption)?;
        let reference: SecretRef = reference.parse().map_err(|_| CliError::CredentialOption)?;
        if matches!(reference, SecretRef::Sealed(_)) {
            return Err(CliError::CredentialOption);
        }
        credentials.insert(scheme.to_owned(), secrets.read_secret(&reference).await?);
    }
    Ok(credentials)
}

/// Finds a tool by its name or by its key.
fn find_tool<'a>(
    inventory: &'a Inventory,
    name: &str,
) -> Result<(&'a ToolId, &'a DiscoveredTool), CliError> {
    let is_it = |(id, tool): &(&ToolId, &DiscoveredTool)| {
        (&*tool.manifest.name == name || id.operation_key() == name)
            && tool.manifest.execution.primitive() == McpPrimitive::Tool
    };
    inventory.tools.iter().find(is_it).ok_or_else(|| {
        let names = inventory.tools.values().map(|tool| &*tool.manifest.name);
        CliError::NoSuchTool { name: name.to_owned(), near: similar_names(name, names) }
    })
}

/// The known names closest to the given one.
fn similar_names<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let contains = |known: &str| known.to_lowercase().contains(&name.to_lowercase());
    let mut near: Vec<(usize, &str)> = known
        .map(|known| (edit_distance(name, known), known))
        .filter(|(distance, known)| *distance <= 1 + known.len() / 3 || contains(known))
        .collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

fn compile_failure(tool: &Manifest<SchemaRef>, source: HttpToolError) -> CliError {
    match (&source, &tool.execution) {
        (HttpToolError::Template(TemplateError::Address { .. }), Execution::SyncHttp(request))
            if request.url_template.starts_with('/') =>
        {
            CliError::NoBaseUrl
        }
        _ => CliError::NotCallable { tool: tool.name.to_string(), source },
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
            let tool =
                HttpTool::compile(id, &manifest, &serde_json::json!({}), HttpToolResponse::Api);
            compile_failure(&manifest, tool.err().unwrap())
        };
        assert!(matches!(failure("/orders"), CliError::NoBaseUrl));
        assert!(matches!(failure("https://a.example/../b"), CliError::NotCallable { .. }));
        assert!(matches!(failure("ftp://a.example/"), CliError::NotCallable { .. }));
    }
}
