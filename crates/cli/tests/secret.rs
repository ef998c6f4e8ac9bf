//! `toolcrib secret`: secrets are encrypted, listed, removed, and never printed.

use crate::api::server::Server;
use crate::support::{Folder, KEY};

const CANARY: &str = "canary-secret-51c9";

fn key() -> [(&'static str, &'static str); 1] {
    [("TOOLCRIB_SEALING_KEY", KEY)]
}

#[test]
fn a_secret_is_encrypted_listed_and_removed() {
    let folder = Folder::empty();
    insta::assert_snapshot!(folder.run_with("secret set billing", CANARY, &key()).seen(), @"sealed; sources refer to it as `sealed:billing`");
    folder.run_with("secret set archive", "another\n", &key()).output();
    insta::assert_snapshot!(folder.run("secret list").seen(), @"
    archive
    billing
    ");
    insta::assert_snapshot!(folder.run("secret list --json").seen(), @r#"
    [
      "archive",
      "billing"
    ]
    "#);
    insta::assert_snapshot!(folder.run("secret remove archive").seen(), @"removed `archive`");
    insta::assert_snapshot!(folder.run("secret remove archive").seen(), @"
    stderr: error: no secret is sealed under `archive`: put one there with `toolcrib secret set archive`
    exit code: 1
    ");
    folder.run("secret remove billing").output();
    insta::assert_snapshot!(folder.run("secret list").seen(), @"stderr: no secret is sealed here");
}

#[test]
fn a_secret_is_in_no_file_and_no_output() {
    let folder = Folder::with_catalog();
    let set = folder.run_with("-vvv secret set billing", CANARY, &key());
    assert!(!set.seen().contains(CANARY) && !set.seen().contains(KEY));
    assert_eq!(set.code, Some(0));
    for verb in [
        "secret list",
        "journal show",
        "journal tail",
        "journal verify",
        "journal export out.jsonl",
    ] {
        let run = folder.run(&format!("-vvv {verb}"));
        assert!(!run.seen().contains(CANARY), "{verb}");
    }
    for name in folder.files() {
        let bytes = std::fs::read(folder.path(&name)).unwrap();
        let found = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!found(CANARY) && !found(KEY), "{name}");
    }
}

#[test]
fn a_key_can_come_from_a_file() {
    let folder = Folder::empty();
    folder.write("sealing.key", format!("{KEY}\n"));
    folder.run_with("secret set billing --sealing-key-file sealing.key", CANARY, &[]).output();
    insta::assert_snapshot!(
        folder.run_with("secret set billing --sealing-key-file no.key", CANARY, &[]).seen(), @"
    stderr: error: `no.key` cannot be read: No such file or directory (os error 2)
    exit code: 1
    ");
}

#[test]
fn invalid_secrets_and_keys_are_rejected() {
    let folder = Folder::empty();
    let set = |arguments: &str, value: &str, key: &str| {
        let environment = [("TOOLCRIB_SEALING_KEY", key)];
        folder.run_with(&format!("secret set {arguments}"), value, &environment).seen()
    };
    insta::assert_snapshot!(set("billing", CANARY, ""), @"
    stderr: error: sealed secrets need a key: give one with TOOLCRIB_SEALING_KEY or --sealing-key-file (`openssl rand -base64 32 > FILE` makes one)
    exit code: 1
    ");
    insta::assert_snapshot!(set("billing", CANARY, "short"), @"
    stderr: error: a sealing key has at least 32 characters: make one with `openssl rand -base64 32`
    exit code: 1
    ");
    insta::assert_snapshot!(set("billing", "\n", KEY), @"
    stderr: error: a secret has at most 65536 bytes and is not empty
    exit code: 1
    ");
    insta::assert_snapshot!(set("billing", &"x".repeat(70_000), KEY), @"
    stderr: error: a secret has at most 65536 bytes and is not empty
    exit code: 1
    ");
    insta::assert_snapshot!(set("sealed:billing", CANARY, KEY), @"
    stderr: error: give the name alone: `billing`
    exit code: 1
    ");
    insta::assert_snapshot!(set(&"x".repeat(2_000), CANARY, KEY), @"
    stderr: error: a secret's name has 1 to 1024 bytes and no control characters
    exit code: 1
    ");
}

#[test]
fn a_value_on_the_command_line_is_rejected() {
    let run = Folder::empty().run_with("secret set billing value", "", &key());
    assert_eq!(run.code, Some(2));
}

#[test]
fn secrets_can_be_managed_at_a_running_server() {
    let server = Server::start_with_environment(&key());
    let at = |verb: &str, value: &str| {
        let line = format!("secret {verb} --server {}", server.url(""));
        server.folder.run_with(&line, value, &[("TOOLCRIB_KEY", &server.key)])
    };
    let seen = |verb: &str, value: &str| at(verb, value).seen();
    insta::assert_snapshot!(seen("set billing", CANARY), @"sealed; sources refer to it as `sealed:billing`");
    at("set archive/A%2Fü", "another\n").output();
    insta::assert_snapshot!(seen("list", ""), @"
    archive/A%2Fü
    billing
    ");
    insta::assert_snapshot!(seen("list --json", ""), @r#"
    [
      "archive/A%2Fü",
      "billing"
    ]
    "#);
    insta::assert_snapshot!(seen("set sealed:billing", CANARY), @"
    stderr: error: give the name alone: `billing`
    exit code: 1
    ");
    insta::assert_snapshot!(seen("set billing", &"x".repeat(70_000)), @"
    stderr: error: `value`: a secret has at most 65536 bytes and is not empty
    exit code: 1
    ");
    insta::assert_snapshot!(seen("remove archive/A%2Fü", ""), @"removed `archive/A%2Fü`");
    insta::assert_snapshot!(seen("remove archive/A%2Fü", ""), @"
    stderr: error: there is no secret `archive/A%2Fü`
    exit code: 4
    ");
    let stranger = format!("secret list --server {}", server.url(""));
    insta::assert_snapshot!(server.folder.run(&stranger).seen(), @"
    stderr: error: this is for admins: send a key, as TOOLCRIB_KEY
    exit code: 5
    ");
    let here = server.folder.run_with("secret set billing", CANARY, &key());
    assert!(here.stderr.contains("a server runs on the journal"), "{}", here.seen());
    assert_eq!(here.code, Some(6));
}
