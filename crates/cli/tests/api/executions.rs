//! The call log from outside: its contents, and that no call is missing after a stop or a kill.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::calls::Shop;
use super::server::{Ask, Server};
use crate::support::Folder;

fn shop(record: &str) -> Shop {
    let folder = Folder::empty();
    folder.write("crib.yaml", format!("record: {record}"));
    Shop::at(Server::on_folder(folder, "--config crib.yaml"))
}

/// Calls at every endpoint: 1 and 2 over REST, 3 over the HTTP manifest, 4 and 5 over MCP, 6 for an ungranted tool.
fn calls(shop: &Shop) {
    let path = "/api/agents/tools/call";
    let body = json!({"name": "get_pet", "arguments": {"id": 7}});
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ask = Ask::new("POST", path).bearer(&shop.key).header("x-request-id", "first");
    shop.server.send(&ask.header("traceparent", trace).json(&body)).ok();
    shop.post("/api/tools/pets:break_pet/execute", &json!({})).ok();
    shop.post("/tools/get_pet", &json!({"id": 7})).ok();
    for name in ["get_pet", "delete_pet"] {
        let params = json!({"name": name, "arguments": {"id": "seven"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let ask = Ask::new("POST", "/mcp").bearer(&shop.key).json(&call);
        shop.server.send(&ask.header("accept", "application/json, text/event-stream"));
    }
    shop.post(path, &json!({"name": "delete_pet"}));
}

#[test]
fn every_endpoint_records_its_calls() {
    let shop = Shop::open();
    calls(&shop);
    let rows = shop.server.get("/api/executions").ok();
    let rows: Vec<&Value> = rows["data"].as_array().unwrap().iter().rev().collect();
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let word = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
            let words = ["door", "means", "tool_id", "status", "code"].map(word);
            format!("{} {}", row["id"], words.join(" "))
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    1 rest key pets:get_pet completed -
    2 rest key pets:break_pet failed upstream_error
    3 manifest key pets:get_pet completed -
    4 mcp key pets:get_pet failed validation_error
    5 mcp key - failed not_granted
    6 rest key - failed not_granted
    ");
    let first = rows[0];
    assert_eq!(first["correlation_id"], "first");
    assert_eq!(first["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((&first["argument_bytes"], &first["result_bytes"]), (&json!(8), &json!(14)));
    assert_eq!((&first["upstream_status"], &first["source_id"]), (&json!(200), &json!("pets")));
    assert_eq!(first["subject"], "key:bot");
    assert!(rows.iter().all(|row| row.get("arguments").is_none()));
    assert!(rows[3]["correlation_id"].is_string());
    let one = shop.server.get("/api/executions/1").ok();
    assert_eq!(&one, first);
    for path in ["/api/executions/0", "/api/executions/7", "/api/executions/x"] {
        assert_eq!(shop.server.get(path).status, 404, "{path}");
    }
}

#[test]
fn calls_are_filtered_paged_exported_and_counted() {
    let shop = Shop::open();
    calls(&shop);
    let ids = |query: &str| -> String {
        let page = shop.server.get(&format!("/api/executions?{query}")).ok();
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| row["id"].to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids("tool=pets:get_pet"), "4 3 1");
    assert_eq!(ids("source=pets&status=failed"), "4 2");
    assert_eq!(ids("code=not_granted&subject=key:bot"), "6 5");
    assert_eq!(ids("subject=nobody"), "");
    assert_eq!(ids("correlation_id=first"), "1");
    assert_eq!(ids("trace_id=0af7651916cd43dd8448eb211c80319c"), "1");
    assert_eq!(ids("door=mcp&status=failed"), "5 4");
    assert_eq!(ids("issuer=https://id.example"), "");
    assert_eq!(ids("until=2020-01-01T00:00:00Z"), "");
    assert_eq!(ids("since=2020-01-01T00:00:00Z&limit=2"), "6 5");
    let page = shop.server.get("/api/executions?limit=4").ok();
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&format!("cursor={cursor}&limit=2")), "2 1");
    for bad in ["status=odd", "door=odd", "cursor=odd", "since=yesterday", "tol=x", "limit=0"] {
        assert_eq!(shop.server.get(&format!("/api/executions?{bad}")).status, 422, "{bad}");
    }
    let export = shop.server.get("/api/executions.jsonl?tool=pets:get_pet");
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    // The chunk sizes of the chunked response stand between the JSON lines.
    let exported = || export.body.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = exported().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 3, 4]);
    for line in exported() {
        let (text, hash) = line.rsplit_once(",\"hash\":\"").unwrap();
        let digest = model::Digest::of_bytes(format!("{text}}}")).to_string();
        assert_eq!(hash.trim_end_matches("\"}"), digest);
    }
    let tool = shop.server.get("/api/tools/pets:get_pet").ok();
    assert_eq!((&tool["execution_count"], &tool["error_count"]), (&json!(3), &json!(1)));
    assert_eq!(tool["last_error"], "the arguments do not fit the schema");
    assert!(tool["last_executed_at"].is_string());
    let unused = shop.server.get("/api/tools/pets:add_pet").ok();
    assert_eq!((&unused["execution_count"], &unused["last_error"]), (&json!(0), &Value::Null));
    // The tool list shows the same values as each single tool.
    let listed = shop.server.get("/api/tools").ok();
    let listed = listed["data"].as_array().unwrap();
    let of = |id: &str| listed.iter().find(|tool| tool["id"] == id).unwrap();
    for name in ["execution_count", "last_executed_at", "error_count", "last_error"] {
        assert_eq!(of("pets:get_pet")[name], tool[name], "{name}");
        assert_eq!(of("pets:add_pet")[name], unused[name], "{name}");
    }
    let usage = shop.server.get("/api/executions/usage?subject=key:bot").ok();
    assert_eq!((&usage["execution_count"], &usage["error_count"]), (&json!(6), &json!(4)));
    for odd in ["", "?by=odd", "?by=tool&subject=x", "?by=tool&cursor=odd", "?by=tool&limit=0"] {
        assert_eq!(shop.server.get(&format!("/api/executions/usage{odd}")).status, 422, "{odd}");
    }
    let most = shop.server.get("/api/executions/usage?by=tool&limit=1").ok();
    let name = |page: &Value| page["data"][0]["name"].clone();
    assert_eq!((name(&most), &most["data"][0]["error_count"]), (json!("pets:get_pet"), &json!(1)));
    let next = most["next_cursor"].as_str().unwrap();
    let next = format!("/api/executions/usage?by=tool&limit=1&cursor={next}");
    let next = shop.server.get(&next).ok();
    assert_eq!((name(&next), &next["next_cursor"]), (json!("pets:break_pet"), &Value::Null));
    let callers = shop.server.get("/api/executions/usage?by=subject").ok();
    assert_eq!(callers["data"][0]["execution_count"], 6);
}

#[test]
fn the_cli_lists_verifies_and_exports_the_call_log_of_a_running_server() {
    let shop = shop("{arguments: true}");
    let secret = json!({"id": 7, "password": "hunter2"});
    shop.post("/api/tools/pets:get_pet/execute", &json!({"arguments": secret}));
    calls(&shop);
    shop.server.get("/api/executions").ok();
    let run = |arguments: &str| shop.server.folder.run(arguments);
    let listed = run("execution list -n 3 --tool pets:get_pet").output();
    assert!(listed.contains("key:bot") && listed.contains("failed (validation_error)"), "{listed}");
    let verified = run("execution verify").output();
    assert!(verified.contains("calls    7\n") && verified.ends_with("ok\n"), "{verified}");
    let exported = run("execution export").output();
    assert_eq!(exported.lines().filter(|line| line.starts_with('{')).count(), 7);
    assert!(exported.contains(r#"{\"id\":7,\"password\":\"[redacted]\"}"#), "{exported}");
    let kept: Value = serde_json::from_str(&run("execution verify --json").output()).unwrap();
    let head = format!("{}:{}", kept["head"]["id"], kept["head"]["hash"].as_str().unwrap());
    let lines: String = exported
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| format!("{line}\n"))
        .collect();
    shop.server.folder.write("calls.jsonl", &lines);
    for whole in [
        format!("execution verify --head {head}"),
        format!("execution verify --file calls.jsonl --head {head}"),
    ] {
        let verified = run(&whole).output();
        assert!(verified.contains("calls    7\n") && verified.ends_with("ok\n"), "{verified}");
    }
    let other = head.replace(['0', '1', '2', '3'], "9");
    for (line, said) in [
        (
            format!("execution verify --head 7:{}", other.split_once(':').unwrap().1),
            "does not have the hash",
        ),
        (
            format!("execution verify --head 8:{}", head.split_once(':').unwrap().1),
            "row 8, of which a hash was kept",
        ),
    ] {
        let seen = run(&line).seen();
        assert!(seen.contains(said) && seen.contains("exit code: 3"), "{seen}");
    }
    shop.server.folder.write("calls.jsonl", lines.replacen("completed", "cancelled", 1));
    let seen = run("execution verify --file calls.jsonl").seen();
    assert!(seen.contains("row 2 was changed") && seen.contains("exit code: 3"), "{seen}");
    shop.server.folder.write("calls.jsonl", "nothing\n");
    let seen = run("execution verify --file calls.jsonl").seen();
    assert!(seen.contains("line 1 is no row of an export"), "{seen}");
    let all = shop.server.folder.files();
    let bytes: Vec<u8> =
        all.iter().flat_map(|file| std::fs::read(shop.server.folder.path(file)).unwrap()).collect();
    assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"));
    let path = shop.server.folder.path("toolcrib.db.record");
    let record = rusqlite::Connection::open(path).unwrap();
    record.execute("DELETE FROM calls WHERE id = 3", []).unwrap();
    let seen = run("execution verify").seen();
    assert!(seen.contains("row 3 is missing"), "{seen}");
}

#[test]
fn the_cli_prints_the_same_for_a_file_and_for_a_server() {
    let shop = Shop::open();
    calls(&shop);
    shop.server.get("/api/executions").ok();
    let folder = &shop.server.folder;
    let at = format!("--server {}", shop.server.url(""));
    let key = [("TOOLCRIB_KEY", shop.server.key.as_str())];
    for line in [
        "execution list",
        "execution list --json",
        "execution list -n 2 --source pets",
        "execution list --status failed --code not_granted --subject key:bot",
        "execution list --correlation-id first --trace-id 0af7651916cd43dd8448eb211c80319c --door rest",
        "execution show 2",
        "execution usage",
        "execution usage -n 1 --json",
        "execution usage --by subject",
        "execution usage --by odd",
        "execution usage --tool pets:get_pet",
        "execution usage --subject key:bot --json",
        "execution export",
        "execution export --tool pets:get_pet",
        "execution show 99",
        "execution list --status odd",
        "execution list --since yesterday",
    ] {
        let here = folder.run(line).seen();
        let there = folder.run_with(&format!("{line} {at}"), "", &key).seen();
        assert_eq!(here, there, "{line}");
    }
    let some = folder.run("execution list -n 2 --source pets --json").output();
    let some: Value = serde_json::from_str(&some).unwrap();
    assert_eq!((&some[0]["id"], &some[1]["id"], &some[2]), (&json!(3), &json!(4), &Value::Null));
    let export = folder.run("execution export --tool pets:get_pet");
    assert_eq!((export.stdout.lines().count(), export.stderr.trim()), (3, "exported 3 calls"));
    let used = folder.run("execution usage").output();
    let used: Vec<Vec<&str>> =
        used.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert!(used.contains(&vec!["pets:get_pet", "3", "1"]), "{used:?}");
    assert!(used.contains(&vec!["pets:break_pet", "1", "1"]), "{used:?}");
    insta::assert_snapshot!(folder.run("execution show 99").seen(), @"
    stderr: error: there is no execution `99`
    exit code: 4
    ");
    insta::assert_snapshot!(folder.run("execution list --status odd").seen(), @"
    stderr: error: `status`: there is no `odd`; there is `completed`, `failed`, `cancelled`
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("execution list --since yesterday").seen(), @"
    stderr: error: `since`: is to be a time, such as `2026-05-01T12:00:00Z`
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run(&format!("execution export {at}")).seen(), @"
    stderr: error: this is for admins: send a key, as TOOLCRIB_KEY
    exit code: 5
    ");
    insta::assert_snapshot!(Folder::empty().run("execution list").seen(), @"
    stderr: error: the journal `toolcrib.db.record` cannot be opened (there is no such file: no call was recorded yet)
    exit code: 1
    ");
}

#[test]
fn a_disabled_call_log_is_not_found_and_writes_no_file() {
    let shop = shop("{mode: off}");
    calls(&shop);
    assert_eq!(shop.server.get("/api/executions").status, 404);
    assert!(shop.server.get("/api/tools/pets:get_pet").ok().get("execution_count").is_none());
    assert!(!shop.server.folder.path("toolcrib.db.record").exists());
}

/// Calls over several connections until the server is gone, and counts the answers.
fn start_load(shop: &Shop, answered: &Arc<AtomicU64>) -> Vec<thread::JoinHandle<()>> {
    let address = shop.server.url("").replace("http://", "");
    let body = r#"{"arguments":{"id":7}}"#;
    let request = format!(
        "POST /api/tools/pets:get_pet/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        shop.key,
        body.len()
    );
    let call = move |answered: &AtomicU64, address: &str, request: &str| -> Option<()> {
        let mut stream = BufReader::new(TcpStream::connect(address).ok()?);
        stream.get_mut().set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        loop {
            stream.get_mut().write_all(request.as_bytes()).ok()?;
            let (mut length, mut status) = (0, String::new());
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).ok()? == 0 {
                    return None;
                }
                match line.trim_end().split_once(": ") {
                    None if line == "\r\n" => break,
                    None => status = line,
                    Some(("content-length", value)) => length = value.parse().unwrap(),
                    Some(_) => {}
                }
            }
            stream.read_exact(&mut vec![0; length]).ok()?;
            assert!(status.starts_with("HTTP/1.1 200"), "{status}");
            answered.fetch_add(1, Ordering::SeqCst);
        }
    };
    let start = |_| {
        let (answered, address, request) = (answered.clone(), address.clone(), request.clone());
        thread::spawn(move || {
            call(&answered, &address, &request);
        })
    };
    (0..4).map(start).collect()
}

/// Ends a server under load; returns the number of answered calls and of recorded calls.
fn end_under_load(record: &str, signal: &str) -> (u64, u64) {
    let mut shop = shop(record);
    let answered = Arc::new(AtomicU64::new(0));
    let clients = start_load(&shop, &answered);
    while answered.load(Ordering::SeqCst) < 100 {
        thread::sleep(Duration::from_millis(5));
    }
    shop.server.send_signal(signal);
    shop.server.wait_for_exit();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let report = shop.server.folder.run("execution verify --json").output();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    (answered.load(Ordering::SeqCst), report["rows"].as_u64().unwrap())
}

#[test]
fn a_server_that_stops_has_recorded_every_call() {
    let (answered, recorded) = end_under_load("{}", "TERM");
    assert!(answered <= recorded && recorded <= answered + 4, "{answered} {recorded}");
}

#[test]
fn a_killed_server_in_strict_mode_has_recorded_every_answered_call() {
    let (answered, recorded) = end_under_load("{mode: strict}", "KILL");
    assert!(answered <= recorded && recorded <= answered + 4, "{answered} {recorded}");
}
