//! Help of `execution` and its verbs.

use super::help;

#[test]
fn execution_itself() {
    insta::assert_snapshot!(help("execution"), @"
    List, show, count and write out the calls that were made, and check their record

    Usage: toolcrib execution [OPTIONS] <COMMAND>

    Commands:
      list    List the last calls, the newest last
      show    Show a call
      usage   Say how often tools were called, or callers called
      export  Write recorded calls as JSON Lines, the oldest first
      verify  Check that every recorded call is there, and as it was recorded
      help    Print this message or the help of the given subcommand(s)

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Calls are recorded beside the journal: in FILE.record, or in the same PostgreSQL database. A server
    may be running.
    ");
}

#[test]
fn list() {
    insta::assert_snapshot!(help("execution list"), @"
    List the last calls, the newest last

    Usage: toolcrib execution list [OPTIONS]

    Options:
      -n, --lines <N>            How many [default: 20]
          --tool <ID>            Only calls of the tool, prompt or resource with this id
          --source <ID>          Only calls of tools of this source
          --subject <SUBJECT>    Only calls of this caller, such as `key:ada`
          --correlation-id <ID>  Only calls of the request with this name, the `X-Request-Id` of its
                                 answer
          --trace-id <ID>        Only calls that are part of this trace
          --issuer <URL>         Only calls with a token of this issuer
          --door <DOOR>          Only calls that came by this way: `mcp`, `stdio`, `rest`, `manifest` or
                                 `library`
          --status <STATUS>      Only calls that ended so: `completed`, `failed` or `cancelled`
          --code <CODE>          Only calls that failed for this reason, such as `validation_error`
          --since <TIME>         Only calls that began then or later, such as `2026-05-01T12:00:00Z`
          --until <TIME>         Only calls that began earlier
          --json                 Print JSON instead of text
          --server <URL>         A running server, asked with the admin key in TOOLCRIB_KEY; without it,
                                 the journal itself is opened
          --journal <PLACE>      Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...           Say more on stderr; twice for even more
      -h, --help                 Print help

    Examples:
      toolcrib execution list
      toolcrib execution list -n 100 --tool pets:get_pet --status failed
      toolcrib execution list --subject key:ada --since 2026-05-01T00:00:00Z --json | jq '.[].status'
    ");
}

#[test]
fn show() {
    insta::assert_snapshot!(help("execution show"), @"
    Show a call

    Usage: toolcrib execution show [OPTIONS] <ID>

    Arguments:
      <ID>  Its number, as `list` shows it

    Options:
          --json             Print JSON instead of text
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Examples:
      toolcrib execution show 12
      toolcrib execution show 12 --json | jq -r .error
    ");
}

#[test]
fn usage() {
    insta::assert_snapshot!(help("execution usage"), @"
    Say how often tools were called, or callers called

    Usage: toolcrib execution usage [OPTIONS]

    Options:
          --by <WHAT>          Of all tools, or of all callers: `tool` or `subject` [default: tool]
      -n, --lines <N>          How many of them [default: 20]
          --tool <ID>          Of the tool, prompt or resource with this id alone
          --subject <SUBJECT>  Of this caller alone, such as `key:ada`
          --json               Print JSON instead of text
          --server <URL>       A running server, asked with the admin key in TOOLCRIB_KEY; without it,
                               the journal itself is opened
          --journal <PLACE>    Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...         Say more on stderr; twice for even more
      -h, --help               Print help

    Without --tool or --subject, the most used come first. The totals stay when old calls are removed.

    Examples:
      toolcrib execution usage
      toolcrib execution usage --by subject -n 100 --json | jq '.[].name'
      toolcrib execution usage --tool pets:get_pet
      toolcrib execution usage --subject key:ada
    ");
}

#[test]
fn export() {
    insta::assert_snapshot!(help("execution export"), @"
    Write recorded calls as JSON Lines, the oldest first

    Usage: toolcrib execution export [OPTIONS]

    Options:
          --tool <ID>            Only calls of the tool, prompt or resource with this id
          --source <ID>          Only calls of tools of this source
          --subject <SUBJECT>    Only calls of this caller, such as `key:ada`
          --correlation-id <ID>  Only calls of the request with this name, the `X-Request-Id` of its
                                 answer
          --trace-id <ID>        Only calls that are part of this trace
          --issuer <URL>         Only calls with a token of this issuer
          --door <DOOR>          Only calls that came by this way: `mcp`, `stdio`, `rest`, `manifest` or
                                 `library`
          --status <STATUS>      Only calls that ended so: `completed`, `failed` or `cancelled`
          --code <CODE>          Only calls that failed for this reason, such as `validation_error`
          --since <TIME>         Only calls that began then or later, such as `2026-05-01T12:00:00Z`
          --until <TIME>         Only calls that began earlier
          --server <URL>         A running server, asked with the admin key in TOOLCRIB_KEY; without it,
                                 the journal itself is opened
          --journal <PLACE>      Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...           Say more on stderr; twice for even more
      -h, --help                 Print help

    The hash of a line is the SHA-256 of the line without its last member.

    Examples:
      toolcrib execution export | gzip > calls.jsonl.gz
      toolcrib execution export --source pets --until 2026-05-01T00:00:00Z > april.jsonl
    ");
}

#[test]
fn verify() {
    insta::assert_snapshot!(help("execution verify"), @r"
    Check that every recorded call is there, and as it was recorded

    Usage: toolcrib execution verify [OPTIONS]

    Options:
          --file <FILE>       Check an exported file instead; `-` is standard input
          --head <HEAD>       A head that was kept, as it was printed: its row must still be the same,
                              or have been old enough to go
          --keep-days <DAYS>  How long rows are kept, as `record.keep_days` says: nothing younger may be
                              gone, and nothing at all if it is 0
          --json              Print JSON instead of text
          --journal <PLACE>   Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...        Say more on stderr; twice for even more
      -h, --help              Print help

    Each row holds the hash of the row before. Whoever can write the whole database can also make up
    another chain: keep the head that is printed somewhere else, and give it later with --head. The exit
    code is 0 if all is well and 3 if there are problems. An export that leaves rows out has gaps, which
    are problems too.

    Examples:
      toolcrib execution verify
      toolcrib execution verify --json | jq -r .keep > head
      toolcrib execution verify --keep-days 90 --head $(cat head)
      toolcrib execution export --server https://crib.example | toolcrib execution verify --file -
    ");
}
