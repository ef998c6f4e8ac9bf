//! The examples in the documentation of custom tools can be registered and work.

use serde_json::{Value, json};

use super::{CustomSource, Folder, PATH, Server};

/// JSON blocks of the page, in order.
fn examples() -> Vec<Value> {
    let page = std::fs::read_to_string("../../docs/custom.md").unwrap();
    let blocks = page.split("```json\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.map(|block| serde_json::from_str(block).unwrap()).collect()
}

#[test]
fn every_documented_example_can_be_registered_and_used() {
    let folder = Folder::empty();
    std::fs::create_dir(folder.path("docs")).unwrap();
    folder.write("docs/refunds.md", "Refunds take five days.");
    let docs = folder.path("docs");
    let mut settings = json!({});
    let examples = examples();
    assert!(4 <= examples.len());
    for example in &examples {
        for (member, list) in example.as_object().unwrap() {
            let all = settings.as_object_mut().unwrap().entry(member).or_insert_with(|| json!([]));
            all.as_array_mut().unwrap().extend(list.as_array().unwrap().iter().cloned());
        }
    }
    let text = settings.to_string().replace("/srv/handbook", &docs.display().to_string());
    let options = format!("--allow-stdio --resource-folder {}", docs.display());
    let server = Server::on_folder_with_environment(Folder::empty(), &options, &[PATH]);
    let own = CustomSource::on_server(server, serde_json::from_str(&text).unwrap());
    assert_eq!(own.call("opening_hours", json!({}))["structuredContent"]["sunday"], Value::Null);
    let found = own.text("find_in_handbook", json!({"words": "five days"}));
    assert_eq!(found, "Refunds take five days.");
    let message = own.prompt("explain", json!({"thing": "a gateway"}))["messages"][0].clone();
    assert_eq!(message["content"]["text"], "Explain a gateway in three sentences. ");
    assert_eq!(own.read("handbook://refunds")["text"], "Refunds take five days.");
    assert_eq!(own.read("motto://today")["text"], "Less, but better.");
}
