//! The help of `record`.

use super::help;

#[test]
fn all_of_it() {
    insta::assert_snapshot!(help("record"), @r##"
    Look at the record of calls, check it, write it out

    Usage: toolcrib record [OPTIONS] <COMMAND>

    Commands:
      list    Print the last calls
      verify  Check that every recorded call is there, and as it was recorded
      export  Write all recorded calls as JSON Lines, the oldest first
      help    Print this message or the help of the given subcommand(s)

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Calls are recorded beside the journal: in FILE.record, or in the same PostgreSQL database. A server
    may be running.
    "##);
}

#[test]
fn list() {
    insta::assert_snapshot!(help("record list"), @r##"
    Print the last calls

    Usage: toolcrib record list [OPTIONS]

    Options:
      -n, --lines <N>          How many [default: 20]
          --tool <TOOL>        Only calls of the tool with this id
          --subject <SUBJECT>  Only calls of this caller
          --json               Print one JSON object per line
          --journal <PLACE>    Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...         Say more on stderr; twice for even more
      -h, --help               Print help

    Examples:
      toolcrib record list
      toolcrib record list -n 100 --tool pets:get_pet
      toolcrib record list --subject key:ada --json | jq .status
    "##);
}

#[test]
fn verify() {
    insta::assert_snapshot!(help("record verify"), @r##"
    Check that every recorded call is there, and as it was recorded

    Usage: toolcrib record verify [OPTIONS]

    Options:
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Each row holds the hash of the row before. Whoever can write the whole database can also make up
    another chain: keep the head that is printed somewhere else, and look later whether that row still
    has that hash. The exit code is 0 if all is well and 3 if there are problems.

    Examples:
      toolcrib record verify
      toolcrib record verify --json | jq -r '.head.hash'
    "##);
}

#[test]
fn export() {
    insta::assert_snapshot!(help("record export"), @r##"
    Write all recorded calls as JSON Lines, the oldest first

    Usage: toolcrib record export [OPTIONS]

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    The hash of a line is the SHA-256 of the line without its last member.

    Examples:
      toolcrib record export | gzip > calls.jsonl.gz
    "##);
}
