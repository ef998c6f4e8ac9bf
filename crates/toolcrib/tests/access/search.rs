//! Search among the tools of an agent: the score table, the details of a hit, and an index that is never stale.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catalog::source::SourceCommand;
use catalog::tool::{ToolCommand, ToolOverride};
use model::{Agent, Inventory, Manifest, McpPrimitive};
use serde_json::{Map, Value, json};
use toolcrib::{AgentView, Command, EmbeddingBackend, EmbeddingOptions, Toolcrib, ToolcribOptions};

use crate::server::{Upstream, answer};
use crate::world::{World, agent, from_json, manifest};

async fn search_names(view: &AgentView, query: &str) -> Vec<String> {
    let hits = view.search(query, 10).await;
    hits.iter().map(|hit| hit.tool.name().to_owned()).collect()
}

/// A world in which agents with the role `x` have all tools.
async fn open_world(sources: &[(&str, &[&str])]) -> World {
    let world = World::with_tools(sources).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    world
}

#[tokio::test]
async fn hits_are_ordered_by_the_score_table() {
    let world = World::with_tools(&[(
        "pets",
        &["order", "order_pizza", "reorder", "cancel", "orders_old", "odrer"],
    )])
    .await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let hits = world.view(json!({"role": "x"})).search("Order", 10).await;
    let shown: Vec<_> = hits.iter().map(|hit| (hit.tool.name(), hit.score)).collect();
    assert_eq!(
        shown[..4],
        [("order", 1.0), ("order_pizza", 0.9), ("orders_old", 0.9), ("reorder", 0.8)]
    );
    assert_eq!(shown.len(), 5);
    assert!(shown[4].0 == "odrer" && shown[4].1 < 0.4);
    assert_eq!(world.view(json!({"role": "x"})).search("", 3).await.len(), 3);
}

#[tokio::test]
async fn a_changed_tool_is_found_by_its_new_words_at_once() {
    let world = World::with_tools(&[("pets", &["a", "b"]), ("bills", &["c"])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.group("some", json!({"tools": ["pets:a", "bills:c"]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    world.policy("some", json!({"role": "y"}), &["some"]).await;
    let found = async |role: &str| {
        search_names(&world.view(json!({"role": role})), "please brew me some coffees").await
    };
    assert!(found("x").await.is_empty());
    let description = Some("Brews strong coffee".into());
    let overridden = ToolOverride { description, ..ToolOverride::default() };
    let change = ToolCommand::Override(overridden);
    world.execute(Command::Tool("pets:b".parse().unwrap(), change)).await;
    assert_eq!(found("x").await, ["b"]);
    assert!(found("y").await.is_empty());
    let back = ToolCommand::Override(ToolOverride::default());
    world.execute(Command::Tool("pets:b".parse().unwrap(), back)).await;
    assert!(found("x").await.is_empty());
    let hits = world.view(json!({"role": "x"})).search("bills__c", 10).await;
    assert_eq!((hits[0].tool.name(), hits[0].score), ("c", 1.0));
}

#[tokio::test]
async fn an_agent_chooses_the_detail_and_size_of_search_results() {
    let names = ["order_one", "order_two", "order_three"];
    let world = World::with_tools(&[("shop", &names)]).await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let view = world.view(json!({"role": "x"}));
    let search = async |arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        view.call("tool_search", arguments).await.unwrap().result.unwrap()
    };
    let members = |found: &Value, index: usize| -> Vec<String> {
        found["tools"][index].as_object().unwrap().keys().cloned().collect()
    };
    let full = ["name", "description", "score", "input_schema"];
    assert_eq!(members(&search(json!({"query": "order"})).await, 0), full);
    let summary = search(json!({"query": "order", "detail": "summary"})).await;
    assert_eq!(members(&summary, 0), ["name", "description", "score"]);
    let short = search(json!({"query": "order", "detail": "names"})).await;
    assert_eq!(members(&short, 2), ["name", "score"]);
    assert_eq!(short["call_with"], "execute_tool");
    // The best hit is returned with all details; hits beyond the token limit are only counted.
    let little = search(json!({"query": "order", "max_tokens": 60})).await;
    let told = little["tools"].as_array().unwrap().len() as u64;
    assert!((1..=3).contains(&told), "{little}");
    assert!(little.to_string().len() <= 4 * 60 + 60, "{little}");
    assert_eq!(little["left_out"].as_u64().unwrap_or_default(), 3 - told);
}

#[tokio::test]
async fn a_view_searches_the_snapshot_it_was_created_from() {
    let world = open_world(&[("pets", &["walk_dog", "feed_cat"])]).await;
    let before = world.view(json!({"role": "x"}));
    assert_eq!(search_names(&before, "walk the dog").await, ["walk_dog"]);
    // A new tool reuses the slot of a removed one.
    world.execute(Command::Source("pets".parse().unwrap(), SourceCommand::Remove)).await;
    let profile =
        json!({"name": "zoo", "url": "https://z.example", "settings": {"kind": "openapi"}});
    let register = SourceCommand::Register(from_json(profile));
    world.execute(Command::Source("zoo".parse().unwrap(), register)).await;
    let tools =
        ["ride_lion", "tame_tiger"].map(|it| (it.to_owned(), manifest("https://z.example", it)));
    let inventory = Box::new(Inventory::new("zoo".parse().unwrap(), tools).unwrap());
    world.execute(Command::Ingest { inventory, force: false }).await;
    let after = world.view(json!({"role": "x"}));
    for _ in 0..2 {
        assert_eq!(search_names(&after, "ride a lion").await, ["ride_lion"]);
        assert!(search_names(&after, "walk the dog").await.is_empty());
        assert_eq!(search_names(&before, "walk the dog").await, ["walk_dog"]);
        assert!(search_names(&before, "ride a lion").await.is_empty());
    }
}

#[tokio::test]
async fn a_tool_is_found_by_the_new_name_of_its_source() {
    let world = open_world(&[("pets", &["list"]), ("bills", &["pay"])]).await;
    assert!(
        search_names(&world.view(json!({"role": "x"})), "something veterinary").await.is_empty()
    );
    let profile = json!({"name": "Veterinary", "url": "https://api.example", "settings": {"kind": "openapi"}});
    let update = SourceCommand::Update(from_json(profile));
    world.execute(Command::Source("pets".parse().unwrap(), update)).await;
    assert_eq!(
        search_names(&world.view(json!({"role": "x"})), "something veterinary").await,
        ["list"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_search_during_indexing_finds_all_tools_of_the_agent() {
    let names: Vec<String> = (0..600).map(|number| format!("fetch_thing_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = open_world(&[("things", &names)]).await;
    let crib = world.crib.clone();
    let following = tokio::spawn(async move { crib.keep_searchable().await });
    let searches = (0..32).map(|number| {
        let view = world.view(json!({"role": "x"}));
        tokio::spawn(async move {
            (number, search_names(&view, &format!("fetch_thing_{number}")).await)
        })
    });
    for search in searches.collect::<Vec<_>>() {
        let (number, found) = search.await.unwrap();
        assert_eq!(found[0], format!("fetch_thing_{number}"));
    }
    // Every acknowledged change is found at once.
    for number in 0..20 {
        let (tool, name) = (format!("things:fetch_thing_{number}"), format!("zebra{number}"));
        world.rename(&tool, &name).await;
        assert_eq!(search_names(&world.view(json!({"role": "x"})), &name).await[0], name);
    }
    following.abort();
}

#[tokio::test]
async fn prompts_and_resources_are_found_if_requested() {
    let world = World::with_tools(&[("notes", &[])]).await;
    let selectors = ["tool", "prompt", "resource"].map(|kind| json!({"kind": kind, "name": "*"}));
    for (kind, selector) in ["tools", "prompts", "resources"].into_iter().zip(selectors) {
        world.group(kind, json!({"visibility": "searchable", "selectors": [selector]})).await;
    }
    world.policy("all", json!({"role": "x"}), &["tools", "prompts", "resources"]).await;
    let offer = |name: &str, description: &str, execution: Value| {
        let execution = from_json(execution);
        let manifest = manifest("https://api.example", name);
        (name.to_owned(), Manifest { description: description.into(), execution, ..manifest })
    };
    let all = [
        offer("write_note", "Writes a note", json!({"mode": "mcp_call"})),
        offer("review_note", "Reviews a note", json!({"mode": "mcp_prompt"})),
        offer(
            "old_notes",
            "All notes",
            json!({"mode": "mcp_resource", "uri": "file:///archive/notes"}),
        ),
        offer("a_note", "One note", json!({"mode": "mcp_template", "uri_template": "note://{id}"})),
    ];
    let inventory = Box::new(Inventory::new("notes".parse().unwrap(), all).unwrap());
    world.execute(Command::Ingest { inventory, force: false }).await;
    let view = world.view(json!({"role": "x"}));
    let search = async |arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        view.call("tool_search", arguments).await.unwrap().result.unwrap()
    };
    let tools = search(json!({"query": "note"})).await;
    assert_eq!(tools["tools"][0]["name"], "write_note");
    assert!(tools.get("prompts").is_none() && tools.get("resources").is_none());
    let kinds = json!({"query": "note", "kinds": ["prompts", "resources"]});
    let others = search(kinds).await;
    assert!(others.get("tools").is_none());
    assert_eq!(others["prompts"][0]["name"], "review_note");
    assert_eq!(others["get_with"], "prompts/get");
    let resources = others["resources"].as_array().unwrap();
    let keys: Vec<_> =
        resources.iter().map(|it| it.get("uri").or(it.get("uriTemplate")).unwrap()).collect();
    assert_eq!(keys, ["note://{id}", "file:///archive/notes"]);
    let archive =
        json!({"query": "what is in the archive", "kinds": ["resources"], "detail": "names"});
    let archive = search(archive).await;
    assert_eq!(archive["resources"].as_array().unwrap().len(), 1);
    assert_eq!(archive["resources"][0]["uri"], "file:///archive/notes");
    assert!(archive["resources"][0].get("description").is_none());
    // An agent without a grant finds nothing of any kind.
    let stranger = world.view(json!({"role": "y"}));
    for kind in [McpPrimitive::Prompt, McpPrimitive::Resource] {
        assert!(stranger.search_offers(kind, "note", 10).await.is_empty());
        assert!(stranger.search_offers(kind, "", 10).await.is_empty());
    }
}

#[tokio::test]
async fn similar_tools_of_one_source_are_grouped_in_short_answers() {
    let world = World::with_tools(&[
        ("shop", &["list_orders", "list_orders_by_date", "list_old_orders", "list_users"]),
        ("bar", &["list_orders_by_table"]),
    ])
    .await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let view = world.view(json!({"role": "x"}));
    let search = async |arguments: Value| {
        let arguments = arguments.as_object().unwrap().clone();
        let answer = view.call("tool_search", arguments).await.unwrap().result.unwrap();
        answer["tools"].as_array().unwrap().clone()
    };
    let names = |tools: &[Value]| -> Vec<String> {
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let full = search(json!({"query": "list orders"})).await;
    assert_eq!(full.len(), 5);
    assert!(full.iter().all(|tool| tool.get("similar").is_none()));
    for short in [json!({"detail": "summary"}), json!({"max_tokens": 1_000})] {
        let mut wanted = json!({"query": "list orders"});
        wanted.as_object_mut().unwrap().extend(short.as_object().unwrap().clone());
        let tools = search(wanted).await;
        assert_eq!(names(&tools), ["list_orders", "list_orders_by_table", "list_users"]);
        let mut similar: Vec<_> = tools[0]["similar"].as_array().unwrap().clone();
        similar.sort_by_key(ToString::to_string);
        assert_eq!(similar, ["list_old_orders", "list_orders_by_date"]);
        assert!(tools[1].get("similar").is_none());
    }
}

#[tokio::test]
async fn tools_used_after_a_search_rank_higher_for_that_agent_only() {
    let json = "content-type: application/json\r\n";
    let upstream = Upstream::replying(move |_| answer("200 OK", json, b"{}"));
    let tools = ["send_report", "send_report_again", "send_letter"];
    let world = World::with_tools_at(&upstream.url(""), &[("mail", &tools)]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let learning = world
        .with_options(ToolcribOptions { learns_from_usage: true, ..ToolcribOptions::default() });
    let who = |subject: &str, issuer: &str| {
        Agent::new(subject, Arc::new(from_json(json!({"role": "x", "iss": issuer}))))
    };
    let query = "please send the report to everybody";
    let ada = learning.view(&who("ada", "https://a.example"));
    let before = search_names(&ada, query).await;
    assert_eq!(before[0], "send_report");
    ada.call("send_report_again", Map::new()).await.unwrap();
    let again = ada.search("send that report now", 10).await;
    assert_eq!(again[0].tool.name(), "send_report_again");
    assert!(again.iter().all(|hit| hit.score <= 1.0));
    assert_eq!(search_names(&ada, query).await[0], "send_report_again");
    // Not affected: other queries, exact names, other agents, an equal subject of another issuer, and a toolcrib that
    // does not learn.
    assert_eq!(search_names(&ada, "send a letter by mail").await[0], "send_letter");
    assert_eq!(search_names(&ada, "send_report").await[0], "send_report");
    for other in [who("bob", "https://a.example"), who("ada", "https://b.example")] {
        assert_eq!(search_names(&learning.view(&other), query).await, before);
    }
    assert_eq!(
        search_names(&world.crib.view(&who("ada", "https://a.example")), query).await,
        before
    );
    // Anonymous callers are not one identity, so nothing is learned from them.
    let claims = json!({"role": "x", "anonymous": true});
    let nobody = Agent::new("anonymous", Arc::new(from_json(claims)));
    let nobody = learning.view(&nobody);
    search_names(&nobody, query).await;
    nobody.call("send_report_again", Map::new()).await.unwrap();
    assert_eq!(search_names(&nobody, query).await, before);
}

/// An embeddings endpoint with vectors for flying, weather and everything else; it rejects texts with `cursed`.
fn embeddings_endpoint(is_broken: Arc<AtomicBool>) -> Upstream {
    Upstream::replying(move |request| {
        if is_broken.load(Ordering::Relaxed) {
            return answer("500 Internal Server Error", "", b"the inside of it");
        }
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        if body.contains("cursed") {
            return answer("400 Bad Request", "", b"too many tokens");
        }
        let body: Value = serde_json::from_str(body).unwrap();
        let texts = body["input"].as_array().unwrap().iter().enumerate();
        let about = |text: &str, words: &[&str]| {
            f32::from(u8::from(words.iter().any(|it| text.contains(it))))
        };
        let data = texts.map(|(index, text)| {
            let text = text.as_str().unwrap();
            let (one, two) =
                (about(text, &["zeppelin", "floats"]), about(text, &["rain", "outside"]));
            json!({"index": index, "embedding": [one, two, 0.1]})
        });
        let body = json!({"data": data.collect::<Vec<_>>()}).to_string();
        answer("200 OK", "content-type: application/json\r\n", body.as_bytes())
    })
}

/// Starts the background indexing and waits until semantic search works.
async fn wait_for_embeddings(crib: &Toolcrib) -> tokio::task::AbortHandle {
    let background = crib.clone();
    let background = tokio::spawn(async move { background.keep_searchable().await });
    let view = crib.view(&agent(json!({"role": "x"})));
    let deadline = Instant::now() + Duration::from_secs(20);
    while search_names(&view, "whatever floats nicely").await.is_empty()
        && Instant::now() < deadline
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    background.abort_handle()
}

#[tokio::test]
async fn search_is_semantic_with_an_embeddings_endpoint_and_by_words_without() {
    let world = open_world(&[("things", &["rent_zeppelin", "will_it_rain", "write_letter"])]).await;
    world.group("some", json!({"tools": ["things:write_letter"]})).await;
    world.policy("some", json!({"role": "y"}), &["some"]).await;
    let is_broken = Arc::<AtomicBool>::default();
    let upstream = embeddings_endpoint(Arc::clone(&is_broken));
    let folder = tempfile::tempdir().unwrap();
    let file = Some(folder.path().join("vectors"));
    let embeddings = || {
        let url = upstream.url("/v1/embeddings").parse().unwrap();
        let maker = EmbeddingBackend::Endpoint { url, model: "m".into(), key: None };
        EmbeddingOptions { backend: maker, file: file.clone() }
    };
    let crib = world.with_options(ToolcribOptions {
        embeddings: Some(embeddings()),
        ..ToolcribOptions::default()
    });
    let background = wait_for_embeddings(&crib).await;
    let view = crib.view(&agent(json!({"role": "x"})));
    assert_eq!(search_names(&view, "whatever floats nicely").await[0], "rent_zeppelin");
    assert_eq!(search_names(&view, "how is it outside").await[0], "will_it_rain");
    // Exact names and words still count, and scores stay in their range.
    assert_eq!(search_names(&view, "write letter").await[0], "write_letter");
    let hits = view.search("write_letter", 10).await;
    assert_eq!((hits[0].tool.name(), hits[0].score), ("write_letter", 1.0));
    assert!(view.search("whatever floats nicely", 10).await.iter().all(|hit| hit.score <= 1.0));
    // Semantic search finds only granted tools.
    let stranger = crib.view(&agent(json!({"role": "y"})));
    assert!(
        !search_names(&stranger, "whatever floats nicely")
            .await
            .contains(&"rent_zeppelin".to_owned())
    );
    // Search by words finds no such tool.
    let plain = world.view(json!({"role": "x"}));
    assert!(search_names(&plain, "whatever floats nicely").await.is_empty());
    background.abort();
    // A second process reads the stored tool vectors and requests only that of the query.
    let told = |text: &str| upstream.requests().iter().filter(|it| it.contains(text)).count();
    let before = told("rent zeppelin");
    let again = world.with_options(ToolcribOptions {
        embeddings: Some(embeddings()),
        ..ToolcribOptions::default()
    });
    let background = wait_for_embeddings(&again).await;
    let view = again.view(&agent(json!({"role": "x"})));
    assert_eq!(search_names(&view, "whatever floats nicely").await[0], "rent_zeppelin");
    assert_eq!((before, told("rent zeppelin")), (1, 1));
    is_broken.store(true, Ordering::Relaxed);
    assert!(search_names(&view, "whatever floats nicely").await.is_empty());
    assert_eq!(search_names(&view, "please write a letter").await, ["write_letter"]);
    background.abort();
}

#[tokio::test]
async fn a_text_rejected_by_the_endpoint_does_not_affect_other_texts() {
    let names = ["cursed_thing", "rent_zeppelin", "will_it_rain"];
    let world = open_world(&[("things", &names)]).await;
    let upstream = embeddings_endpoint(Arc::default());
    let url = upstream.url("/v1/embeddings").parse().unwrap();
    let maker = EmbeddingBackend::Endpoint { url, model: "m".into(), key: None };
    let embeddings = Some(EmbeddingOptions { backend: maker, file: None });
    let crib = world.with_options(ToolcribOptions { embeddings, ..ToolcribOptions::default() });
    let background = wait_for_embeddings(&crib).await;
    let view = crib.view(&agent(json!({"role": "x"})));
    assert_eq!(search_names(&view, "whatever floats nicely").await[0], "rent_zeppelin");
    assert!(search_names(&view, "cursed and it floats").await.contains(&"cursed_thing".to_owned()));
    assert_eq!(search_names(&view, "how is it outside").await[0], "will_it_rain");
    background.abort();
}

#[tokio::test]
async fn tool_search_finds_only_granted_tools() {
    let world = World::with_tools(&[("pets", &["get_pet", "sell_pet"])]).await;
    world.group("some", json!({"visibility": "searchable", "tools": ["pets:get_pet"]})).await;
    world.policy("some", json!({"role": "x"}), &["some"]).await;
    let view = world.view(json!({"role": "x"}));
    for query in ["pet", "sell_pet", ""] {
        let wanted = Map::from_iter([("query".to_owned(), query.into())]);
        let result = view.call("tool_search", wanted).await.unwrap().result.unwrap();
        let hits = result["tools"].as_array().unwrap();
        assert!(hits.iter().all(|hit| hit["name"] == "get_pet"), "{query}: {hits:?}");
        assert!(query == "sell_pet" || hits.len() == 1, "{query}: {hits:?}");
    }
}

#[tokio::test]
async fn every_row_of_the_score_table_holds_for_a_single_word() {
    let world = World::with_tools(&[("things", &[])]).await;
    world.group("all", json!({"selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let tool = |name: &str, tag: &str, description: &str| {
        let manifest = manifest("https://api.example", name);
        let tags = if tag.is_empty() { Vec::new() } else { vec![tag.into()] };
        (name.to_owned(), Manifest { tags, description: description.into(), ..manifest })
    };
    let all = [
        tool("invoice", "", ""),
        tool("invoice_list", "", ""),
        tool("k1", "Invoice", ""),
        tool("get_invoice", "", ""),
        tool("k2", "old invoices", ""),
        tool("d1", "", "Sends an invoice."),
        tool("d2", "", "For invoicelike things."),
        tool("invoive", "", ""),
        tool("other", "thing", "Nothing of that"),
    ];
    let inventory = Box::new(Inventory::new("things".parse().unwrap(), all).unwrap());
    world.execute(Command::Ingest { inventory, force: false }).await;
    let view = world.view(json!({"role": "x"}));
    let hits = view.search("INVOICE", 20).await;
    let rows: Vec<_> = hits.iter().map(|hit| (hit.tool.name(), hit.score)).collect();
    let fixed = [
        ("invoice", 1.0),
        ("invoice_list", 0.9),
        ("k1", 0.85),
        ("get_invoice", 0.8),
        ("k2", 0.7),
        ("d1", 0.6),
        ("d2", 0.5),
    ];
    assert_eq!(rows[..7], fixed);
    // One letter of seven differs.
    assert_eq!(rows[7..], [("invoive", 0.3429)]);
    assert_eq!(view.search("", 100).await.len(), 9);
    assert!(view.search("nonesuch", 10).await.is_empty());
}

#[tokio::test]
async fn hostile_queries_are_answered_quickly_with_the_usual_errors() {
    let names: Vec<String> = (0..300).map(|number| format!("tool_{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::with_tools(&[("things", &names)]).await;
    world.group("all", json!({"visibility": "searchable", "selectors": [{"name": "*"}]})).await;
    world.policy("all", json!({"role": "x"}), &["all"]).await;
    let view = world.view(json!({"role": "x"}));
    let words: String = (0..10_000).map(|number| format!("tool_{number} ")).collect();
    let queries = [
        "x".repeat(1 << 20),
        "tool ".repeat(200_000),
        words,
        "\u{0}\u{7f}\u{202e}\u{feff}\r\n".repeat(1_000),
        ".*(a+)+$ [[[ \\ {{{ %s ' \" ; --".repeat(1_000),
    ];
    for query in queries {
        let begin = Instant::now();
        let wanted = Map::from_iter([("query".to_owned(), Value::from(query.clone()))]);
        let outcome = view.call("tool_search", wanted).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", query.get(..20));
        assert!(outcome.result.unwrap()["tools"].as_array().unwrap().len() <= 10);
    }
    for (member, value) in [
        ("query", json!({"a": 1})),
        ("max_results", json!(0)),
        ("detail", json!("everything")),
        ("kinds", json!(["secrets"])),
        ("max_tokens", json!(-1)),
    ] {
        let mut wanted = Map::from_iter([("query".to_owned(), json!("tool"))]);
        wanted.insert(member.to_owned(), value);
        let outcome = view.call("tool_search", wanted).await.unwrap();
        let text = serde_json::to_string(&outcome).unwrap();
        assert!(text.contains("validation_error") && !text.contains("panicked"), "{text}");
    }
    // `max_results` above the maximum is capped.
    let wanted = json!({"query": "tool", "max_results": 500});
    let outcome = view.call("tool_search", wanted.as_object().unwrap().clone()).await.unwrap();
    assert_eq!(outcome.result.unwrap()["tools"].as_array().unwrap().len(), 100);
    // The answer respects `max_tokens`.
    let wanted = json!({"query": "tool", "max_results": 100, "max_tokens": 50});
    let outcome = view.call("tool_search", wanted.as_object().unwrap().clone()).await.unwrap();
    let result = outcome.result.unwrap();
    assert!(result["tools"].to_string().len() <= 250, "{result}");
    assert!(0 < result["left_out"].as_u64().unwrap());
}
