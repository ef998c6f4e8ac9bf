//! The size limit of answers.

use model::ErrorCode;
use serde_json::json;

use crate::retries::{call, register};
use crate::wire::ReceivedRequest;
use crate::world::{World, code};

#[tokio::test]
async fn an_answer_is_read_up_to_the_limit_of_its_source() {
    let world = World::with(|_: &ReceivedRequest| (200, json!("x".repeat(3 << 19)))).await;
    register(&world, json!({"max_answer_mb": 1})).await;
    let outcome = call(&world, "look", json!({})).await;
    assert_eq!(code(&outcome), Some(ErrorCode::UpstreamError));
    let told = outcome.error.unwrap().message;
    assert!(told.starts_with("the answer is too large: at most 1048576 bytes"), "{told}");
    for limits in [json!({"max_answer_mb": 2}), json!({})] {
        register(&world, limits).await;
        assert_eq!(call(&world, "look", json!({})).await.error, None);
    }
}
