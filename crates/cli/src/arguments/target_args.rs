//! Options of the verbs that serve targets without a configuration: `serve` and `stdio`.

use clap::Args;
use model::SourceKind;
use upstream::egress::AllowedDestination;

/// What is to be served.
// Values are parsed later: URLs may hold secrets, and clap repeats values that it cannot parse.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Specifications (files or URLs), http manifests or MCP servers (URLs)
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// A TARGET that is a specification
    #[arg(long, value_name = "TARGET")]
    openapi: Vec<String>,
    /// A TARGET that is an MCP server: its URL, or a program with its arguments
    #[arg(long, value_name = "TARGET")]
    mcp: Vec<String>,
    /// A TARGET that is an http manifest: the URL that its `/tools` is below
    #[arg(long, value_name = "URL")]
    manifest: Vec<String>,
    /// What else TARGETs may reach although it is not public, such as `localhost:3000`
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<AllowedDestination>,
    /// A program that speaks MCP; of the environment it gets PATH, HOME, LANG and TMPDIR
    #[arg(last = true, value_name = "COMMAND", num_args = 1..)]
    command: Vec<String>,
}

/// One target as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetArg {
    /// A file or a URL, with its kind if the option states it.
    Location(String, Option<SourceKind>),
    /// A program and its arguments.
    Program(Vec<String>),
}

impl TargetArgs {
    /// All targets, in the order of the options.
    pub(crate) fn all_targets(&self) -> Vec<TargetArg> {
        let place = |kind| move |text: &String| TargetArg::Location(text.clone(), kind);
        // Arguments of a program may contain a URL, so only the first word decides.
        let is_url =
            |text: &str| text.split_whitespace().next().is_some_and(|it| it.contains("://"));
        let server = |text: &String| match is_url(text) {
            true => TargetArg::Location(text.clone(), Some(SourceKind::Mcp)),
            false => TargetArg::Program(text.split_whitespace().map(str::to_owned).collect()),
        };
        let mut all: Vec<TargetArg> = self.targets.iter().map(place(None)).collect();
        all.extend(self.openapi.iter().map(place(Some(SourceKind::Openapi))));
        all.extend(self.mcp.iter().map(server));
        all.extend(self.manifest.iter().map(place(Some(SourceKind::HttpManifest))));
        if !self.command.is_empty() {
            all.push(TargetArg::Program(self.command.clone()));
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all_targets().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        targets: TargetArgs,
    }

    #[test]
    fn target_options_state_the_kind_and_programs_differ_from_urls() {
        let line = "x api.yaml --openapi b.yaml --mcp https://a.example/x --manifest https://m.example -- npx -y c";
        let all = Line::parse_from(line.split(' ')).targets.all_targets();
        let place = |text: &str, kind| TargetArg::Location(text.to_owned(), kind);
        let program =
            |words: &[&str]| TargetArg::Program(words.iter().map(ToString::to_string).collect());
        assert_eq!(
            all,
            [
                place("api.yaml", None),
                place("b.yaml", Some(SourceKind::Openapi)),
                place("https://a.example/x", Some(SourceKind::Mcp)),
                place("https://m.example", Some(SourceKind::HttpManifest)),
                program(&["npx", "-y", "c"]),
            ]
        );
        let all =
            Line::parse_from(["x", "--mcp", "npx -y d https://a.example/x"]).targets.all_targets();
        assert_eq!(all, [program(&["npx", "-y", "d", "https://a.example/x"])]);
        assert!(Line::parse_from(["x"]).targets.is_empty());
    }
}
