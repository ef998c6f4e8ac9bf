//! The response to a call that load shedding rejects, in the format of its endpoint. It is sent before the call is
//! parsed, and therefore without a log line.

use api_types::problem::{Problem, ProblemCode};
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};

use crate::request_id::{REQUEST_ID, RequestId, set_common_headers};

const OVERLOAD_MESSAGE: &str = "the server has more calls than it can do: try again in a second";
const MCP_OVERLOAD_BODY: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the server has more calls than it can do: try again in a second","data":{"toolcrib/code":"rate_limited","toolcrib/retryable":true,"toolcrib/retry_after":1}}}"#;

/// The endpoint of the request, and its request id if the client sent one.
pub struct OverloadResponse {
    is_mcp: bool,
    request_id: Option<HeaderValue>,
}

impl OverloadResponse {
    pub fn for_request<B>(request: &Request<B>) -> Self {
        let is_mcp = request.uri().path().starts_with("/mcp");
        Self { is_mcp, request_id: request.headers().get(REQUEST_ID).cloned() }
    }

    pub fn into_http_response(self) -> Response {
        let mut response = match self.is_mcp {
            false => {
                Problem::retry_after(ProblemCode::RateLimited, OVERLOAD_MESSAGE, 1).into_response()
            }
            true => {
                let headers = [
                    (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                    (RETRY_AFTER, HeaderValue::from_static("1")),
                ];
                (StatusCode::SERVICE_UNAVAILABLE, headers, MCP_OVERLOAD_BODY).into_response()
            }
        };
        set_common_headers(
            response.headers_mut(),
            &RequestId::from_header(self.request_id.as_ref()),
        );
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::X_CONTENT_TYPE_OPTIONS;
    use serde_json::{Value, json};

    use super::*;

    async fn refused(path: &str) -> (u16, Value) {
        let request = Request::post(path).header(REQUEST_ID, "mine").body(()).unwrap();
        let response = OverloadResponse::for_request(&request).into_http_response();
        assert_eq!(response.headers()[RETRY_AFTER], "1", "{path}");
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert_eq!(response.headers()[REQUEST_ID], "mine", "{path}");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn each_endpoint_has_its_own_format_and_the_same_code() {
        let (status, body) = refused("/mcp/shop").await;
        assert_eq!(status, 503);
        assert_eq!(body["error"]["message"], OVERLOAD_MESSAGE);
        let data = json!({"toolcrib/code": "rate_limited", "toolcrib/retryable": true, "toolcrib/retry_after": 1});
        assert_eq!(body["error"]["data"], data);
        for path in ["/api/agents/tools/call", "/api/tools/a:b/execute", "/tools/a"] {
            let (status, body) = refused(path).await;
            assert_eq!(
                (status, &body["code"], &body["detail"]),
                (429, &json!("rate_limited"), &json!(OVERLOAD_MESSAGE))
            );
        }
    }
}
