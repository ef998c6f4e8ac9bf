//! Of the verbs for beginners.

use super::help;

#[test]
fn client() {
    insta::assert_snapshot!(help("client"), @"
    Say what Claude, Cursor, VS Code and others are told to use a server

    Usage: toolcrib client [OPTIONS] [NAME]

    Arguments:
      [NAME]  Which program [possible values: claude-code, claude-desktop, cursor, langchain,
              openai-agents, vscode]

    Options:
          --url <URL>        Where the server speaks MCP [default: http://127.0.0.1:8080/mcp]
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Without NAME it says it for all of them.

    Examples:
      toolcrib client
      toolcrib client cursor --url https://crib.example.com/mcp
    ");
}

#[test]
fn explain() {
    insta::assert_snapshot!(help("explain"), @r#"
    Say which tools an identity has, and why

    Usage: toolcrib explain [OPTIONS] --claims <CLAIMS>

    Options:
          --claims <CLAIMS>  The claims as JSON, a file with them, or `-` for standard input
          --tool <TOOL>      Only this tool, by its id or any form of its name
          --at <MOMENT>      A position, a time or a date instead of now
          --json             Print JSON instead of text
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Reads the journal; a server may be running. Without --tool it lists the tools of the identity. With
    --tool it says what grants the tool or what stops it, and the exit code is 0 if it is granted and 3
    if it is not.

    Examples:
      toolcrib explain --claims '{"role":"staff"}'
      toolcrib explain --claims token.json --tool get_pet
      toolcrib explain --claims token.json --tool pets:get_pet --at 2026-05-01T12:00:00Z
      toolcrib explain --claims token.json --server http://127.0.0.1:8080
    "#);
}
