//! Tests of notifications when something is registered, added or removed (requirement B4).

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib::{Prompt, ProvidedTool, Registry, Resource, ResourceTemplate, ToolProvider};

use super::{Client, ERAS, Era, hello, names};

/// A client that subscribes to all notifications.
async fn listening(era: Era, registry: &Registry) -> Client {
    let mut client = Client::in_era(era, registry).await;
    match era {
        // The server sends notifications only after it has answered a request.
        Era::Legacy => drop(client.ask("ping", json!({})).await),
        Era::Modern => {
            let all = json!({
                "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            });
            client.begin("subscriptions/listen", json!({"notifications": all})).await;
            let method = client.hear().await["method"].take();
            assert_eq!(method, "notifications/subscriptions/acknowledged");
        }
    }
    client
}

async fn told(client: &mut Client) -> Value {
    client.hear().await["method"].take()
}

#[tokio::test]
async fn list_changed_is_sent_only_for_the_list_that_changed() {
    for era in ERAS {
        let registry = hello();
        let mut client = listening(era, &registry).await;
        let again = ProvidedTool::new("hello", "Again");
        registry.register_tool(again, || async { "again" }, &[]).unwrap_err();
        let other = ProvidedTool::new("other", "Another");
        registry.register_tool(other, || async { "other" }, &[]).unwrap();
        assert_eq!(told(&mut client).await, "notifications/tools/list_changed");
        registry.register_prompt(Prompt::new("hi", "Says hi").user("Hi!")).unwrap();
        assert_eq!(told(&mut client).await, "notifications/prompts/list_changed");
        registry.register_resource(Resource::new("a:b", "ab", "text/plain", "AB")).unwrap();
        assert_eq!(told(&mut client).await, "notifications/resources/list_changed");
        let reads = |_, _| async { Ok::<_, String>("cd") };
        let template = ResourceTemplate::read_by("c:{d}", "cd", "text/plain", reads);
        registry.register_resource_template(template).unwrap();
        assert_eq!(told(&mut client).await, "notifications/resources/list_changed");
    }
}

#[tokio::test]
async fn a_subscriber_is_notified_of_every_changed_resource() {
    let registry = Registry::new();
    for number in 0..300 {
        let uri = format!("doc:{number}");
        registry.register_resource(Resource::new(&uri, &uri, "text/plain", "text")).unwrap();
    }
    for era in ERAS {
        let mut client = Client::in_era(era, &registry).await;
        match era {
            Era::Legacy => {
                for uri in ["doc:0", "doc:299"] {
                    let answer = client.ask("resources/subscribe", json!({"uri": uri})).await;
                    assert!(answer["error"].is_null(), "{answer}");
                }
            }
            Era::Modern => {
                let wanted = json!({"resourceSubscriptions": ["doc:0", "doc:299"]});
                client.begin("subscriptions/listen", json!({"notifications": wanted})).await;
                let method = client.hear().await["method"].take();
                assert_eq!(method, "notifications/subscriptions/acknowledged");
            }
        }
        registry.resource_changed("doc:299");
        let one = client.hear().await;
        assert_eq!(one["method"], "notifications/resources/updated", "{one}");
        assert_eq!(one["params"]["uri"], "doc:299");
        // More changes at once than the server tracks by name.
        (0..300).for_each(|number| registry.resource_changed(&format!("doc:{number}")));
        let all = [client.hear().await, client.hear().await];
        assert_eq!(all.map(|one| one["params"]["uri"].clone()), ["doc:0", "doc:299"]);
    }
}

#[tokio::test]
async fn adding_or_removing_a_provider_changes_only_its_lists() {
    for era in ERAS {
        let registry = hello();
        let mut client = listening(era, &registry).await;
        let own = Registry::new();
        own.register_tool(ProvidedTool::new("own", "Own"), || async { "own" }, &[]).unwrap();
        let own: Arc<dyn ToolProvider> = Arc::new(own);
        registry.add_provider(Arc::clone(&own));
        assert_eq!(told(&mut client).await, "notifications/tools/list_changed");
        assert!(registry.remove_provider(&own));
        assert_eq!(told(&mut client).await, "notifications/tools/list_changed");
        let mut other = Client::in_era(era, &registry).await;
        assert_eq!(names(&other.ask("tools/list", json!({})).await), ["hello"]);
    }
}

#[tokio::test]
async fn both_eras_declare_the_same_capabilities() {
    let registry = Registry::new();
    let capabilities = || async {
        let mut client = Client::of(&registry).await;
        let who = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        client.era = Era::Legacy;
        let mut welcome = client.ask("initialize", who).await;
        welcome["result"]["capabilities"].take()
    };
    let bare = json!({"tools": {"listChanged": true}, "logging": {}});
    assert_eq!(capabilities().await, bare);
    let prompt = Prompt::new("hi", "Says hi").required("whom", "To whom").user("Hi {{whom}}!");
    registry.register_prompt(prompt).unwrap();
    registry.register_resource(Resource::new("a:b", "ab", "text/plain", "AB")).unwrap();
    let mut all = bare;
    all["prompts"] = json!({"listChanged": true});
    all["resources"] = json!({"listChanged": true, "subscribe": true});
    all["completions"] = json!({});
    assert_eq!(capabilities().await, all);
}
