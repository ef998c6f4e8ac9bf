//! The help of the verbs that admins use on sources, tools, groups, policies, labels and keys.

use super::help;

/// The help of a thing, and of all that can be done with it; what is the same everywhere is left out.
fn all_of(thing: &str) -> String {
    let whole = help(thing);
    let (_, verbs) = whole.split_once("Commands:\n").unwrap_or_default();
    let verbs = verbs.lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.split_whitespace().next()).filter(|it| *it != "help");
    let each = verbs.map(|verb| {
        let text = help(&format!("{thing} {verb}"));
        let (before, after) = text.split_once("      --server <URL>").unwrap_or((&text, ""));
        let (_, examples) = after.split_once("Print help").unwrap_or_default();
        format!("\n\n-- {verb}\n{}{examples}", before.trim_end())
    });
    let each: String = each.collect();
    format!("{whole}{each}")
}

#[test]
fn source() {
    insta::assert_snapshot!(all_of("source"), @"
    List, add, change, refresh and remove sources of tools

    Usage: toolcrib source [OPTIONS] <COMMAND>

    Commands:
      list     List sources
      show     Show a source
      history  List what has happened to a source, and who wanted it; the newest comes last
      add      Register a source
      edit     Change a source; what is not named stays as it is
      enable   Serve the tools of a source
      disable  Do not serve the tools of a source
      remove   Remove a source and its tools
      refresh  Ask a source what it offers, and take that in
      reset    Call a source again that was left alone after failures
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List sources

    Usage: toolcrib source list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text

    -- show
    Show a source

    Usage: toolcrib source show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to a source, and who wanted it; the newest comes last

    Usage: toolcrib source history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- add
    Register a source

    Usage: toolcrib source add [OPTIONS] [NAME] [KEY=VALUE]...

    Arguments:
      [NAME]          Its name; its id is made from it unless there is an `id=…`, and is this word
                      beside a `name=…`
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    Examples:
      toolcrib source add Pets url=https://pets.example.com/openapi.json settings.kind=openapi
      toolcrib source add Tools url=https://mcp.example.com/mcp settings.kind=mcp refresh_every=3600
      toolcrib source add 'Built-in tools' settings.kind=builtin
      toolcrib source add Local settings.kind=openapi settings.specification.file=/srv/api.yaml
      toolcrib source add --file source.yaml

    -- edit
    Change a source; what is not named stays as it is

    Usage: toolcrib source edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- enable
    Serve the tools of a source

    Usage: toolcrib source enable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- disable
    Do not serve the tools of a source

    Usage: toolcrib source disable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- remove
    Remove a source and its tools

    Usage: toolcrib source remove [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked

    -- refresh
    Ask a source what it offers, and take that in

    Usage: toolcrib source refresh [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
          --force            Even if nothing has changed or much would go

    -- reset
    Call a source again that was left alone after failures

    Usage: toolcrib source reset [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
    ");
}

#[test]
fn tool() {
    insta::assert_snapshot!(all_of("tool"), @"
    List tools, switch them, say something else of them, and review their changes

    Usage: toolcrib tool [OPTIONS] <COMMAND>

    Commands:
      list     List tools
      show     Show a tool
      history  List what has happened to a tool, and who wanted it; the newest comes last
      edit     Say something else of a tool than its source does; `null` takes it back
      enable   Serve a tool
      disable  Do not serve a tool
      diff     Compare what is served with what was last seen at the source
      approve  Serve the version that waits
      reject   Do not serve the version that waits
      label    Replace the labels of a tool
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List tools

    Usage: toolcrib tool list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text
          --source <ID>      Only those of this source
          --review <STATE>   Only those that wait for a review: `pending`, `changed`, `approved` or
                             `rejected`

    -- show
    Show a tool

    Usage: toolcrib tool show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to a tool, and who wanted it; the newest comes last

    Usage: toolcrib tool history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- edit
    Say something else of a tool than its source does; `null` takes it back

    Usage: toolcrib tool edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    Examples:
      toolcrib tool edit pets:get_pet description='How a pet is doing'
      toolcrib tool edit pets:get_pet name=null

    -- enable
    Serve a tool

    Usage: toolcrib tool enable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- disable
    Do not serve a tool

    Usage: toolcrib tool disable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- diff
    Compare what is served with what was last seen at the source

    Usage: toolcrib tool diff [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- approve
    Serve the version that waits

    Usage: toolcrib tool approve [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json              Print JSON instead of text
          --despite-findings  Even if something was found in its texts

    -- reject
    Do not serve the version that waits

    Usage: toolcrib tool reject [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- label
    Replace the labels of a tool

    Usage: toolcrib tool label [OPTIONS] <ID> [LABEL]...

    Arguments:
      <ID>        Its id, as `list` shows it
      [LABEL]...  The ids of its labels; none takes them all off

    Options:
          --json             Print JSON instead of text
    ");
}

#[test]
fn group() {
    insta::assert_snapshot!(all_of("group"), @r#"
    List, add, change and remove groups of tools

    Usage: toolcrib group [OPTIONS] <COMMAND>

    Commands:
      list     List groups
      show     Show a group
      history  List what has happened to a group, and who wanted it; the newest comes last
      add      Create a group
      edit     Change a group; what is not named stays as it is
      enable   Let policies grant a group
      disable  Let no policy grant a group
      remove   Delete a group that no policy grants
      tools    List the tools of a group, and which of them are served
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List groups

    Usage: toolcrib group list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text

    -- show
    Show a group

    Usage: toolcrib group show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to a group, and who wanted it; the newest comes last

    Usage: toolcrib group history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- add
    Create a group

    Usage: toolcrib group add [OPTIONS] [NAME] [KEY=VALUE]...

    Arguments:
      [NAME]          Its name; its id is made from it unless there is an `id=…`, and is this word
                      beside a `name=…`
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    Examples:
      toolcrib group add Pets selectors='[{"source": "pets"}]'
      toolcrib group add Readers selectors='[{"method": "GET"}]' excluded='[{"tool": "pets:get_key"}]'

    -- edit
    Change a group; what is not named stays as it is

    Usage: toolcrib group edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- enable
    Let policies grant a group

    Usage: toolcrib group enable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- disable
    Let no policy grant a group

    Usage: toolcrib group disable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- remove
    Delete a group that no policy grants

    Usage: toolcrib group remove [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked

    -- tools
    List the tools of a group, and which of them are served

    Usage: toolcrib group tools [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
    "#);
}

#[test]
fn policy() {
    insta::assert_snapshot!(all_of("policy"), @r#"
    List, add, change and remove policies, which grant groups

    Usage: toolcrib policy [OPTIONS] <COMMAND>

    Commands:
      list     List policies, those of the highest priority first
      show     Show a policy
      history  List what has happened to a policy, and who wanted it; the newest comes last
      add      Define a policy
      edit     Change a policy; what is not named stays as it is
      enable   Let a policy grant
      disable  Let a policy grant nothing
      remove   Delete a policy
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List policies, those of the highest priority first

    Usage: toolcrib policy list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text

    -- show
    Show a policy

    Usage: toolcrib policy show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to a policy, and who wanted it; the newest comes last

    Usage: toolcrib policy history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- add
    Define a policy

    Usage: toolcrib policy add [OPTIONS] [NAME] [KEY=VALUE]...

    Arguments:
      [NAME]          Its name; its id is made from it unless there is an `id=…`, and is this word
                      beside a `name=…`
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    Examples:
      toolcrib policy add Staff groups='["pets"]' \
        matchers='[{"claim": "role", "operator": "equals", "value": "staff"}]'

    -- edit
    Change a policy; what is not named stays as it is

    Usage: toolcrib policy edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- enable
    Let a policy grant

    Usage: toolcrib policy enable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- disable
    Let a policy grant nothing

    Usage: toolcrib policy disable [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- remove
    Delete a policy

    Usage: toolcrib policy remove [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked
    "#);
}

#[test]
fn label() {
    insta::assert_snapshot!(all_of("label"), @"
    List, add, change and remove labels of tools

    Usage: toolcrib label [OPTIONS] <COMMAND>

    Commands:
      list     List labels
      show     Show a label
      history  List what has happened to a label, and who wanted it; the newest comes last
      add      Create a label
      edit     Change a label; what is not named stays as it is
      remove   Delete a label and take it off all tools
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List labels

    Usage: toolcrib label list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text

    -- show
    Show a label

    Usage: toolcrib label show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to a label, and who wanted it; the newest comes last

    Usage: toolcrib label history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- add
    Create a label

    Usage: toolcrib label add [OPTIONS] [NAME] [KEY=VALUE]...

    Arguments:
      [NAME]          Its name; its id is made from it unless there is an `id=…`, and is this word
                      beside a `name=…`
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- edit
    Change a label; what is not named stays as it is

    Usage: toolcrib label edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- remove
    Delete a label and take it off all tools

    Usage: toolcrib label remove [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked
    ");
}

#[test]
fn key() {
    insta::assert_snapshot!(all_of("key"), @"
    List, make, change and revoke API keys

    Usage: toolcrib key [OPTIONS] <COMMAND>

    Commands:
      list     List API keys
      show     Show an API key
      history  List what has happened to an API key, and who wanted it; the newest comes last
      add      Make an API key; it is shown once
      edit     Change what is said of an API key
      revoke   Revoke an API key for good
      remove   Delete an API key
      help     Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    -- list
    List API keys

    Usage: toolcrib key list [OPTIONS] [TEXT]

    Arguments:
      [TEXT]  Only what has this text in its id, name or description

    Options:
          --json             Print JSON instead of text

    -- show
    Show an API key

    Usage: toolcrib key show [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- history
    List what has happened to an API key, and who wanted it; the newest comes last

    Usage: toolcrib key history [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text

    -- add
    Make an API key; it is shown once

    Usage: toolcrib key add [OPTIONS] [NAME] [KEY=VALUE]...

    Arguments:
      [NAME]          Its name; its id is made from it unless there is an `id=…`, and is this word
                      beside a `name=…`
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    Examples:
      toolcrib key add Ada claims.role=staff
      toolcrib key add Operator admin=true expires_at=2027-01-01T00:00:00Z

    -- edit
    Change what is said of an API key

    Usage: toolcrib key edit [OPTIONS] <ID> [KEY=VALUE]...

    Arguments:
      <ID>            Its id, as `list` shows it
      [KEY=VALUE]...  What is said of it, as the API calls it: VALUE is JSON or else a text, and `a.b=…`
                      is `b` of `a`

    Options:
          --file <FILE>      The same as YAML or JSON, in a file or `-` for standard input
          --json             Print JSON instead of text

    -- revoke
    Revoke an API key for good

    Usage: toolcrib key revoke [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked

    -- remove
    Delete an API key

    Usage: toolcrib key remove [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked
    ");
}
