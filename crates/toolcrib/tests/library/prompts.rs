//! `register_prompt` (requirement B3).

use serde_json::{Value, json};
use toolcrib::{
    CallContext, CompletionRequest, CompletionTarget, OfferResult, Prompt, PromptMessage, Registry,
    ResourceTemplate, ToolProvider as _,
};

use crate::{crib, object};

fn explain() -> Prompt {
    Prompt::new("explain", "Explains a thing")
        .title("Explain")
        .required("thing", "What to explain")
        .optional("to", "Who wants to know")
        .user("Explain {{thing}} to {{to}}; {{ thing }}, {{other}}, {{")
        .assistant("{{thing}}?")
}

async fn get_prompt(registry: &Registry, name: &str, arguments: Value) -> Result<Value, String> {
    let call = CallContext::silent();
    match crib(registry).await.anonymous_view().render_prompt(name, object(arguments), &call).await
    {
        OfferResult::Result(result) => Ok(Value::Object(result)),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn a_prompt_has_a_name_a_title_a_description_and_arguments() {
    let registry = Registry::new();
    registry.register_prompt(explain()).unwrap();
    let listed = crib(&registry).await.anonymous_view().prompts();
    assert_eq!(
        json!(listed[0].fields),
        json!({
            "name": "explain", "description": "Explains a thing", "title": "Explain",
            "arguments": [
                {"name": "thing", "description": "What to explain", "required": true},
                {"name": "to", "description": "Who wants to know", "required": false},
            ],
        })
    );
}

#[tokio::test]
async fn only_placeholders_in_double_braces_are_replaced() {
    let registry = Registry::new();
    registry.register_prompt(explain()).unwrap();
    let result =
        get_prompt(&registry, "explain", json!({"thing": "{{to}}", "to": "me"})).await.unwrap();
    let texts = result["messages"].as_array().unwrap().iter();
    let texts: Vec<_> =
        texts.map(|one| (one["role"].clone(), one["content"]["text"].clone())).collect();
    assert_eq!(
        texts,
        [
            (json!("user"), json!("Explain {{to}} to me; {{ thing }}, {{other}}, {{")),
            (json!("assistant"), json!("{{to}}?")),
        ]
    );
}

#[tokio::test]
async fn completions_of_an_argument_are_filtered_by_the_typed_prefix() {
    let registry = Registry::new();
    let prompt = explain().proposing("to", ["a child", "An expert", "me"]);
    registry.register_prompt(prompt).unwrap();
    let reads = |_, _| async { Ok::<_, String>("text") };
    let template = ResourceTemplate::read_by("doc:{id}", "doc", "text/plain", reads);
    registry.register_resource_template(template.proposing("id", ["one", "two"])).unwrap();
    let crib = crib(&registry).await;
    let proposed = async |of: CompletionTarget, argument: &str, typed: &str| {
        let (argument, value) = (argument.into(), typed.into());
        let unfinished =
            CompletionRequest { target: of, argument, value, known_arguments: object(json!({})) };
        match crib.anonymous_view().complete(&unfinished, &CallContext::silent()).await {
            OfferResult::Result(result) => json!(result)["completion"]["values"].clone(),
            other => json!(format!("{other:?}")),
        }
    };
    let explain = || CompletionTarget::Prompt("explain".into());
    assert_eq!(proposed(explain(), "to", "A").await, json!(["a child", "An expert"]));
    assert_eq!(proposed(explain(), "thing", "").await, json!([]));
    let template = CompletionTarget::Template("doc:{id}".into());
    assert_eq!(proposed(template, "id", "t").await, json!(["two"]));
    let nothing = CompletionTarget::Prompt("nothing".into());
    assert_eq!(proposed(nothing, "to", "").await, json!("Missing"));
}

#[tokio::test]
async fn a_missing_required_argument_is_an_error_that_names_it() {
    let registry = Registry::new();
    registry.register_prompt(explain()).unwrap();
    let missing = get_prompt(&registry, "explain", json!({"to": "me"})).await.unwrap_err();
    assert_eq!(missing, r#"Invalid("the prompt `explain` needs the argument `thing`")"#);
    let wrong = get_prompt(&registry, "explain", json!({"thing": 1})).await.unwrap_err();
    assert_eq!(wrong, r#"Invalid("the prompt `explain` takes only a text as `thing`")"#);
}

#[tokio::test]
async fn a_missing_optional_argument_is_empty() {
    let registry = Registry::new();
    registry.register_prompt(explain()).unwrap();
    let result = get_prompt(&registry, "explain", json!({"thing": "x"})).await.unwrap();
    let text = &result["messages"][0]["content"]["text"];
    assert_eq!(text, "Explain x to ; {{ thing }}, {{other}}, {{");
}

#[tokio::test]
async fn the_size_of_a_prompt_is_limited() {
    let registry = Registry::new();
    let prompt = Prompt::new("again", "Says it often").optional("x", "What");
    registry.register_prompt(prompt.user(&"{{x}}".repeat(200))).unwrap();
    let fine = get_prompt(&registry, "again", json!({"x": "a".repeat(1_000)})).await.unwrap();
    assert_eq!(fine["messages"][0]["content"]["text"].as_str().unwrap().len(), 200_000);
    let long = get_prompt(&registry, "again", json!({"x": "a".repeat(100_000)})).await.unwrap_err();
    assert!(long.contains("it has 20000000 bytes, over 4194304"), "{long}");
}

#[tokio::test]
async fn a_prompt_may_be_built_by_code_that_may_fail_or_panic() {
    let registry = Registry::new();
    let answers = |arguments: serde_json::Map<String, Value>, _| async move {
        match arguments["n"].as_str() {
            Some("fail") => Err("it is too late"),
            Some("panic") => panic!("hunter2"),
            other => Ok(vec![PromptMessage::user(format!("{other:?}"))]),
        }
    };
    let prompt = Prompt::new("coded", "By code").required("n", "What").answered_by(answers);
    registry.register_prompt(prompt).unwrap();
    let result = get_prompt(&registry, "coded", json!({"n": "1"})).await.unwrap();
    assert_eq!(result["messages"][0]["content"]["text"], r#"Some("1")"#);
    let failed = get_prompt(&registry, "coded", json!({"n": "fail"})).await.unwrap_err();
    assert!(failed.contains("it is too late"), "{failed}");
    let panicked = get_prompt(&registry, "coded", json!({"n": "panic"})).await.unwrap_err();
    assert!(panicked.contains("it panicked"), "{panicked}");
}

#[tokio::test]
async fn a_second_prompt_of_the_same_name_is_refused() {
    let registry = Registry::new();
    registry.register_prompt(explain()).unwrap();
    let refused = registry.register_prompt(Prompt::new("explain", "Another").user("no"));
    assert_eq!(refused.unwrap_err().to_string(), "Prompt with name 'explain' already exists");
    let result = get_prompt(&registry, "explain", json!({"thing": "x"})).await.unwrap();
    assert_eq!(result["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unusable_prompt_is_refused() {
    let registry = Registry::new();
    let nameless = |name: &str| Prompt::new(name, "Says nothing").user("Nothing");
    for (prompt, why) in [
        (nameless(""), "'' cannot be registered: give it a name, without control characters"),
        (nameless(" "), "' ' cannot be registered: give it a name, without control characters"),
        (
            Prompt::new("a", "Says nothing"),
            "'a' cannot be registered: it has nothing to say: add `user`, `assistant` or `answered_by`",
        ),
        (
            nameless("a").required("b", "").proposing("c", ["d"]),
            "'a' cannot be registered: it proposes values for something that it does not take",
        ),
        (nameless("a\n"), "'a\n' cannot be registered: give it a name, without control characters"),
        (
            nameless("a").required("b", "").optional("b", ""),
            "'a' cannot be registered: two of its arguments have one name",
        ),
        (
            nameless("a").optional("{b}", ""),
            "'a' cannot be registered: give each of its arguments a name, without braces",
        ),
    ] {
        assert_eq!(registry.register_prompt(prompt).unwrap_err().to_string(), why);
    }
    assert!(registry.list_prompts().is_empty());
}
