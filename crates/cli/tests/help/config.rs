//! Help of the verbs for configuration files.

use super::help;

#[test]
fn plan() {
    insta::assert_snapshot!(help("plan"), @r#"
    Say what a configuration file would change, and for whom

    Usage: toolcrib plan [OPTIONS] <FILE>

    Arguments:
      <FILE>  The configuration, in YAML, JSON or TOML

    Options:
          --prune            Remove what the file does not name, in the sections it has
          --as <CLAIMS>      Whose tools to compare too: claims as JSON, or a file with them
          --json             Print JSON instead of text
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    FILE is YAML, JSON or TOML; docs/config.md has an example, and `toolcrib config schema` what editors
    need. Nothing is changed; a server may be running. Compared are the tools of everybody with an API
    key, of `identities` in the file, and of --as. The exit code is 0 if all is as declared, 2 if
    something would change, and 1 if the plan failed.

    Examples:
      toolcrib plan crib.yaml
      toolcrib plan crib.yaml --server https://crib.example.com
      toolcrib plan crib.yaml --prune --as '{"role":"staff"}'
      toolcrib plan crib.yaml --json | jq -r '.changes[].id'
    "#);
}

#[test]
fn apply() {
    insta::assert_snapshot!(help("apply"), @"
    Make the catalog as a configuration file declares it

    Usage: toolcrib apply [OPTIONS] <FILE>

    Arguments:
      <FILE>  The configuration, in YAML, JSON or TOML

    Options:
          --prune            Remove what the file does not name, in the sections it has
          --as <CLAIMS>      Whose tools to compare too: claims as JSON, or a file with them
          --json             Print JSON instead of text
      -y, --yes              Do not ask
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Shows the plan, asks if there is somebody to ask, and stores all of it in one step or nothing. What
    the file does not name stays as it is; --prune removes it, in the sections that the file has. Makes
    the journal if it is not there. While a server runs on the journal, it is asked: --server. For one
    that keeps to a file: `toolcrib serve --config`.

    Examples:
      toolcrib apply crib.yaml
      toolcrib apply crib.yaml --server https://crib.example.com
      toolcrib apply crib.yaml --prune --yes
    ");
}

#[test]
fn export() {
    insta::assert_snapshot!(help("export"), @r#"
    Write the catalog as a configuration file

    Usage: toolcrib export [OPTIONS]

    Options:
          --format <FORMAT>  In which format [default: yaml] [possible values: yaml, toml]
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    What `toolcrib apply` reads: sources, labels, groups, policies, and what was said of tools. Secrets
    are named and not told. A server may be running.

    Examples:
      toolcrib export > crib.yaml
      toolcrib export --format toml > crib.toml
    "#);
}

#[test]
fn config_schema() {
    insta::assert_snapshot!(help("config schema"), @r#"
    Print the JSON Schema of configuration files, for editors

    Usage: toolcrib config schema [OPTIONS]

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib config schema > crib.schema.json
      # yaml-language-server: $schema=crib.schema.json    # as the first line of a file
    "#);
}
