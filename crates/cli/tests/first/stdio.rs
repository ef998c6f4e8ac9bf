//! `toolcrib stdio TARGET`: for clients that start their servers themselves.

use serde_json::json;

use crate::stdio::{StdioClient, modern, names};
use crate::support::{Folder, ok};
use crate::upstream::Upstream;

#[test]
fn all_tools_of_the_targets_are_served_without_a_journal() {
    let specification = r#"{"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, "servers": [{"url": "/"}],
        "paths": {"/now": {"get": {"operationId": "now", "responses": {}}}}}"#;
    let upstream = Upstream::replying(move |request| match request.contains("GET /now") {
        true => ok("text/plain", "noon"),
        false => ok("application/json", specification),
    });
    let folder = Folder::empty();
    let mut spoken =
        StdioClient::start(&folder, &format!("stdio {}", upstream.url("/openapi.json")));
    assert_eq!(names(&spoken.ask(&modern(1, "tools/list", json!({})))), ["now"]);
    let call = json!({"name": "now", "arguments": {}});
    let answer = spoken.ask(&modern(2, "tools/call", call));
    assert_eq!(answer["result"]["content"][0]["text"], "noon");
    assert_eq!(spoken.close(), (String::new(), Some(0)));
    assert_eq!(folder.files(), [""; 0]);
    let run = folder.run("stdio missing.yaml");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("`missing.yaml` cannot be read"), "{}", run.stderr);
}
