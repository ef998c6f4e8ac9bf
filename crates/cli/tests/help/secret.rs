//! Help of `secret` and its verbs.

use super::help;

#[test]
fn secret_itself() {
    insta::assert_snapshot!(help("secret"), @"
    Keep the secrets that sources need

    Usage: toolcrib secret [OPTIONS] <COMMAND>

    Commands:
      set     Seal a value, read from standard input, under a name
      list    List the names of the sealed secrets
      remove  Remove a sealed secret
      help    Print this message or the help of the given subcommand(s)

    Options:
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    A source refers to a secret as `sealed:NAME`. The value is encrypted and lies beside the journal,
    never in it: it has no history and is not part of an export.
    ");
}

#[test]
fn set() {
    insta::assert_snapshot!(help("secret set"), @"
    Seal a value, read from standard input, under a name

    Usage: toolcrib secret set [OPTIONS] <NAME>

    Arguments:
      <NAME>  Its name: `billing-token` is referred to as `sealed:billing-token`

    Options:
          --sealing-key-file <FILE>  A file with the key [env: TOOLCRIB_SEALING_KEY, the key itself]
          --server <URL>             A running server, asked with the admin key in TOOLCRIB_KEY; without
                                     it, the journal itself is opened
          --journal <PLACE>          Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...               Say more on stderr; twice for even more
      -h, --help                     Print help

    The key that seals is a long random text, the same one the server gets. A value that is already
    there is replaced. A server seals with its own key; it uses the new value from the next call on, and
    other nodes do within a second.

    Examples:
      openssl rand -base64 32 > sealing.key
      toolcrib secret set billing-token --sealing-key-file sealing.key < token.txt
      toolcrib secret set billing-token --sealing-key-file sealing.key    # asks for the value
      toolcrib secret set billing-token --server http://localhost:8080 < token.txt
    ");
}

#[test]
fn list() {
    insta::assert_snapshot!(help("secret list"), @"
    List the names of the sealed secrets

    Usage: toolcrib secret list [OPTIONS]

    Options:
          --json             Print JSON instead of text
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help
    ");
}

#[test]
fn remove() {
    insta::assert_snapshot!(help("secret remove"), @"
    Remove a sealed secret

    Usage: toolcrib secret remove [OPTIONS] <NAME>

    Arguments:
      <NAME>  Its name

    Options:
      -y, --yes              Do not ask; where there is nobody to ask, nothing is asked
          --server <URL>     A running server, asked with the admin key in TOOLCRIB_KEY; without it, the
                             journal itself is opened
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help
    ");
}
