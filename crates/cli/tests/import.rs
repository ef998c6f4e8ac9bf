//! `toolcrib import`: MCP servers from the configuration of other programs.

use serde_json::json;

use crate::support::Folder;

#[test]
fn a_dry_run_reports_the_result_and_changes_nothing() {
    let folder = Folder::empty();
    let servers = json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"NODE_ENV": "production"}},
        "hook": {"command": "node", "env": {"NODE_OPTIONS": "--require /tmp/x.js"}},
        "line": {"command": "npx -y server"},
        "web": {"url": "https://me:hunter2@a.example/mcp"},
    }});
    folder.write("mcp.json", servers.to_string());
    folder.write("key", "a key that is long enough to be one");
    insta::assert_snapshot!(folder.run("import mcp.json --dry-run").seen(), @"
    stderr: files would not be taken: its secrets must be sealed: give --sealing-key-file FILE, here and to the server (`openssl rand -base64 32 > FILE` makes one)
    stderr: hook would not be taken: `environment.NODE_OPTIONS` of the command: may not be set: it can make Node.js run other code than the command says; if you need it, name a script of your own as the program and set it there
    stderr: line would not be taken: `program` of the command: names one program, and no shell reads it: its arguments go into `arguments`
    stderr: web would not be taken: a URL holds no user name or password: give them under `auth`, by reference
    exit code: 3
    ");
    assert!(!folder.path("toolcrib.db").exists());
    insta::assert_snapshot!(folder.run("import mcp.json --sealing-key-file key").seen(), @"
    files: registered as `files`: npx -y server
    stderr: hook was not taken: `environment.NODE_OPTIONS` of the command: may not be set: it can make Node.js run other code than the command says; if you need it, name a script of your own as the program and set it there
    stderr: line was not taken: `program` of the command: names one program, and no shell reads it: its arguments go into `arguments`
    stderr: web was not taken: a URL holds no user name or password: give them under `auth`, by reference
    stderr: a server refreshes new sources by itself; programs need `toolcrib serve --allow-stdio`
    exit code: 3
    ");
    // A source that exists by now is reported too.
    insta::assert_snapshot!(folder.run("import mcp.json --dry-run --sealing-key-file key").seen(), @"
    stderr: files would not be taken: there is a source `files` already
    stderr: hook would not be taken: `environment.NODE_OPTIONS` of the command: may not be set: it can make Node.js run other code than the command says; if you need it, name a script of your own as the program and set it there
    stderr: line would not be taken: `program` of the command: names one program, and no shell reads it: its arguments go into `arguments`
    stderr: web would not be taken: a URL holds no user name or password: give them under `auth`, by reference
    exit code: 3
    ");
}

#[test]
fn a_file_that_is_not_json_is_reported() {
    let folder = Folder::empty();
    folder.write("mcp.json", "mcpServers:");
    insta::assert_snapshot!(folder.run("import mcp.json").seen(), @"
    stderr: error: `mcp.json` is not JSON: expected value at line 1 column 1
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run_with("import -", "no", &[]).seen(), @"
    stderr: error: `standard input` is not JSON: expected ident at line 1 column 2
    exit code: 1
    ");
}

#[test]
fn client_variables_and_passwords_in_arguments_are_rejected() {
    let folder = Folder::empty();
    let servers = json!({"servers": {
        "files": {"command": "npx", "args": ["-y", "server", "${workspaceFolder}"]},
        "rows": {"command": "rows", "args": ["--database=postgres://me:hunter2@db.example/x?a=b"]},
        "same": {"command": "rows", "args": ["postgres://me:hunter2@db.example/x"]},
        "fine": {"command": "rows", "args": ["--url=https://db.example/?a=b", "a=b", "x://y"]},
    }});
    folder.write("mcp.json", servers.to_string());
    insta::assert_snapshot!(folder.run("import mcp.json").seen(), @"
    fine: registered as `fine`: rows --url=https://db.example/?a=b a=b x://y
    stderr: files was not taken: nobody fills in its argument `${workspaceFolder}` here: write what it stands for
    stderr: rows was not taken: one of its arguments holds a password, and arguments stand in the journal as they are: give it to the program by its environment
    stderr: same was not taken: one of its arguments holds a password, and arguments stand in the journal as they are: give it to the program by its environment
    stderr: a server refreshes new sources by itself; programs need `toolcrib serve --allow-stdio`
    exit code: 3
    ");
}
