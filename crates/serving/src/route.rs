//! A route: what it is for, who may come in, what it takes and answers, and who handles it.

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

/// The largest body where a route says nothing else, in bytes.
const BODY_LIMIT: usize = 1 << 20;
/// How long a request may take where a route says nothing else.
const DEADLINE: Duration = Duration::from_secs(60);

/// The largest arguments of a call, in bytes: files are among them.
const CALL_LIMIT: usize = 10 << 20;
/// How long a call may take. What is behind it has a deadline of its own.
const CALL_DEADLINE: Duration = Duration::from_secs(600);

/// Who may come in. The handler's signature enforces it; a test holds every route to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Everybody, with any credential or none.
    Open,
    /// Whoever may use tools.
    Agent,
    /// Whoever may change the catalog.
    Admin,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Names the operation, for ever: programs are generated from it.
    pub(crate) name: &'static str,
    /// As in OpenAPI: `/api/groups/{id}`.
    pub(crate) path: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) who: Who,
    pub(crate) query: Option<Shape>,
    pub(crate) body: Option<Shape>,
    /// An empty body counts as `{}`.
    pub(crate) body_is_optional: bool,
    /// A body to copy, as JSON; a test sends every one.
    pub(crate) example: Option<&'static str>,
    /// Whether the same request with the same key is carried out once.
    pub(crate) takes_key: bool,
    /// Whether it heeds `If-Match`.
    pub(crate) is_conditional: bool,
    /// Whether it calls a tool: nothing of ours changes.
    pub(crate) is_call: bool,
    pub(crate) answer: Answer,
    /// What is answered instead (202) if that takes longer.
    pub(crate) deferred: Option<Shape>,
    limit: usize,
    deadline: Duration,
    handler: MethodRouter<App>,
}

/// What a route answers when all is well.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// One thing as it is now, with its tag.
    Seen(Shape),
    /// Anything else: a list, a result, what is gone.
    Plain(Shape),
    /// A list with the tag of its bytes, or that the caller has it already.
    List(Shape),
    /// Something new, with its address.
    Made(Shape),
    /// Another document.
    Document(&'static str),
    /// A file that is part of the program, with the tag of its bytes, or that the caller has it already.
    File(&'static str),
    /// Nothing but that it is done (204): what it is about is not shown, and has no tag.
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

    /// Has query parameters; the handler takes `Asked<T>`.
    pub(crate) fn asks<T: JsonSchema + 'static>(self) -> Self {
        Self { query: Some(Shape::of::<T>()), ..self }
    }

    /// Has a body; the handler takes `Body<T>`, or is `New` itself.
    pub(crate) fn takes<T: JsonSchema + 'static>(self) -> Self {
        Self { body: Some(Shape::of::<T>()), ..self }
    }

    /// Has a body like this one.
    pub(crate) fn like(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// May have a body.
    pub(crate) fn may_take<T: JsonSchema + 'static>(self) -> Self {
        Self { body_is_optional: true, ..self.takes::<T>() }
    }

    /// Is carried out as often as it is asked for.
    pub(crate) fn without_key(self) -> Self {
        Self { takes_key: false, ..self }
    }

    /// Is carried out only if what was seen still holds; the handler looks at `Change::condition`.
    pub(crate) fn if_unchanged(self) -> Self {
        Self { is_conditional: true, ..self }
    }

    /// Calls a tool, which may take long and large arguments.
    pub(crate) fn calls(self) -> Self {
        let (limit, deadline) = (CALL_LIMIT, CALL_DEADLINE);
        Self { takes_key: false, is_call: true, limit, deadline, ..self }
    }

    /// May answer before it is done, with something to look at later.
    pub(crate) fn may_defer<T: JsonSchema + 'static>(self) -> Self {
        Self { deferred: Some(Shape::of::<T>()), ..self }
    }

    /// Answers with one thing as it is now, and its tag; the handler answers `Seen<T>`.
    pub(crate) fn answers<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Seen(Shape::of::<T>()), ..self }
    }

    /// Answers with something that has no tag; the handler answers `Json<T>`.
    pub(crate) fn answers_plain<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Plain(Shape::of::<T>()), ..self }
    }

    /// Answers with a list and the tag of its bytes; the handler answers with `Prepared`.
    pub(crate) fn lists<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::List(Shape::of::<T>()), ..self }
    }

    /// Answers with something new, its tag and its address; the handler answers `Made<T>`.
    pub(crate) fn makes<T: JsonSchema + 'static>(self) -> Self {
        Self { answer: Answer::Made(Shape::of::<T>()), ..self }
    }

    /// Answers with a document of this media type.
    pub(crate) fn shows(self, media_type: &'static str) -> Self {
        Self { answer: Answer::Document(media_type), ..self }
    }

    /// Answers with a file of this media type and the tag of its bytes.
    pub(crate) fn shows_file(self, media_type: &'static str) -> Self {
        Self { answer: Answer::File(media_type), ..self }
    }

    /// Answers that it is done and nothing else, however often; the handler answers `NO_CONTENT`.
    pub(crate) fn answers_nothing(self) -> Self {
        Self { answer: Answer::Nothing, takes_key: false, ..self }
    }

    /// Takes larger bodies.
    pub(crate) fn up_to(self, limit: usize) -> Self {
        Self { limit, ..self }
    }

    /// Takes longer.
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

    /// Whether it changes something.
    pub(crate) fn changes(&self) -> bool {
        self.method != Method::GET && !self.is_call
    }

    /// Whether it changes one thing that has a tag.
    pub(crate) fn changes_tagged(&self) -> bool {
        self.changes() && self.parameter().is_some() && !matches!(self.answer, Answer::Nothing)
    }

    /// What its path names: the `id` of one thing, or the `name` of a tool.
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
