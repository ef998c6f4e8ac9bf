//! A server that follows a configuration file.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Ask, Server};
use crate::support::Folder;

const FIRST: &str = "groups: [{id: a, name: First}]\nlimits: {connections: 100}\n";

fn following(text: &str) -> Server {
    let folder = Folder::empty();
    folder.write("crib.yaml", text);
    Server::on_folder(folder, "--config crib.yaml")
}

/// Polls the configuration status until it meets the condition.
fn wait_for_config_status(server: &Server, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let config = server.get("/api/config").ok();
        if is_so(&config) {
            return config;
        }
        assert!(Instant::now() < deadline, "{config}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn name(server: &Server) -> Value {
    server.get("/api/groups/a").ok()["name"].take()
}

#[test]
fn a_server_applies_its_file_when_it_starts() {
    let server = following(FIRST);
    assert_eq!(name(&server), "First");
    let config = server.get("/api/config").ok();
    assert_eq!((&config["file"], &config["is_applied"]), (&json!("crib.yaml"), &json!(true)));
    assert_eq!(config["problems"], json!([]));
}

#[test]
fn a_valid_version_is_applied_and_an_invalid_one_changes_nothing() {
    let server = following(FIRST);
    server.folder.write("crib.yaml", "groups:\n  - {id: a, nmae: Second}\n");
    let config = wait_for_config_status(&server, |config| config["is_applied"] == false);
    let problem = "crib.yaml:2:13: `groups[0].nmae`: is not known here; did you mean `name`?";
    assert!(config["problems"].as_array().unwrap().contains(&json!(problem)), "{config}");
    assert_eq!(name(&server), "First");
    let ready = server.send(&Ask::new("GET", "/health/ready")).ok();
    assert_eq!(ready, json!({"status": "ready", "notes": ["configuration"]}));
    server.folder.write("crib.yaml", "groups: [{id: a, name: Second}]\nlimits: {connections: 7}\n");
    let config = wait_for_config_status(&server, |config| config["is_applied"] == true);
    assert_eq!(config["needs_restart"], json!(["limits"]));
    assert_eq!(name(&server), "Second");
}

#[test]
fn a_tool_override_is_applied_once_its_source_has_the_tool() {
    let server = following(
        "sources: [{id: own, name: Own, settings: {kind: builtin}}]\n\
         tools: [{id: own:calculate, description: Sums}]\n",
    );
    wait_for_config_status(&server, |config| config["waiting"] == json!([]));
    assert_eq!(server.get("/api/tools/own:calculate").ok()["description"], "Sums");
}

#[test]
fn a_server_does_not_start_on_a_file_that_cannot_be_applied() {
    let folder = Folder::empty();
    folder.write(
        "crib.yaml",
        "policies:\n  - {id: p, name: P, groups: [a], matchers: [{claim: a, operator: exists}]}\n",
    );
    let run = folder.run("serve --listen 127.0.0.1:0 --config crib.yaml");
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("crib.yaml:2:22: `policies[0].groups`: names group `a`"),
        "{}",
        run.stderr
    );
    assert_eq!(folder.files(), ["crib.yaml"]);
}

#[test]
fn a_file_referenced_by_a_rejected_version_is_watched_too() {
    let server = following(FIRST);
    let order = include_str!("../../../../examples/order.workflow.yaml");
    let text = "groups: [{id: a, name: Second}]\n\
        sources: [{id: w, name: W, settings: {kind: workflow, documents: [{file: order.yaml}]}}]\n";
    server.folder.write("crib.yaml", text);
    wait_for_config_status(&server, |config| config["is_applied"] == false);
    assert_eq!(name(&server), "First");
    server.folder.write("order.yaml", order);
    wait_for_config_status(&server, |config| config["is_applied"] == true);
    assert_eq!(name(&server), "Second");
}

#[test]
fn config_status_is_not_found_without_a_configuration_file() {
    assert!(Server::start().get("/api/config").problem().starts_with("404 not_found"));
}
