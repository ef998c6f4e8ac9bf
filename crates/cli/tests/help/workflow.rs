//! Help of `workflow` and its verbs.

use super::help;

#[test]
fn workflow_itself() {
    insta::assert_snapshot!(help("workflow"), @r##"
    Look at a tool of several steps, and check it

    Usage: toolcrib workflow [OPTIONS] <COMMAND>

    Commands:
      show   Say what a workflow would do, step by step, and draw it
      check  Say all that is wrong with documents
      help   Print this message or the help of the given subcommand(s)

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    A workflow is a document of the CNCF Serverless Workflow DSL 1.0 whose steps call tools; which part
    of the DSL is supported is in docs/workflows.md. Nothing is called.
    "##);
}

#[test]
fn show() {
    insta::assert_snapshot!(help("workflow show"), @r##"
    Say what a workflow would do, step by step, and draw it

    Usage: toolcrib workflow show [OPTIONS] <FILE>

    Arguments:
      <FILE>  The document in YAML or JSON, or `-` for standard input

    Options:
          --mermaid          Print only the picture, as Mermaid draws it
          --json             Print JSON instead of text
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    The exit code is 3 if the document cannot be run.

    Examples:
      toolcrib workflow show order.yaml
      toolcrib workflow show order.yaml --mermaid > order.mmd
      toolcrib workflow show order.yaml --json | jq -r '.tools[]'
    "##);
}

#[test]
fn check() {
    insta::assert_snapshot!(help("workflow check"), @r##"
    Say all that is wrong with documents

    Usage: toolcrib workflow check [OPTIONS] <FILE>...

    Arguments:
      <FILE>...  Documents in YAML or JSON; `-` is standard input

    Options:
          --journal <PLACE>  Path or postgres://… [env: TOOLCRIB_JOURNAL] [default: toolcrib.db]
      -v, --verbose...       Say more on stderr; twice for even more
      -h, --help             Print help

    Prints one line for each problem, with its place as a JSON pointer. The exit code is 0 if all is
    well and 3 if there are problems.

    Examples:
      toolcrib workflow check *.yaml
    "##);
}
