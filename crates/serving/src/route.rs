//! One route: its documentation, the role it requires, its body and response types, and its handler.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware;
use axum::routing::{self, MethodRouter};
use schemars::JsonSchema;

use crate::app::App;
use crate::schemas::Shape;
use crate::{deadline, query};

/// Largest body in bytes, unless the route sets its own limit.
const BODY_LIMIT: usize = 1 << 20;
/// Longest duration of a request, unless the route sets its own deadline.
const DEADLINE: Duration = Duration::from_secs(60);

/// Largest body of a tool call, in bytes. Arguments may contain files.
const CALL_LIMIT: usize = 10 << 20;
/// Longest duration of a tool call. The upstream behind it has a deadline of its own.
const CALL_DEADLINE: Duration = Duration::from_secs(600);

/// The role that a route requires. The handler's signature enforces it; a test checks that both agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Any caller, with any credential or none.
    Open,
    /// Callers that may use tools.
    Agent,
    /// Callers that may change the catalog.
    Admin,
}

pub(crate) struct Route {
    pub(crate) method: Method,
    /// OpenAPI `operationId`. Must never change: client code is generated from it.
    pub(crate) name: &'static str,
    /// In OpenAPI notation: `/api/groups/{id}`.
    pub(crate) path: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) who: Who,
    pub(crate) query: Option<Shape>,
    pub(crate) body: Option<Shape>,
    /// An empty body counts as `{}`.
    pub(crate) body_is_optional: bool,
    /// Example body, as JSON; a test sends every one.
    pub(crate) example: Option<&'static str>,
    /// Whether an `Idempotency-Key` makes repeated requests execute once.
    pub(crate) takes_key: bool,
    /// Whether the handler evaluates `If-Match` itself.
    pub(crate) is_conditional: bool,
    /// Whether the route calls a tool and changes nothing in the catalog.
    pub(crate) is_call: bool,
    pub(crate) answer: Answer,
    /// Body of the 202 answer that the route sends if the work takes longer.
    pub(crate) deferred: Option<Shape>,
    limit: usize,
    deadline: Duration,
    handler: MethodRouter<App>,
}

/// The successful response of a route.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The current state of one entity, with its `ETag`.
    Seen(Shape),
    /// JSON without an `ETag`: a list, a result, a removal.
    Plain(Shape),
    /// A list with the `ETag` of its bytes, or 304 if the caller already has it.
    List(Shape),
    /// A new entity, with its `Location`.
    Made(Shape),
    /// A document of this media type.
    Document(&'static str),
    /// A file compiled into the program, with the `ETag` of its bytes, or 304 if the caller already has it.
    File(&'static str),
    /// 204: what the route changed is never shown and has no `ETag`.
    Nothing,
}

impl Route {
    pub(crate) fn get<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, App>,
    ) -> Self {
        Self::new(Method::GET, name, path, routing::get(handler))
    }

    pub(crate) fn post<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, App>,
    ) -> Self {
        Self::new(Method::POST, name, path, routing::post(handler))
    }

    pub(crate) fn put<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, App>,
    ) -> Self {
        Self::new(Method::PUT, name, path, routing::put(handler))
    }

    pub(crate) fn patch<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, App>,
    ) -> Self {
        Self::new(Method::PATCH, name, path, routing::patch(handler))
    }

    pub(crate) fn delete<T: 'static>(
        name: &'static str,
        path: &'static str,
        handler: impl Handler<T, App>,
    ) -> Self {
        Self::new(Method::DELETE, name, path, routing::delete(handler))
    }

    fn new(
        method: Method,
        name: &'static str,
        path: &'static str,
        handler: MethodRouter<App>,
    ) -> Self {
        let takes_key = method != Method::GET;
        Self {
            method,
            name,
            path,
            tag: "",
            summary: "",
            who: Who::Open,
            query: None,
            body: None,
            body_is_optional: false,
            example: None,
            takes_key,
            is_conditional: false,
            is_call: false,
            answer: Answer::Document("text/plain"),
            deferred: None,
            limit: BODY_LIMIT,
            deadline: DEADLINE,
            handler,
        }
    }

    pub(crate) fn open(self, tag: &'static str, summary: &'static str) -> Self {
        Self { who: Who::Open, tag, summary, ..self }
    }

    pub(crate) fn agent(self, tag: &'static str, summary: &'static str) -> Self {
        Self { who: Who::Agent, tag, summary, ..self }
    }

    pub(crate) fn admin(self, tag: &'static str, summary: &'static str) -> Self {
        Self { who: Who::Admin, tag, summary, ..self }
    }

    /// Accepts query parameters; the handler takes `Asked<T>`.
    pub(crate) fn asks<T: JsonSchema + 'static>(self) -> Self {
        Self { query: Some(Shape::of::<T>()), ..self }
    }

    /// Requires a body; the handler takes `Body<T>`, or a type that reads the body itself.
    pub(crate) fn takes<T: JsonSchema + 'static>(self) -> Self {
        Self { body: Some(Shape::of::<T>()), ..self }
    }

    pub(crate) fn like(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// Accepts an optional body.
    pub(crate) fn may_take<T: JsonSchema + 'static>(self) -> Self {
        Self { body_is_optional: true, ..self.takes::<T>() }
    }

    /// Executes every request, also repeated ones: no `Idempotency-Key`.
    pub(crate) fn without_key(self) -> Self {
        Self { takes_key: false, ..self }
    }

    /// Documents `If-Match`; the handler must check `Change::condition` itself.
    pub(crate) fn if_unchanged(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    /// Marks a tool call, which may take long and accept large arguments.
    pub(crate) fn calls(self) -> Self {
        let (limit, deadline) = (CALL_LIMIT, CALL_DEADLINE);
        Self { takes_key: false, is_call: true, limit, deadline, ..self }
    }

    /// May answer 202 before the work is done, with an address to poll.
    pub(crate) fn may_defer<T: JsonSchema + 'static>(self) -> Self {
        Self { deferred: Some(Shape::of::<T>()), ..self }
    }

    /// Answers one entity with its `ETag`; the handler returns `Seen<T>`.
    pub(crate) fn answers<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Seen(Shape::of::<T>()), ..self }
    }

    /// Answers JSON without an `ETag`; the handler returns `Json<T>`.
    pub(crate) fn answers_plain<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Plain(Shape::of::<T>()), ..self }
    }

    /// Answers a list with the `ETag` of its bytes; the handler returns a prepared list.
    pub(crate) fn lists<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::List(Shape::of::<T>()), ..self }
    }

    /// Answers 201 with an `ETag` and a `Location`; the handler returns `Made<T>`.
    pub(crate) fn makes<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Made(Shape::of::<T>()), ..self }
    }

    /// Answers a document of this media type.
    pub(crate) fn shows(self, media_type: &'static str) -> Self {
        Self { answer: Answer::Document(media_type), ..self }
    }

    /// Answers a file of this media type with the `ETag` of its bytes.
    pub(crate) fn shows_file(self, media_type: &'static str) -> Self {
        Self { answer: Answer::File(media_type), ..self }
    }

    /// Answers 204, also when repeated; the handler returns `NO_CONTENT`.
    pub(crate) fn answers_nothing(self) -> Self {
        Self { answer: Answer::Nothing, takes_key: false, ..self }
    }

    pub(crate) fn up_to(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    pub(crate) fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub(crate) fn shapes(&self) -> impl Iterator<Item = Shape> {
        let answer = match self.answer {
            Answer::Seen(shape)
            | Answer::Plain(shape)
            | Answer::List(shape)
            | Answer::Made(shape) => Some(shape),
            Answer::Document(_) | Answer::File(_) | Answer::Nothing => None,
        };
        [self.query, self.body, answer, self.deferred].into_iter().flatten()
    }

    /// Whether the route changes the catalog.
    pub(crate) fn changes(&self) -> bool {
        self.method != Method::GET && !self.is_call
    }

    /// Whether the route changes one entity that has an `ETag`.
    pub(crate) fn changes_tagged(&self) -> bool {
        self.changes() && self.parameter().is_some() && !matches!(self.answer, Answer::Nothing)
    }

    /// Name of the path parameter: the `id` of an entity, or the `name` of a tool.
    pub(crate) fn parameter(&self) -> Option<&'static str> {
        let (_, rest) = self.path.split_once('{')?;
        rest.split_once('}').map(|(name, _)| name)
    }

    pub(crate) fn into_handler(self) -> MethodRouter<App> {
        let handler = match (self.who, self.query) {
            (Who::Agent | Who::Admin, None) => {
                self.handler.layer(middleware::from_fn(query::refuse))
            }
            (Who::Open, None) | (_, Some(_)) => self.handler,
        };
        let deadline = middleware::from_fn_with_state(self.deadline, deadline::keep);
        handler.layer::<_, Infallible>(deadline).layer(DefaultBodyLimit::max(self.limit))
    }
}
