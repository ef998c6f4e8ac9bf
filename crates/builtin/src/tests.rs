//! Every built-in tool: its results, its errors and its limits.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use upstream::egress::EgressPolicy;

use super::*;

fn now() -> Timestamp {
    "2026-03-29T00:59:30Z".parse().unwrap()
}

async fn with(client: &HttpClient, name: &str, arguments: Value) -> BuiltinResult {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    BuiltinTool::find_by_name(name).unwrap().call(arguments, now(), client).await
}

async fn call(name: &str, arguments: Value) -> BuiltinResult {
    with(&HttpClient::new(EgressPolicy::default()), name, arguments).await
}

async fn given(name: &str, arguments: Value) -> Value {
    call(name, arguments).await.unwrap()
}

#[tokio::test]
async fn every_tool_has_a_schema_a_description_and_an_example_that_works() {
    for builtin in BUILTIN_TOOLS {
        let manifest = builtin.manifest();
        assert_eq!(*manifest.name, *builtin.name);
        assert!(manifest.description.ends_with('.'), "{}", builtin.name);
        let schema = builtin.input_schema();
        assert_eq!(schema["type"], "object", "{}", builtin.name);
        assert_eq!(schema["additionalProperties"], false, "{}", builtin.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{} {name}", builtin.name);
        }
        let example: Value = serde_json::from_str(builtin.example).unwrap();
        assert_eq!(
            execution::problems_by_schema(&schema, &example),
            Ok(Vec::new()),
            "{}",
            builtin.name
        );
        if !builtin.uses_network {
            assert!(given(builtin.name, example).await.is_object(), "{}", builtin.name);
        }
    }
}

#[tokio::test]
async fn the_time_is_given_in_any_zone() {
    let vienna = given("current_time", json!({"timezone": "Europe/Vienna"})).await;
    assert_eq!(vienna["time"], "2026-03-29T01:59:30+01:00");
    assert_eq!(vienna["utc"], "2026-03-29T00:59:30Z");
    assert_eq!(vienna["weekday"], "Sunday");
    assert_eq!(given("current_time", json!({})).await["time"], "2026-03-29T00:59:30+00:00");
    let error = call("current_time", json!({"timezone": "Mars/Olympus"})).await.unwrap_err();
    assert!(error.contains("no time zone `Mars/Olympus`"), "{error}");
}

#[tokio::test]
async fn identifiers_are_unique() {
    let made = given("uuid", json!({"version": 7, "count": 100})).await;
    let made: Vec<_> = made["uuids"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(made.len(), 100);
    assert!(made.is_sorted());
    let one = given("uuid", json!({})).await;
    assert_eq!(one["uuids"][0].as_str().unwrap().as_bytes()[14], b'4');
    assert!(call("uuid", json!({"version": 1})).await.is_err());
}

#[tokio::test]
async fn decoding_reverses_encoding() {
    for (kind, encoded) in [
        ("base64", "w7wvPz4="),
        ("base64url", "w7wvPz4"),
        ("hex", "c3bc2f3f3e"),
        ("percent", "%C3%BC%2F%3F%3E"),
        ("json", "\"ü/?>\""),
    ] {
        let wanted = json!({ "encoded": encoded });
        assert_eq!(given("encode", json!({"text": "ü/?>", "as": kind})).await, wanted, "{kind}");
        let back = given("decode", json!({"encoded": encoded, "from": kind})).await;
        assert_eq!(back, json!({"text": "ü/?>"}), "{kind}");
    }
    for (kind, encoded) in
        [("base64", "%"), ("base64url", "%"), ("hex", "abc"), ("hex", "zz"), ("json", "a")]
    {
        assert!(call("decode", json!({"encoded": encoded, "from": kind})).await.is_err(), "{kind}");
    }
    let bytes = given("decode", json!({"encoded": "ff00", "from": "hex"})).await;
    assert_eq!(bytes, json!({"bytes_base64": "/wA="}));
}

#[tokio::test]
async fn hashes_agree_with_known_values() {
    let hash = given("hash", json!({"text": "abc"})).await;
    assert_eq!(hash["hash"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (algorithm, digits) in [("sha224", 56), ("sha384", 96), ("sha512", 128)] {
        let hash = given("hash", json!({"text": "abc", "algorithm": algorithm})).await;
        assert_eq!(hash["hash"].as_str().unwrap().len(), digits);
    }
}

#[tokio::test]
async fn a_pattern_returns_its_groups() {
    let text = "order 4711, order 4712";
    let found = given("regex_extract", json!({"text": text, "pattern": "(ORDER) (?<id>[0-9]+)", "ignore_case": true, "max_matches": 1})).await;
    let wanted = json!({"matches": [{"match": "order 4711", "groups": {"1": "order", "id": "4711"}}], "all": false});
    assert_eq!(found, wanted);
    for pattern in ["(", "(?=a)", r"(a)\1", "(a{1000}){1000}", &"a".repeat(2000)] {
        assert!(call("regex_extract", json!({"text": "a", "pattern": pattern})).await.is_err());
    }
}

#[tokio::test]
async fn no_pattern_runs_for_long() {
    let mut number = 1_u32;
    let mut random = || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if number >> 31 == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..256 << 10).map(|_| random()).collect();
    for pattern in ["(a*)*c", "(a|aa)+$", ".*?.*?.*?c|a", "(?:a?){30}a{30}", "[ab]*a[ab]{900}c"] {
        let start = std::time::Instant::now();
        let found = call("regex_extract", json!({"text": text, "pattern": pattern})).await;
        assert!(found.unwrap()["matches"].is_array(), "{pattern}");
        assert!(start.elapsed().as_secs() < 60, "{pattern}");
    }
    for pattern in ["[ab]*a[ab]{1500}c", "[ab]*a[ab]{6000}c"] {
        let error = call("regex_extract", json!({"text": text, "pattern": pattern})).await;
        assert!(error.unwrap_err().contains("cannot be used"), "{pattern}");
    }
    let longer = format!("{text}a");
    assert!(call("regex_extract", json!({"text": longer, "pattern": "a"})).await.is_err());
}

#[tokio::test]
async fn nested_groups_do_not_multiply_the_output() {
    let (text, pattern) =
        ("a".repeat(200 << 10), format!("{}a+{}", "(".repeat(40), ")".repeat(40)));
    let found = given("regex_extract", json!({"text": text, "pattern": pattern})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1, "what was found is told");
    let many = given(
        "regex_extract",
        json!({"text": "a ".repeat(100_000), "pattern": "((((a))))", "max_matches": 1000}),
    )
    .await;
    assert_eq!(many["all"], false);
}

#[tokio::test]
async fn short_arguments_cannot_cause_much_work() {
    let doubled = "[@,@]|".to_owned() + &"[@,@][]|".repeat(16);
    let query = format!("{doubled}map(&`\"{}\"`,@)", "x".repeat(1_500));
    let error = call("json_query", json!({"json": 0, "query": query})).await.unwrap_err();
    assert!(error.contains("too much work"), "{error}");
    let (values, items): (Vec<_>, Vec<_>) = ((0..4_000).collect(), (0..40_000).collect());
    let schema = json!({"items": {"enum": values}});
    assert!(call("validate_json", json!({"schema": schema, "json": items})).await.is_err());
    let schema = json!({"items": {"properties": values.iter().map(|n| (n.to_string(), json!({}))).collect::<Map<_, _>>()}});
    let items: Vec<_> = items.iter().map(|_| json!({})).collect();
    assert!(call("validate_json", json!({"schema": schema, "json": items})).await.is_err());
    let schema = json!({"anyOf": (0..4).map(|n| json!({"pattern": format!("{}{n}", r"\w?".repeat(300))})).collect::<Vec<_>>()});
    assert!(call("validate_json", json!({"schema": schema, "json": "a"})).await.is_err());
}

#[tokio::test]
async fn json_is_queried() {
    let orders = json!({"orders": [{"id": 1, "open": true}, {"id": 2, "open": false}]});
    let wanted = json!({"result": [1]});
    assert_eq!(
        given("json_query", json!({"json": orders, "query": "orders[?open].id"})).await,
        wanted
    );
    let text = orders.to_string();
    assert_eq!(
        given("json_query", json!({"json": text, "query": "orders[?open].id"})).await,
        wanted
    );
    assert!(call("json_query", json!({"json": {}, "query": "["})).await.is_err());
    assert!(call("json_query", json!({"json": "{", "query": "a"})).await.is_err());
    let hides = r#"{"$serde_json::private::RawValue":"{\"a\":1}"}"#;
    assert!(call("json_query", json!({"json": hides, "query": "a"})).await.is_err());
}

#[tokio::test]
async fn a_text_is_counted() {
    let text = "Größe: one.\nTwo (really!) – three";
    let counted = given("text_statistics", json!({ "text": text })).await;
    let wanted = json!({"characters": 33, "words": 5, "lines": 2, "sentences": 3, "bytes": 37, "tokens_estimated": 10});
    assert_eq!(counted, wanted);
    assert_eq!(given("text_statistics", json!({"text": ""})).await["sentences"], 0);
}

#[tokio::test]
async fn json_is_validated_against_a_schema() {
    let schema =
        json!({"type": "object", "required": ["id"], "properties": {"n": {"type": "integer"}}});
    let found = given("validate_json", json!({"schema": schema, "json": {"n": "1"}})).await;
    assert_eq!(found["valid"], false);
    assert_eq!(found["problems"].as_array().unwrap().len(), 2);
    let fits = given("validate_json", json!({"schema": schema, "json": {"id": 1}})).await;
    assert_eq!(fits, json!({"valid": true, "problems": []}));
    for schema in [
        json!({"type": "nothing"}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"pattern": "(?=a)"}),
    ] {
        let answer = call("validate_json", json!({"schema": schema, "json": "a"})).await;
        assert!(answer.is_err(), "{schema} {answer:?}");
    }
}

/// Serves these bytes as the answer to one request.
fn page(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
        stream.write_all(answer).unwrap();
    });
    format!("http://{address}/page")
}

#[tokio::test]
async fn a_page_of_an_allowed_address_is_fetched_in_parts() {
    let client =
        HttpClient::new(EgressPolicy::default()).with_allowed(["127.0.0.1".parse().unwrap()]);
    let url = page(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 7\r\n\r\nGr\xc3\xbc\xc3\x9fe");
    let asked = json!({"url": url, "start": 1, "max_characters": 3});
    let got = with(&client, "fetch_url", asked).await.unwrap();
    let wanted = json!({"url": url, "status": 200, "content_type": "text/plain", "text": "rüß", "next_start": 4, "characters": 5});
    assert_eq!(got, wanted);

    let url = page(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff");
    assert!(
        with(&client, "fetch_url", json!({ "url": url })).await.unwrap_err().contains("no text")
    );
    let url = page(
        b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n",
    );
    assert!(with(&client, "fetch_url", json!({ "url": url })).await.is_err());
}

#[tokio::test]
async fn addresses_that_are_not_public_are_not_fetched() {
    for url in [
        "http://127.0.0.1:1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://10.0.0.1/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "http://user:secret@example.com/",
        "no address",
    ] {
        assert!(call("fetch_url", json!({ "url": url })).await.is_err(), "{url}");
    }
}
