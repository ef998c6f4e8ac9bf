//! A change that an admin requests: its preconditions, its correlation id, and its idempotency key.

use api_types::problem::{Problem, ProblemCode};
use axum::extract::FromRequestParts;
use axum::http::header::HeaderMap;
use axum::http::request::Parts;
use endpoint::app_state::AppState;
use endpoint::etag::{EntityTag, IfMatch};
use endpoint::request_id::RequestId;
use toolcrib::{CallerIdentity, ChangeContext, Command, CommandRefusal, ExecutedCommand, Snapshot};

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const MAX_IDEMPOTENCY_KEY_LENGTH: usize = 255;

/// The headers of a request that apply to the change it requests.
pub(crate) struct ChangeRequest {
    request: RequestId,
    key: Option<String>,
    pub(crate) condition: IfMatch,
}

impl FromRequestParts<AppState> for ChangeRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        let request =
            parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
        let condition = IfMatch::from_headers(&parts.headers)?;
        Ok(Self { request, key: idempotency_key(&parts.headers)?, condition })
    }
}

impl ChangeRequest {
    /// Executes a command if `If-Match` still holds for the entity that it changes.
    pub(crate) async fn execute_command(
        &self,
        app: &AppState,
        identity: &CallerIdentity,
        command: Command,
        tag: impl Fn(&Snapshot) -> Option<EntityTag> + Send + Sync,
    ) -> Result<ExecutedCommand, Problem> {
        let (what, id) = kind_and_id(&command);
        let holds = |snapshot: &Snapshot| match tag(snapshot) {
            Some(tag) if !self.condition.is_satisfied_by(tag) => {
                Err(CommandRefusal::HasChanged { what, id: id.clone() })
            }
            // The command itself rejects an entity that does not exist.
            Some(_) | None => Ok(()),
        };
        let context = self.command_context(identity);
        let catalog = app.crib.catalog();
        Ok(catalog.execute_if(command, holds, context, self.key.as_deref()).await?)
    }

    /// The actor and the correlation id of the command.
    pub(crate) fn command_context(&self, identity: &CallerIdentity) -> ChangeContext {
        let correlation_id = Some(self.request.as_str().into());
        ChangeContext { correlation_id, ..ChangeContext::by_actor(&identity.actor_name()) }
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    let is_good = !key.is_empty()
        && key.len() <= MAX_IDEMPOTENCY_KEY_LENGTH
        && key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good || given.next().is_some() {
        let detail = "`Idempotency-Key` is 1 to 255 visible ASCII characters, once";
        return Err(Problem::new(ProblemCode::InvalidRequest, detail));
    }
    Ok(Some(key.to_owned()))
}

fn kind_and_id(command: &Command) -> (&'static str, String) {
    match command {
        Command::Source(id, _) => ("source", id.to_string()),
        Command::Tool(id, _) => ("tool", id.to_string()),
        Command::Group(id, _) => ("group", id.to_string()),
        Command::Policy(id, _) => ("policy", id.to_string()),
        Command::Label(id, _) => ("label", id.to_string()),
        Command::Key(id, _) => ("key", id.to_string()),
        Command::Ingest { inventory, .. } => ("source", inventory.source.to_string()),
    }
}
