//! The deadline of a request: it also stops requests whose body arrives byte by byte.

use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

pub(crate) async fn enforce_deadline(
    State(deadline): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    match tokio::time::timeout(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!(
                "no answer within {} s; a change may still be made: look, or repeat it with the same idempotency key",
                deadline.as_secs(),
            );
            Problem::new(ProblemCode::DeadlineExceeded, detail).into_response()
        }
    }
}
