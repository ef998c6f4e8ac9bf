//! `register_resource` and `register_resource_template` (requirement B3).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use toolcrib::{CallContext, OfferResult, Registry, Resource, ResourceTemplate, ToolProvider as _};

use crate::crib;

async fn read(registry: &Registry, uri: &str) -> Result<Value, String> {
    match crib(registry).await.anonymous_view().read_resource_uri(uri, &CallContext::silent()).await
    {
        OfferResult::Result(result) => Ok(result["contents"][0].clone()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_resource_has_a_uri_a_name_and_a_mime_type() {
    let registry = Registry::new();
    let hello = Resource::new("docs://hello", "hello", "text/plain", "Hello!").description("Hi");
    registry.register_resource(hello).unwrap();
    let listed = crib(&registry).await.anonymous_view().resources();
    assert_eq!(
        json!(listed[0].fields),
        json!({"uri": "docs://hello", "name": "hello", "mimeType": "text/plain", "description": "Hi"})
    );
    assert_eq!(read(&registry, "docs://other").await.unwrap_err(), "Missing");
}

#[tokio::test]
async fn a_resource_is_a_text() {
    let registry = Registry::new();
    let hello = Resource::new("docs://hello", "hello", "text/plain", "Hello!");
    registry.register_resource(hello).unwrap();
    assert_eq!(
        read(&registry, "docs://hello").await.unwrap(),
        json!({"uri": "docs://hello", "mimeType": "text/plain", "text": "Hello!"})
    );
}

#[tokio::test]
async fn a_resource_is_a_blob() {
    let registry = Registry::new();
    let bytes = Resource::new("docs://bytes", "bytes", "image/png", vec![1, 2, 3]);
    registry.register_resource(bytes).unwrap();
    assert_eq!(
        read(&registry, "docs://bytes").await.unwrap(),
        json!({"uri": "docs://bytes", "mimeType": "image/png", "blob": "AQID"})
    );
}

#[tokio::test]
async fn a_resource_may_be_computed_by_a_function_on_each_read() {
    let registry = Registry::new();
    let times = Arc::new(AtomicU32::new(0));
    let counts = move |uri: String, _| {
        let so_far = times.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, String>(format!("{uri} {so_far}")) }
    };
    registry
        .register_resource(Resource::read_by("docs://times", "times", "text/plain", counts))
        .unwrap();
    assert_eq!(read(&registry, "docs://times").await.unwrap()["text"], "docs://times 0");
    assert_eq!(read(&registry, "docs://times").await.unwrap()["text"], "docs://times 1");
}

#[tokio::test]
async fn a_resource_may_be_a_file_that_is_read_on_demand_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("menu");
    let registry = Registry::new();
    registry
        .register_resource(Resource::from_file("docs://menu", "menu", "text/plain", &path))
        .unwrap();
    let missing = read(&registry, "docs://menu").await.unwrap_err();
    assert!(missing.contains("the file cannot be read: No such file"), "{missing}");
    assert!(!missing.contains(folder.path().to_str().unwrap()), "{missing}");
    for (bytes, member, expected) in
        [(&b"Pizza"[..], "text", "Pizza"), (b"Pasta", "text", "Pasta"), (b"\xff", "blob", "/w==")]
    {
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read(&registry, "docs://menu").await.unwrap()[member], expected);
    }
    std::fs::File::create(&path).unwrap().set_len((16 << 20) + 1).unwrap();
    let large = read(&registry, "docs://menu").await.unwrap_err();
    assert!(large.contains("it has more than 16 MiB"), "{large}");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(read(&registry, "docs://menu").await.unwrap_err().contains("it is no file"));
}

#[tokio::test]
async fn a_resource_template_serves_every_matching_uri() {
    let registry = Registry::new();
    let user = |uri: String, _| async move {
        match uri.strip_prefix("users://") {
            Some("nobody") => Err("there is no such user"),
            Some("panic") => panic!("hunter2"),
            name => Ok(format!("{name:?}")),
        }
    };
    let template = ResourceTemplate::read_by("users://{id}", "user", "text/plain", user);
    registry.register_resource_template(template.description("A user")).unwrap();
    let listed = registry.list_resource_templates();
    assert_eq!(
        json!(listed[0].fields),
        json!({
            "uriTemplate": "users://{id}", "name": "user", "mimeType": "text/plain",
            "description": "A user",
        })
    );
    let found = read(&registry, "users://ada").await.unwrap();
    assert_eq!((&found["uri"], &found["text"]), (&json!("users://ada"), &json!(r#"Some("ada")"#)));
    for odd in ["users://a/b", "users://a/../b", "users://"] {
        let missing = read(&registry, odd).await.unwrap_err();
        assert_eq!(missing, "Missing", "{odd}");
    }
    let missing = read(&registry, "users://nobody").await.unwrap_err();
    assert!(missing.contains("there is no such user"), "{missing}");
    let panicked = read(&registry, "users://panic").await.unwrap_err();
    assert!(panicked.contains("it panicked"), "{panicked}");
    assert_eq!(read(&registry, "others://ada").await.unwrap_err(), "Missing");
}

#[tokio::test]
async fn a_second_resource_of_the_same_uri_is_refused() {
    let registry = Registry::new();
    let resource = |text: &str| Resource::new("a:b", "ab", "text/plain", text);
    registry.register_resource(resource("the first")).unwrap();
    let refused = registry.register_resource(resource("the second")).unwrap_err();
    assert_eq!(refused.to_string(), "Resource with URI 'a:b' already exists");
    assert_eq!(read(&registry, "a:b").await.unwrap()["text"], "the first");
}

#[tokio::test]
async fn a_second_template_of_the_same_pattern_is_refused() {
    let registry = Registry::new();
    let template = |says: &'static str| {
        let reads = move |_, _| std::future::ready(Ok::<_, String>(says));
        ResourceTemplate::read_by("c:{d}", "cd", "text/plain", reads)
    };
    registry.register_resource_template(template("the first")).unwrap();
    let refused = registry.register_resource_template(template("the second")).unwrap_err();
    let why = "Resource template with URI template 'c:{d}' already exists";
    assert_eq!(refused.to_string(), why);
    assert_eq!(read(&registry, "c:1").await.unwrap()["text"], "the first");
}

#[test]
fn a_changed_resource_is_announced() {
    let registry = Registry::new();
    let changes = registry.changes();
    registry.resource_changed("a:b");
    assert_eq!(changes[0].borrow().updated_resources, [(1, "a:b".into())]);
}

#[test]
fn a_resource_without_a_valid_uri_is_refused() {
    let registry = Registry::new();
    let resource = Resource::new("hello", "hello", "text/plain", "Hello!");
    assert_eq!(
        registry.register_resource(resource).unwrap_err().to_string(),
        "'hello' cannot be registered: begin its address with a scheme, such as `docs://hello`"
    );
    for (uri, name) in [("docs://{id}", "hello"), ("docs://hello", "")] {
        let resource = Resource::new(uri, name, "text/plain", "Hello!");
        assert!(registry.register_resource(resource).is_err(), "{uri} {name}");
    }
    let reader = |_, _| async { Ok::<_, String>("") };
    let proposing = ResourceTemplate::read_by("docs://{id}", "hello", "text/plain", reader);
    assert_eq!(
        registry
            .register_resource_template(proposing.proposing("it", ["a"]))
            .unwrap_err()
            .to_string(),
        "'docs://{id}' cannot be registered: it proposes values for something that it does not take"
    );
    let template = ResourceTemplate::read_by("docs://{id", "hello", "text/plain", reader);
    assert_eq!(
        registry.register_resource_template(template).unwrap_err().to_string(),
        "'docs://{id' cannot be registered: each of its braces is to hold a name and be closed, as in `users://{id}`"
    );
    assert!(registry.list_resources().is_empty() && registry.list_resource_templates().is_empty());
}
