//! Golden tests of the `--help` texts.

mod config;
mod execution;
mod journal;
mod page;
mod secret;
mod start;
mod things;
mod workflow;

use crate::support::Folder;

fn help(verb: &str) -> String {
    let text = Folder::empty().run(&format!("{verb} --help")).output();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_program() {
    insta::assert_snapshot!(help(""), @"
    One catalog for the tools of many sources; every agent gets exactly those it may use

    Usage: toolcrib [OPTIONS] <COMMAND>

    Commands:
      serve        Serve the catalog, or what TARGETs offer
      stdio        Offer the tools of one identity to a program that starts us, over MCP
      discover     List the tools of an API, without a server
      call         Call a tool of an API, without a server
      client       Say what Claude, Cursor, VS Code and others are told to use a server
      import       Take over the MCP servers that other programs know
      explain      Say which tools an identity has, and why
      search       Search the tools of an identity, or all tools
      plan         Say what a configuration file would change, and for whom
      apply        Make the catalog as a configuration file declares it
      export       Write the catalog as a configuration file
      config       Look at what configuration files are
      source       List, add, change, refresh and remove sources of tools
      tool         List tools, switch them, say something else of them, and review their changes
      group        List, add, change and remove groups of tools
      policy       List, add, change and remove policies, which grant groups
      label        List, add, change and remove labels of tools
      key          List, make, change and revoke API keys
      execution    List, show, count and write out the calls that were made, and check their record
      doctor       Look at all that a server needs, and say what is wrong
      completions  Print completions for a shell
      man          Print the manual, as `man` reads it
      eval         Measure how well something works on your own examples
      journal      Look into the journal, check it, move it
      secret       Keep the secrets that sources need
      workflow     Look at a tool of several steps, and check it
      help         Print this message or the help of the given subcommand(s)

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help
      -V, --version          Print version

    Examples:
      toolcrib serve --demo                   # a pizzeria to try things on
      toolcrib serve api.yaml                 # the tools of an API, over MCP
      toolcrib serve                          # a catalog; it says where, and the first key
      toolcrib stdio api.yaml                 # the same for a desktop client
      toolcrib discover api.yaml              # the tools of an API, without a server
      toolcrib call api.yaml get_pet id=7     # call one of them
      toolcrib explain --claims token.json    # which tools an identity has, and why
      toolcrib search how is my pet           # among all tools, or with --claims those of an identity
      toolcrib plan crib.yaml                 # what a configuration file would change, and for whom
      toolcrib apply crib.yaml                # change it, all of it or nothing
      toolcrib journal show                   # what the catalog knows now
      toolcrib journal tail --follow          # watch it change
      toolcrib journal verify                 # check every event ever recorded
      toolcrib journal export backup.jsonl    # keep a copy
    ");
}

#[test]
fn serve() {
    insta::assert_snapshot!(help("serve"), @"
    Serve the catalog, or what TARGETs offer

    Usage: toolcrib serve [OPTIONS] [TARGET]... [-- <COMMAND>...]

    Arguments:
      [TARGET]...   Specifications (files or URLs), http manifests or MCP servers (URLs)
      [COMMAND]...  A program that speaks MCP; of the environment it gets PATH, HOME, LANG and TMPDIR

    Options:
          --openapi <TARGET>         A TARGET that is a specification
          --mcp <TARGET>             A TARGET that is an MCP server: its URL, or a program with its
                                     arguments
          --manifest <URL>           A TARGET that is an http manifest: the URL that its `/tools` is
                                     below
          --allow <HOST>             What else TARGETs may reach although it is not public, such as
                                     `localhost:3000`
          --demo                     Serve a pizzeria to try things on, which brings its own API, agents
                                     and policies
          --listen <PLACE>           An address with a port, 0 for a free one, or unix:PATH [default:
                                     127.0.0.1:8080]
          --metrics-listen <PLACE>   Where `/metrics` and `/health` are open to whoever comes, and
                                     nothing else is
          --otlp-endpoint <URL>      A collector of OpenTelemetry for metrics and traces, such as
                                     `http://localhost:4318` [env: OTEL_EXPORTER_OTLP_ENDPOINT]
          --socket-mode <MODE>       Who may open the socket at unix:PATH, as for chmod [default: 600]
          --tls-cert <FILE>          A certificate and those that vouch for it, in PEM; read again when
                                     it changes
          --tls-key <FILE>           The private key of the certificate, in PEM
          --public-url <URL>         Where the server is for everybody else, such as
                                     `https://crib.example.com`
          --config <FILE>            The catalog as it is to be, issuers, names and limits; applied
                                     again when it changes
          --sealing-key-file <FILE>  A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]
          --new-admin-key            Make another key for an admin and print it, for whoever lost theirs
          --drain-delay <SECONDS>    How long to go on after SIGTERM while `/health/ready` says no, so
                                     that balancers see it [default: 0]
          --allow-anonymous          Let callers without a credential in, wherever they are
          --allow-stdio              Start the MCP servers and the tools that are programs, and let
                                     admins register such
          --resource-folder <DIR>    Let the files below this folder be resources; may be given several
                                     times
          --journal <PLACE>          Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    Each TARGET becomes a source, and all that they offer is for callers without a credential; it is in
    memory then, unless --journal says where. A TARGET may be on this machine or on a private network;
    what a specification names may not, but for --allow.

    Makes the journal if it is not there. If nobody could administer, a key for the first admin is made
    and printed once. Callers without a credential are let in only from this machine and only if there
    are no issuers, unless --allow-anonymous is given; admins always need one. SIGINT and SIGTERM stop
    the server; whoever was let in by then is answered, within 30 seconds. With -v every request is a
    line on stderr.

    Examples:
      toolcrib serve --demo
      toolcrib serve api.yaml https://api.example.com/openapi.json
      toolcrib serve -- npx -y @modelcontextprotocol/server-everything stdio
      toolcrib serve
      toolcrib serve --config toolcrib.yaml
      toolcrib serve --config toolcrib.yaml --listen 0.0.0.0:8080 --journal postgres://db.example/crib
      toolcrib serve --listen 0.0.0.0:8443 --tls-cert crib.pem --tls-key crib.key

    A configuration declares the catalog, which the server keeps to while it runs (see docs/config.md),
    and names issuers; their keys are found by OpenID Connect Discovery, or say where:
      issuers:
        - issuer: https://id.example.com/realms/acme
          audience: https://crib.example.com
          keys: {jwks_url: https://id.example.com/realms/acme/certs}
    ");
}

#[test]
fn discover() {
    insta::assert_snapshot!(help("discover"), @"
    List the tools of an API, without a server

    Usage: toolcrib discover [OPTIONS] [TARGET] [-- <COMMAND>...]

    Arguments:
      [TARGET]      A specification or http manifest (file, URL, or `-` for standard input), or the URL
                    of an MCP server
      [COMMAND]...  A program that speaks MCP, instead of TARGET; of the environment it gets PATH, HOME,
                    LANG and TMPDIR

    Options:
          --base-url <URL>           Where the API is, instead of where its specification says
          --describe <TEXT>          Which text of an operation describes its tool [default: summary]
                                     [possible values: summary, description, both]
          --media-type <TYPE>        What to send where an operation takes several media types
          --credential <SCHEME=REF>  The secret for a security scheme: `env:NAME` or `file:PATH`; for
                                     basic it is `user:password`
          --allow-private            Reach private and loopback addresses too
          --header <NAME=REF>        A header for TARGET if it is a URL: `NAME=REF`, where REF is
                                     `env:NAME` or `file:PATH`
          --bearer <REF>             A token or API key for TARGET if it is a URL: `env:NAME` or
                                     `file:PATH`
          --timeout <SECONDS>        How long to wait for an answer [default: 60 for a specification, 30
                                     for a call]
          --json                     Print JSON instead of text
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    TARGET is an OpenAPI 3 or Swagger 2.0 specification in JSON or YAML, the http manifest behind
    `GET /tools`, or the URL of an MCP server. After `--` comes a program that speaks MCP. What cannot
    become a tool is a warning.

    Examples:
      toolcrib discover api.yaml
      toolcrib discover https://api.example.com/openapi.json
      toolcrib discover https://mcp.example.com/mcp --header authorization=env:TOKEN
      toolcrib discover -- npx -y @modelcontextprotocol/server-everything stdio
      curl -s https://api.example.com/openapi.json | toolcrib discover - --json | jq -r '.tools[].name'
    ");
}

#[test]
fn call() {
    insta::assert_snapshot!(help("call"), @r#"
    Call a tool of an API, without a server

    Usage: toolcrib call [OPTIONS] TARGET TOOL [KEY=VALUE]...
           toolcrib call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND [ARGUMENT]...

    Arguments:
      <TARGET TOOL KEY=VALUE>...  The target as for `discover`, the tool as `discover` lists it, and
                                  arguments
      [COMMAND]...                A program that speaks MCP, instead of TARGET; of the environment it
                                  gets PATH, HOME, LANG and TMPDIR

    Options:
          --base-url <URL>           Where the API is, instead of where its specification says
          --describe <TEXT>          Which text of an operation describes its tool [default: summary]
                                     [possible values: summary, description, both]
          --media-type <TYPE>        What to send where an operation takes several media types
          --credential <SCHEME=REF>  The secret for a security scheme: `env:NAME` or `file:PATH`; for
                                     basic it is `user:password`
          --allow-private            Reach private and loopback addresses too
          --header <NAME=REF>        A header for TARGET if it is a URL: `NAME=REF`, where REF is
                                     `env:NAME` or `file:PATH`
          --bearer <REF>             A token or API key for TARGET if it is a URL: `env:NAME` or
                                     `file:PATH`
          --timeout <SECONDS>        How long to wait for an answer [default: 60 for a specification, 30
                                     for a call]
          --args <JSON>              Arguments as a JSON object, `@FILE` or `-` for standard input
          --dry-run                  Show the request and send nothing
          --show-secrets             Show secrets in a dry run
          --json                     Print JSON instead of text
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    A text argument takes VALUE as it is; any other takes JSON. --json prints the whole outcome:
    `tool_id`, `status`, `result` or `content`, `error` with its `code`, `execution_time_ms` and
    `upstream_status`. With --dry-run it prints `method`, `url`, `headers`, `content_type` and `body`
    (`body_base64` if it is not UTF-8). The exit code is 1 if the call failed.

    Examples:
      toolcrib call api.yaml get_pet id=7
      toolcrib call api.yaml add_pet name=Rex tags='["dog"]' --dry-run
      toolcrib call api.yaml add_pet --args @pet.json
      toolcrib call echo message=hi -- npx -y @modelcontextprotocol/server-everything stdio
      TOKEN=… toolcrib call api.yaml add_pet name=Rex --credential bearer=env:TOKEN
    "#);
}

#[test]
fn import() {
    insta::assert_snapshot!(help("import"), @r##"
    Take over the MCP servers that other programs know

    Usage: toolcrib import [OPTIONS] <FILE>

    Arguments:
      <FILE>  The file, or `-` for standard input

    Options:
          --dry-run                  Say what would be registered, and register nothing
          --sealing-key-file <FILE>  A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]
          --journal <PLACE>          Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    FILE is the configuration of a desktop client (`mcpServers` of Claude Desktop and Cursor, `servers`
    of VS Code) or a `server.json` of the official MCP registry; `-` is standard input. Each server
    becomes a source. Values of environments and headers are sealed; `${NAME}` stays a variable.

    Examples:
      toolcrib import ~/.cursor/mcp.json --dry-run
      toolcrib import claude_desktop_config.json --sealing-key-file key
      curl -s https://registry.example/v0.1/servers/… | toolcrib import -
    "##);
}

#[test]
fn stdio() {
    insta::assert_snapshot!(help("stdio"), @r#"
    Offer the tools of one identity to a program that starts us, over MCP

    Usage: toolcrib stdio [OPTIONS] [TARGET]... [-- <COMMAND>...]

    Arguments:
      [TARGET]...
              Specifications (files or URLs), http manifests or MCP servers (URLs)

      [COMMAND]...
              A program that speaks MCP; of the environment it gets PATH, HOME, LANG and TMPDIR

    Options:
          --openapi <TARGET>
              A TARGET that is a specification

          --mcp <TARGET>
              A TARGET that is an MCP server: its URL, or a program with its arguments

          --manifest <URL>
              A TARGET that is an http manifest: the URL that its `/tools` is below

          --allow <HOST>
              What else TARGETs may reach although it is not public, such as `localhost:3000`

          --claims <CLAIMS>
              The claims as JSON, or a file with them

          --group <GROUP>
              Only the tools of this group

          --mode <MODE>
              Whether tools are listed, searched, or searched if the list is long

              Possible values:
              - list:   The tools
              - search: Nothing but `tool_search` and `execute_tool`, which reach the rest
              - auto:   The tools if the list is short enough, else those two and the most used

              [default: list]

          --allow-stdio
              Start the MCP servers and the tools that are programs

          --resource-folder <DIR>
              Let the files below this folder be resources; may be given several times

          --sealing-key-file <FILE>
              A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]

          --journal <PLACE>
              Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]

      -v, --verbose...
              Say more on stderr; twice for even more

      -h, --help
              Print help (see a summary with '-h')

    Speaks MCP on standard input and output, every version of it, and writes nothing else there. Reads
    the journal; a server may be running on it. Who it is for: --claims, or the API key in TOOLCRIB_KEY,
    or somebody without a credential. With TARGETs, as for `serve`, no journal is read: all that they
    offer is there.

    Examples:
      toolcrib stdio api.yaml
      toolcrib stdio http://127.0.0.1:8080/mcp    # what a server has, for a client that starts programs
      toolcrib stdio --claims '{"role":"staff"}'
      TOOLCRIB_KEY=tcrib_… toolcrib stdio --group billing
      toolcrib stdio --mode search    # only tool_search and execute_tool, which reach the rest

    For a desktop client:
      {"mcpServers": {"crib": {"command": "toolcrib",
        "args": ["stdio", "--journal", "/path/to/toolcrib.db"]}}}
    "#);
}

#[test]
fn without_a_verb_the_help_is_shown_with_the_usage_exit_code() {
    let run = Folder::empty().run("");
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    assert!(run.stderr.contains("Usage: toolcrib"), "{}", run.stderr);
}

#[test]
fn search() {
    insta::assert_snapshot!(help("search"), @r#"
    Search the tools of an identity, or all tools

    Usage: toolcrib search [OPTIONS] <WORDS>...

    Arguments:
      <WORDS>...  What is looked for, in plain words

    Options:
          --claims <CLAIMS>  Of whom: the claims as JSON, a file with them, or `-` for standard input
      -n, --limit <N>        How many at most, up to 100 [default: 10]
          --json             Print JSON instead of text
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    With --claims it finds what an agent with these claims finds by `tool_search`, under the names that
    the agent knows; without, it searches all tools, served or not. Reads the journal; a server may be
    running. Search by what is meant, and not only by words, needs the server that has embeddings:
    --server.

    Examples:
      toolcrib search how is my pet
      toolcrib search refund an order --claims '{"role":"staff"}'
      toolcrib search weather --claims token.json --json | jq -r '.[].name'
      toolcrib search weather --server http://127.0.0.1:8080
    "#);
}

#[test]
fn eval_search() {
    insta::assert_snapshot!(help("eval search"), @r##"
    Search tools of a file for queries of another, and say how often the right ones are found

    Usage: toolcrib eval search [OPTIONS] --tools <FILE> --queries <FILE>

    Options:
          --tools <FILE>             The tools, one in a line
          --queries <FILE>           The queries, one in a line
          --embeddings <URL>         Search by what is meant too: an endpoint with `/v1/embeddings`
          --model <NAME>             Which of its models
          --key <REF>                What it is shown: `env:NAME` or `file:PATH`
          --embeddings-folder <DIR>  Search by what is meant too: a folder with a sentence model, which
                                     is run here
          --cross-validate           Try other weights too, each chosen by four fifths of the queries
                                     and measured on the rest: those of words, or with embeddings that
                                     of meaning
          --json                     Print JSON instead of text
          --journal <PLACE>          Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    Both files have one JSON object in a line. A tool has a `name`, and may have `tool` (its name within
    its `server`), `title`, `description`, `keywords`, `tags`, `input_schema` and a `subset`. A query
    has a `query_id`, a `query` and the `relevant` names; it may have a `subset`, whose tools alone are
    then searched, a `kind`, `groups` of names of which one is enough, and `grades` of names. The
    figures are means over subsets of all queries but those of the kinds `name` and `typo`, which are
    told apart.

    Examples:
      toolcrib eval search --tools tools.jsonl --queries queries.jsonl
      toolcrib eval search --tools tools.jsonl --queries queries.jsonl --json | jq '."ndcg@10"'
      toolcrib eval search --tools tools.jsonl --queries queries.jsonl --cross-validate
    "##);
}
