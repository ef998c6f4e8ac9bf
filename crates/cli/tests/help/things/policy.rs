//! Help of `toolcrib policy` and its verbs.

use super::help_with_verbs;

#[test]
fn every_verb() {
    insta::assert_snapshot!(help_with_verbs("policy"), @r#"
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
