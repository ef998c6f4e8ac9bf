//! Help of `toolcrib source` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("source"), @"
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
      reset    Have a running server call a source again that it left alone after failures
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
    Have a running server call a source again that it left alone after failures

    Usage: toolcrib source reset [OPTIONS] <ID>

    Arguments:
      <ID>  Its id, as `list` shows it

    Options:
          --json             Print JSON instead of text
    ");
}
