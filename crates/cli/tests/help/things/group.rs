//! Help of `toolcrib group` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("group"), @r#"
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
