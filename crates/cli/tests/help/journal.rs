//! Help of `journal` and its verbs.

use super::help;

#[test]
fn journal_itself() {
    insta::assert_snapshot!(help("journal"), @"
    Look into the journal, check it, move it

    Usage: toolcrib journal [OPTIONS] <COMMAND>

    Commands:
      show     Show what the catalog knows, now or at an earlier moment
      tail     Print the last events, one per line
      verify   Check every event, and that a server would serve what they say
      export   Write the whole journal as JSON Lines
      import   Take in an export
      collect  Remove documents that no event refers to
      help     Print this message or the help of the given subcommand(s)

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help
    ");
}

#[test]
fn show() {
    insta::assert_snapshot!(help("journal show"), @"
    Show what the catalog knows, now or at an earlier moment

    Usage: toolcrib journal show [OPTIONS]

    Options:
          --at <MOMENT>      A position, a time or a date instead of now
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib journal show
      toolcrib journal show --at 120                     # right after event 120
      toolcrib journal show --at 2026-05-01T12:00:00Z
      toolcrib journal show --at 2026-05-01              # when that day began (UTC)
      toolcrib journal show --json | jq '.groups[].id'
    ");
}

#[test]
fn tail() {
    insta::assert_snapshot!(help("journal tail"), @"
    Print the last events, one per line

    Usage: toolcrib journal tail [OPTIONS]

    Options:
      -n, --lines <N>        How many events [default: 20]
      -f, --follow           Go on with new events until Ctrl-C
          --stream <STREAM>  Only events of this stream
          --json             Print one JSON object per line, with the data of the event
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib journal tail
      toolcrib journal tail -n 100 --stream tool_group-billing
      toolcrib journal tail --follow --json | jq .type
    ");
}

#[test]
fn verify() {
    insta::assert_snapshot!(help("journal verify"), @"
    Check every event, and that a server would serve what they say

    Usage: toolcrib journal verify [OPTIONS]

    Options:
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Reads the journal from the first event on: the numbering, the documents, the storage. Then compares
    the result with what a server serves after a start. Changes nothing; a server may be running.
    The exit code is 0 if all is well and 3 if there are problems.

    Examples:
      toolcrib journal verify
      toolcrib journal verify --json | jq -r '.problems[]'
    ");
}

#[test]
fn export() {
    insta::assert_snapshot!(help("journal export"), @"
    Write the whole journal as JSON Lines

    Usage: toolcrib journal export [OPTIONS] [FILE]

    Arguments:
      [FILE]  Where to; `-` is standard output [default: -]

    Options:
          --force            Replace the file if it is there already
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    The file appears when it is complete, and only you can read it. Sealed secrets are not part of it.
    A server may be running.

    Examples:
      toolcrib journal export backup.jsonl
      toolcrib journal export | gzip > backup.jsonl.gz
    ");
}

#[test]
fn import() {
    insta::assert_snapshot!(help("journal import"), @"
    Take in an export

    Usage: toolcrib journal import [OPTIONS] <FILE>

    Arguments:
      <FILE>  Where from; `-` is standard input

    Options:
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    The journal is new, or holds the beginning of the same export: an import that was interrupted goes
    on when it is started again.

    Examples:
      toolcrib journal import backup.jsonl
      gunzip -c backup.jsonl.gz | toolcrib journal import -
      toolcrib journal export | toolcrib --journal postgres://db.example/crib journal import -
    ");
}

#[test]
fn collect() {
    insta::assert_snapshot!(help("journal collect"), @"
    Remove documents that no event refers to

    Usage: toolcrib journal collect [OPTIONS]

    Options:
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Documents are the large parts of tools, such as schemas; they are stored beside the events. Events
    are never removed.
    ");
}
