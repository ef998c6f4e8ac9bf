//! Help of `toolcrib key` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("key"), @"
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
