//! `toolcrib eval search`: measures search on the user's own examples.

use serde_json::{Value, json};

use crate::support::Folder;
use crate::upstream::{Upstream, answer};

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn folder() -> Folder {
    let folder = Folder::empty();
    let tools = [
        json!({"name": "shop__get_price", "tool": "get_price", "server": "shop", "subset": "a", "description": "What it costs"}),
        json!({"name": "add_item", "subset": "a", "description": "Puts a thing into the basket", "keywords": ["cart"]}),
        json!({"name": "weather", "subset": "b", "description": "Rain or sun", "input_schema":
            {"properties": {"town": {"description": "Which municipality"}}}}),
        json!({"name": "basket", "subset": "b", "description": "Weaves a basket"}),
    ];
    let queries = [
        json!({"query_id": "1", "subset": "a", "kind": "nl", "query": "put it into my basket", "relevant": ["add_item"]}),
        json!({"query_id": "2", "subset": "a", "kind": "nl", "query": "the price of the thing", "relevant": ["add_item", "shop__get_price"],
            "groups": [["add_item", "shop__get_price"], ["nothing"]]}),
        json!({"query_id": "3", "subset": "b", "kind": "nl", "query": "will there be rain in this municipality", "relevant": ["weather"],
            "grades": {"weather": 2, "basket": 1}}),
        json!({"query_id": "4", "subset": "b", "kind": "typo", "query": "wether", "relevant": ["weather"]}),
        json!({"query_id": "5", "kind": "nl", "query": "baskets", "relevant": ["basket"]}),
    ];
    folder.write("tools.jsonl", lines(&tools));
    folder.write("queries.jsonl", lines(&queries));
    folder
}

const EVAL: &str = "eval search --tools tools.jsonl --queries queries.jsonl";

#[test]
fn search_is_measured_with_the_standard_metrics() {
    let output = folder().run(&format!("{EVAL} --json")).output();
    let answer: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&answer["tools"], &answer["queries"]), (&json!(4), &json!(5)));
    assert_eq!(answer["ranked"][0], json!({"query_id": "1", "ranked": ["add_item"]}));
    // A query without a subset is searched among all tools.
    assert_eq!(answer["ranked"][4]["ranked"], json!(["basket", "add_item"]));
    let near = |member: &str, expected: f64| {
        let got = answer[member].as_f64().unwrap();
        assert!((got - expected).abs() < 1e-9, "{member}: {got} is not {expected}");
    };
    // Subset a: one query fully met, another for one of two needs; b: one of two grades; and a query without a subset.
    let (second, ideal) = (1.0 / 3_f64.log2(), 1.0 + 1.0 / 3_f64.log2());
    near("recall@1", (0.75 + 1.0 + 1.0) / 3.0);
    near("recall@10", (0.75 + 1.0 + 1.0) / 3.0);
    near("ndcg@10", ((1.0 + 1.0 / ideal) / 2.0 + 2.0 / (2.0 + second) + 1.0) / 3.0);
    near("mrr", 1.0);
    assert_eq!(answer["typo"]["recall@1"], 1.0);
    assert!(0.0 < answer["p50_us"].as_f64().unwrap() && answer["p99_us"].is_f64());
}

#[test]
fn an_embeddings_endpoint_improves_the_ranking() {
    let upstream = Upstream::replying(|request| {
        assert!(request.contains("authorization: Bearer hunter2"), "{request}");
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let texts = body["input"].as_array().unwrap().iter().enumerate();
        // Texts about money point in one direction, all others in another.
        let data = texts.map(|(index, text)| {
            let text = text.as_str().unwrap();
            let is_money = f32::from(u8::from(text.contains("price") || text.contains("dear")));
            json!({"index": index, "embedding": [is_money, 1.0 - is_money]})
        });
        let body = json!({"data": data.collect::<Vec<_>>()}).to_string();
        answer("200 OK", "content-type: application/json\r\n", body.as_bytes())
    });
    let folder = folder();
    let query = json!({"query_id": "1", "query": "is this dear", "relevant": ["shop__get_price"]});
    folder.write("queries.jsonl", lines(&[query]));
    folder.write("key", "hunter2");
    let ndcg = |more: &str| {
        let output = folder.run(&format!("{EVAL} --json {more}")).output();
        serde_json::from_str::<Value>(&output).unwrap()["ndcg@10"].as_f64().unwrap()
    };
    assert_eq!(ndcg(""), 0.0);
    let url = upstream.url("/v1/embeddings");
    assert_eq!(ndcg(&format!("--embeddings {url} --model m --key file:key")), 1.0);
}

/// Writes a model with one neutral layer: a text lies where its words do, and `dear` lies where `price` does.
fn write_model(folder: &Folder) {
    let words = ["[UNK]", "[CLS]", "[SEP]", "price", "dear"];
    let config = json!({"model_type": "bert", "vocab_size": words.len(), "hidden_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 4, "max_position_embeddings": 64});
    let layer = |part: &str| format!("encoder.layer.0.{part}");
    let table = |name: &str| format!("embeddings.{name}_embeddings.weight");
    let money = [9.0, -9.0, 0.0, 0.0];
    let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = vec![
        (
            table("word"),
            vec![5, 4],
            [[0.0; 4], [0.0, 0.0, 9.0, -9.0], [0.0; 4], money, money].concat(),
        ),
        (table("position"), vec![64, 4], vec![0.0; 256]),
        (table("token_type"), vec![2, 4], vec![0.0; 8]),
    ];
    for part in [
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "intermediate.dense",
        "output.dense",
    ] {
        tensors.push((format!("{}.weight", layer(part)), vec![4, 4], vec![0.0; 16]));
        tensors.push((format!("{}.bias", layer(part)), vec![4], vec![0.0; 4]));
    }
    for norm in [
        "embeddings.LayerNorm".to_owned(),
        layer("attention.output.LayerNorm"),
        layer("output.LayerNorm"),
    ] {
        tensors.push((format!("{norm}.weight"), vec![4], vec![1.0; 4]));
        tensors.push((format!("{norm}.bias"), vec![4], vec![0.0; 4]));
    }
    let (mut header, mut numbers) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let begin = numbers.len();
        numbers.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let entry = json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, numbers.len()]});
        header.insert(name, entry);
    }
    let header = Value::from(header).to_string().into_bytes();
    let length = (header.len() as u64).to_le_bytes();
    std::fs::create_dir(folder.path("model")).expect("the folder is new");
    folder.write("model/config.json", config.to_string());
    folder.write("model/vocab.txt", words.join("\n"));
    folder.write("model/model.safetensors", [&length, &*header, &numbers].concat());
}

#[test]
fn a_model_in_a_folder_helps_to_find_what_is_meant() {
    let folder = folder();
    write_model(&folder);
    let query = json!({"query_id": "1", "query": "is this dear", "relevant": ["shop__get_price"]});
    folder.write("queries.jsonl", lines(&[query]));
    let measured = |more: &str| -> Value {
        let output = folder.run(&format!("{EVAL} --json {more}")).output();
        serde_json::from_str(&output).unwrap()
    };
    assert_eq!(measured("")["ndcg@10"], 0.0);
    assert_eq!(measured("--embeddings-folder model")["ndcg@10"], 1.0);
    let validated = measured("--embeddings-folder model --cross-validate");
    assert_eq!(validated["usual"], 0.2, "the one query is in one of five folds");
    assert!(validated["folds"][0]["meaning"].is_f64(), "{validated}");
    let run = folder.run(&format!("{EVAL} --embeddings-folder nowhere"));
    assert_eq!(run.code, Some(1));
    assert!(run.seen().contains("nowhere/config.json"), "{}", run.seen());
}

#[test]
fn weights_are_cross_validated_on_unseen_queries() {
    let output = folder().run(&format!("{EVAL} --cross-validate --json")).output();
    let answer: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(answer["folds"].as_array().unwrap().len(), 5);
    assert!(answer["usual"].is_f64() && answer["unseen"].is_f64());
    assert!(answer["folds"][0]["saturation"].is_f64(), "{answer}");
}

#[test]
fn an_invalid_line_is_reported_with_its_number() {
    let folder = folder();
    folder.write(
        "queries.jsonl",
        "{\"query_id\": 1, \"query\": \"a\", \"relevant\": []}\n\n{\"query\": 7}\n",
    );
    let run = folder.run(EVAL);
    assert_eq!(run.code, Some(1));
    assert!(run.seen().contains("line 3 of `queries.jsonl` cannot be used"), "{}", run.seen());
}
