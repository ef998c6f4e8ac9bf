//! Help of `toolcrib label` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("label"), @"
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
