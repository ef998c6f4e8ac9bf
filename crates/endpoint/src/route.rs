//! One route: its documentation, the role it requires, its body and response types, and its handler.

use std::convert::Infallible;
use std::time::Duration;

use api_types::type_schemas::TypeSchema;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::MethodRouter;
use axum::{middleware, routing};
use schemars::JsonSchema;

use crate::app_state::AppState;
use crate::{query_params, request_deadline};

/// Largest body in bytes, unless the route sets its own limit.
const BODY_LIMIT: usize = 1 << 20;
/// Longest duration of a request, unless the route sets its own deadline.
const DEADLINE: Duration = Duration::from_secs(60);

/// Largest body of a tool call, in bytes. Arguments may contain files.
const CALL_BODY_LIMIT: usize = 10 << 20;
/// Longest duration of a tool call. The upstream behind it has a deadline of its own.
const CALL_DEADLINE: Duration = Duration::from_secs(600);

/// The role that a route requires. The handler's signature enforces it; a test checks that both agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// Any caller, with any credential or none.
    Open,
    /// Callers that may use tools.
    Agent,
    /// Callers that may change the catalog.
    Admin,
}

pub struct ApiRoute {
    pub method: Method,
    /// OpenAPI `operationId`. Must never change: client code is generated from it.
    pub name: &'static str,
    /// In OpenAPI notation: `/api/groups/{id}`.
    pub path: &'static str,
    pub tag: &'static str,
    pub summary: &'static str,
    pub access: RouteAccess,
    pub query: Option<TypeSchema>,
    pub body: Option<TypeSchema>,
    /// An empty body counts as `{}`.
    pub body_is_optional: bool,
    /// Example body, as JSON; a test sends every one.
    pub example: Option<&'static str>,
    /// Whether an `Idempotency-Key` makes repeated requests execute once.
    pub takes_idempotency_key: bool,
    /// Whether the handler evaluates `If-Match` itself.
    pub is_conditional: bool,
    /// Whether the route calls a tool and changes nothing in the catalog.
    pub is_call: bool,
    pub response: RouteResponse,
    /// Body of the 202 answer that the route sends if the work takes longer.
    pub deferred: Option<TypeSchema>,
    limit: usize,
    deadline: Duration,
    handler: MethodRouter<AppState>,
}

/// The successful response of a route.
#[derive(Clone, Copy)]
pub enum RouteResponse {
    /// The current state of one entity, with its `ETag`.
    Tagged(TypeSchema),
    /// JSON without an `ETag`: a list, a result, a removal.
    Plain(TypeSchema),
    /// A list with the `ETag` of its bytes, or 304 if the caller already has it.
    List(TypeSchema),
    /// A new entity, with its `Location`.
    Created(TypeSchema),
    /// A document of this media type.
    Document(&'static str),
    /// A file compiled into the program, with the `ETag` of its bytes, or 304 if the caller already has it.
    File(&'static str),
    /// 204: what the route changed is never shown and has no `ETag`.
    NoContent,
}

impl ApiRoute {
    pub fn get<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, AppState>,
    ) -> Self {
        Self::new(Method::GET, name, path, routing::get(handler))
    }

    pub fn post<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, AppState>,
    ) -> Self {
        Self::new(Method::POST, name, path, routing::post(handler))
    }

    pub fn put<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, AppState>,
    ) -> Self {
        Self::new(Method::PUT, name, path, routing::put(handler))
    }

    pub fn patch<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, AppState>,
    ) -> Self {
        Self::new(Method::PATCH, name, path, routing::patch(handler))
    }

    pub fn delete<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, AppState>,
    ) -> Self {
        Self::new(Method::DELETE, name, path, routing::delete(handler))
    }

    fn new(
        method: Method,
        name: &'static str,
        path: &'static str,
        handler: MethodRouter<AppState>,
    ) -> Self {
        let takes_key = method != Method::GET;
        Self {
            method,
            name,
            path,
            tag: "",
            summary: "",
            access: RouteAccess::Open,
            query: None,
            body: None,
            body_is_optional: false,
            example: None,
            takes_idempotency_key: takes_key,
            is_conditional: false,
            is_call: false,
            response: RouteResponse::Document("text/plain"),
            deferred: None,
            limit: BODY_LIMIT,
            deadline: DEADLINE,
            handler,
        }
    }

    pub fn open_to_all(self, tag: &'static str, summary: &'static str) -> Self {
        Self { access: RouteAccess::Open, tag, summary, ..self }
    }

    pub fn for_agents(self, tag: &'static str, summary: &'static str) -> Self {
        Self { access: RouteAccess::Agent, tag, summary, ..self }
    }

    pub fn for_admins(self, tag: &'static str, summary: &'static str) -> Self {
        Self { access: RouteAccess::Admin, tag, summary, ..self }
    }

    /// Accepts query parameters; the handler takes `Asked<T>`.
    pub fn with_query<T: JsonSchema + 'static>(self) -> Self {
        Self { query: Some(TypeSchema::for_type::<T>()), ..self }
    }

    /// Requires a body; the handler takes `Body<T>`, or a type that reads the body itself.
    pub fn with_body<T: JsonSchema + 'static>(self) -> Self {
        Self { body: Some(TypeSchema::for_type::<T>()), ..self }
    }

    pub fn with_example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// Accepts an optional body.
    pub fn with_optional_body<T: JsonSchema + 'static>(self) -> Self {
        Self { body_is_optional: true, ..self.with_body::<T>() }
    }

    /// Executes every request, also repeated ones: no `Idempotency-Key`.
    pub fn without_idempotency_key(self) -> Self {
        Self { takes_idempotency_key: false, ..self }
    }

    /// Documents `If-Match`; the handler must check `ChangeRequest::condition` itself.
    pub fn with_precondition(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    /// Marks a tool call, which may take long and accept large arguments.
    pub fn marked_as_tool_call(self) -> Self {
        let (limit, deadline) = (CALL_BODY_LIMIT, CALL_DEADLINE);
        Self { takes_idempotency_key: false, is_call: true, limit, deadline, ..self }
    }

    /// May answer 202 before the work is done, with an address to poll.
    pub fn may_defer<T: JsonSchema + 'static>(self) -> Self {
        Self { deferred: Some(TypeSchema::for_type::<T>()), ..self }
    }

    /// Answers one entity with its `ETag`; the handler returns `Seen<T>`.
    pub fn returns_tagged<T: JsonSchema + 'static>(self) -> Self {
        Self { response: RouteResponse::Tagged(TypeSchema::for_type::<T>()), ..self }
    }

    /// Answers JSON without an `ETag`; the handler returns `Json<T>`.
    pub fn returns_json<T: JsonSchema + 'static>(self) -> Self {
        Self { response: RouteResponse::Plain(TypeSchema::for_type::<T>()), ..self }
    }

    /// Answers a list with the `ETag` of its bytes; the handler returns a prepared list.
    pub fn returns_list<T: JsonSchema + 'static>(self) -> Self {
        Self { response: RouteResponse::List(TypeSchema::for_type::<T>()), ..self }
    }

    /// Answers 201 with an `ETag` and a `Location`; the handler returns `Made<T>`.
    pub fn returns_created<T: JsonSchema + 'static>(self) -> Self {
        Self { response: RouteResponse::Created(TypeSchema::for_type::<T>()), ..self }
    }

    /// Answers a document of this media type.
    pub fn returns_document(self, media_type: &'static str) -> Self {
        Self { response: RouteResponse::Document(media_type), ..self }
    }

    /// Answers a file of this media type with the `ETag` of its bytes.
    pub fn returns_file(self, media_type: &'static str) -> Self {
        Self { response: RouteResponse::File(media_type), ..self }
    }

    /// Answers 204, also when repeated; the handler returns `NO_CONTENT`.
    pub fn returns_no_content(self) -> Self {
        Self { response: RouteResponse::NoContent, takes_idempotency_key: false, ..self }
    }

    pub fn with_body_limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub fn type_schemas(&self) -> impl Iterator<Item = TypeSchema> {
        let answer = match self.response {
            RouteResponse::Tagged(shape)
            | RouteResponse::Plain(shape)
            | RouteResponse::List(shape)
            | RouteResponse::Created(shape) => Some(shape),
            RouteResponse::Document(_) | RouteResponse::File(_) | RouteResponse::NoContent => None,
        };
        [self.query, self.body, answer, self.deferred].into_iter().flatten()
    }

    /// Whether the route changes the catalog.
    pub fn is_change(&self) -> bool {
        self.method != Method::GET && !self.is_call
    }

    /// Whether the route changes one entity that has an `ETag`.
    pub fn changes_tagged_entity(&self) -> bool {
        self.is_change()
            && self.path_parameter().is_some()
            && !matches!(self.response, RouteResponse::NoContent)
    }

    /// Name of the path parameter: the `id` of an entity, or the `name` of a tool.
    pub fn path_parameter(&self) -> Option<&'static str> {
        let (_, rest) = self.path.split_once('{')?;
        rest.split_once('}').map(|(name, _)| name)
    }

    pub fn into_handler(self) -> MethodRouter<AppState> {
        let handler = match (self.access, self.query) {
            (RouteAccess::Agent | RouteAccess::Admin, None) => {
                self.handler.layer(middleware::from_fn(query_params::reject_query))
            }
            (RouteAccess::Open, None) | (_, Some(_)) => self.handler,
        };
        let deadline =
            middleware::from_fn_with_state(self.deadline, request_deadline::enforce_deadline);
        handler.layer::<_, Infallible>(deadline).layer(DefaultBodyLimit::max(self.limit))
    }
}
