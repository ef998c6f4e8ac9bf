//! Help of the verbs for beginners and for operators.

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
fn completions() {
    insta::assert_snapshot!(help("completions"), @"
    Print completions for a shell

    Usage: toolcrib completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  Which shell [possible values: bash, elvish, fish, powershell, zsh]

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib completions bash > ~/.local/share/bash-completion/completions/toolcrib
      toolcrib completions zsh > ~/.zfunc/_toolcrib
      toolcrib completions fish > ~/.config/fish/completions/toolcrib.fish
    ");
}

#[test]
fn doctor() {
    insta::assert_snapshot!(help("doctor"), @r#"
    Look at all that a server needs, and say what is wrong

    Usage: toolcrib doctor [OPTIONS]

    Options:
          --config <FILE>            The configuration of the server
          --tls-cert <FILE>          The certificate of the server, in PEM
          --tls-key <FILE>           The private key of the certificate, in PEM
          --sealing-key-file <FILE>  A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]
          --offline                  Do not ask sources and embeddings whether they are there
          --json                     Print JSON instead of text
          --journal <PLACE>          Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    Looks at the journal, the configuration, keys, secrets, the clock, issuers, embeddings, sources, TLS
    files and limits. Changes nothing; a server may be running. The exit code is 0 if all works and 3 if
    something does not; what will end soon is a warning.

    Examples:
      toolcrib doctor
      toolcrib doctor --config toolcrib.yaml --tls-cert crib.pem --tls-key crib.key
      toolcrib doctor --json | jq '.findings[] | select(.state != "ok")'
    "#);
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

#[test]
fn man() {
    insta::assert_snapshot!(help("man"), @"
    Print the manual, as `man` reads it

    Usage: toolcrib man [OPTIONS]

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib man > ~/.local/share/man/man1/toolcrib.1
      toolcrib man | man -l -
    ");
}
