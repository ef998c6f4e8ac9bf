//! Tests of `examples/tool_discovery.rs`: tools found by search, and tools of single users.

use serde_json::json;

use crate::{Agent, text, tool_discovery};

#[tokio::test]
async fn only_the_search_tools_are_listed_and_they_find_tools_of_three_domains() {
    let app = tool_discovery::mcp_app().await.unwrap();
    let agent = Agent { app: &app, user: "" };
    assert_eq!(agent.list().await, ["tool_search", "execute_tool"]);
    let found = agent.search("database").await;
    assert!(["list_tables", "sql_query"].iter().all(|name| found.iter().any(|hit| hit == name)));
    assert_eq!(agent.search("smtp").await, ["send_email"]);
    assert_eq!(agent.search("document").await[0], "find_document");
    let select = json!({"query": "select 1", "database": "shop"});
    let result = agent.execute("sql_query", select).await;
    assert_eq!(text(&result), "Executed on shop: select 1");
    let by = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!((&by["name"], &by["version"]), (&json!("tool-discovery"), &json!("1.0")));
    let result = agent.execute("sql_query", json!({"query": "drop table orders"})).await;
    assert_eq!(
        (text(&result), &result["isError"]),
        ("Error: only SELECT is allowed", &json!(true))
    );
    let mail = json!({"to": "a@b.c", "subject": "Hi", "body": "Hello"});
    let result = agent.execute("send_email", mail).await;
    assert_eq!(text(&result), "Email sent to a@b.c: Hi (5 letters)");
    let result = agent.execute("find_document", json!({"words": "rules"})).await;
    assert_eq!(result["structuredContent"], json!({"titles": ["House rules"]}));
}

#[tokio::test]
async fn each_user_has_their_own_tools() {
    let app = tool_discovery::mcp_app().await.unwrap();
    for (user, note) in [("ada", "Buy milk"), ("eve", "Call Ada")] {
        let agent = Agent { app: &app, user };
        assert_eq!(agent.search("notes").await, ["my_notes"]);
        assert_eq!(text(&agent.execute("my_notes", json!({})).await), note);
    }
    let nobody = Agent { app: &app, user: "mallory" };
    assert!(nobody.search("notes").await.is_empty());
    let missing = nobody.execute("my_notes", json!({})).await;
    assert_eq!(text(&missing), "Tool not found: my_notes");
}
