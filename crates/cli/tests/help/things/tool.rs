//! Help of `toolcrib tool` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("tool"), @"
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
