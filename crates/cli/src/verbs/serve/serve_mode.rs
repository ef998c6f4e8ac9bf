//! Where a server gets its tools from: the journal, the targets on the command line, or the demo.

use endpoint::app_state::AppState;
use model::StdioCommand;
use toolcrib::{JournalLocation, Toolcrib, ViewedTool};

use super::startup_message;
use super::startup_message::ServerLocation;
use crate::arguments::mcp_client_program::McpClientProgram;
use crate::arguments::serve::ServeArgs;
use crate::cli_error::CliError;
use crate::demo::PizzeriaDemo;
use crate::environment::ProgramConfig;
use crate::local_targets::register_targets::{RegisteredTarget, register_targets};
use crate::local_targets::{LocalTarget, example_call};
use crate::output::{count_noun, escape_for_terminal};
use crate::shell_text::shell_quote;
use crate::text_table::table_section;
use crate::{environment, local_targets};

pub(super) enum ServeMode {
    /// The tools of the journal.
    Catalog,
    Targets(Vec<LocalTarget>),
    Demo,
}

/// A mode after its sources were registered.
pub(super) enum PreparedServeMode {
    Catalog,
    Targets(Vec<RegisteredTarget>),
    Demo(PizzeriaDemo),
}

/// Details for the startup message.
pub(super) struct StartupDetails<'a> {
    pub(super) place: &'a ServerLocation,
    pub(super) journal: &'a JournalLocation,
    /// The secret of an admin key, if one was just created.
    pub(super) key: Option<&'a str>,
    /// Whether callers without a credential are accepted.
    pub(super) anonymous: bool,
}

impl ServeMode {
    /// Reads the targets. If the journal is new, at least one target must be readable.
    pub(super) async fn resolve(arguments: &ServeArgs, is_new: bool) -> Result<Self, CliError> {
        if arguments.demo {
            return Ok(Self::Demo);
        }
        if arguments.targets.is_empty() {
            return Ok(Self::Catalog);
        }
        let wanted = local_targets::inspect_targets(&arguments.targets).await?;
        let problem = |one: &LocalTarget| Some(format!("{}: {}", one.display_text, one.problem()?));
        let problems: Vec<String> = wanted.iter().filter_map(problem).collect();
        if is_new && problems.len() == wanted.len() {
            return Err(CliError::NoReadableTarget(problems));
        }
        Ok(Self::Targets(wanted))
    }

    /// The location of the journal: in memory for targets and the demo, unless the operator names one.
    pub(super) fn journal_location(
        config: &ProgramConfig,
        arguments: &ServeArgs,
    ) -> Result<JournalLocation, CliError> {
        let is_of_terminal = arguments.demo || !arguments.targets.is_empty();
        match (is_of_terminal, config.is_journal_explicit) {
            (true, true) if arguments.demo => Err(CliError::DemoInMemory),
            (true, false) => Ok(JournalLocation::Memory),
            (true | false, _) => Ok(config.journal.clone()),
        }
    }

    /// The programs that the command line names.
    pub(super) fn named_programs(&self) -> Vec<StdioCommand> {
        match self {
            Self::Targets(wanted) => local_targets::target_programs(wanted),
            Self::Catalog | Self::Demo => Vec::new(),
        }
    }

    /// Registers the targets or starts the demo.
    pub(super) async fn prepare(
        self,
        app: &AppState,
        anonymous: bool,
    ) -> Result<PreparedServeMode, CliError> {
        Ok(match self {
            Self::Catalog => PreparedServeMode::Catalog,
            Self::Targets(wanted) => {
                PreparedServeMode::Targets(register_targets(&app.crib, wanted, anonymous).await?)
            }
            Self::Demo => PreparedServeMode::Demo(PizzeriaDemo::start(app).await?),
        })
    }
}

impl PreparedServeMode {
    /// The last part of the startup message: how to use the server.
    pub(super) fn startup_text(&self, crib: &Toolcrib, beside: &StartupDetails<'_>) -> String {
        match self {
            Self::Catalog => beside.key.map_or_else(String::new, |key| {
                startup_message::admin_key_text(beside.place, key)
                    + &startup_message::example_request_text(beside.place, key)
            }),
            Self::Targets(offered) => targets_text(crib, offered, beside),
            Self::Demo(demo) => {
                let key = beside.key.unwrap_or_default();
                startup_message::console_text(beside.place, key)
                    + &demo.instructions(&beside.place.url, key)
            }
        }
    }
}

fn targets_text(
    crib: &Toolcrib,
    offered: &[RegisteredTarget],
    beside: &StartupDetails<'_>,
) -> String {
    let StartupDetails { place, journal, key, anonymous } = beside;
    let count = offered.iter().map(|one| one.tools).sum();
    let open = crib.anonymous_view().list();
    let open: Vec<_> = open.into_iter().filter(|tool| tool.catalog_entry().is_some()).collect();
    let for_whom = match anonymous {
        true => "for whoever comes without a credential",
        false => "for nobody yet: a policy grants the group `all-tools` to agents",
    };
    let title = format!("{}, {for_whom}", count_noun(count, "tool", "tools"));
    let rows = offered.iter().map(target_row).collect();
    let mut text = table_section(&title, &["SOURCE", "TOOLS", "FROM"], rows);
    for one in offered {
        if let (Some(problem), Some(_)) = (&one.problem, &one.source) {
            let problem = escape_for_terminal(problem);
            text += &format!(
                "  {} is tried again later: {problem}\n",
                escape_for_terminal(&one.display_text)
            );
        } else if let Some(problem) = &one.problem {
            text += &format!(
                "  {} is left out: {}\n",
                escape_for_terminal(&one.display_text),
                escape_for_terminal(problem)
            );
        }
        if let Some(shut) = &one.blocked_destination {
            let (shown, shut) = (escape_for_terminal(&one.display_text), escape_for_terminal(shut));
            text += &format!(
                "  calls of {shown} are shut, as {shut} is not public: give --allow {shut}\n"
            );
        }
    }
    if let (true, more @ 1..) = (*anonymous, open.len().saturating_sub(count)) {
        let more = count_noun(more, "tool", "tools");
        text +=
            &format!("  {more} of other sources are open in the same way: `toolcrib tool list`\n");
    }
    if *anonymous && place.has_port {
        let (program, url) = (environment::program_name(), place.mcp_url());
        let is_shut = |tool: &ViewedTool| {
            let source = tool.catalog_entry().map(|entry| &entry.tool.source);
            offered
                .iter()
                .any(|one| one.blocked_destination.is_some() && one.source.as_ref() == source)
        };
        let callable: Vec<_> = open.into_iter().filter(|tool| !is_shut(tool)).collect();
        if let Some(call) = example_call::example_call(&callable) {
            text += &format!("\nCall one:\n  {} call {url} {call}\n", shell_quote(&program));
        }
        text += &format!("\nTell a client (`{} client` knows more):\n", shell_quote(&program));
        for client in [McpClientProgram::Cursor, McpClientProgram::ClaudeDesktop] {
            text += &format!("  {:<14}  {}\n", client.title(), client.configuration(&url));
        }
    }
    text += &key.map_or_else(String::new, |key| startup_message::admin_key_text(place, key));
    if matches!(journal, JournalLocation::Memory) {
        text += "\nNothing is kept when the server stops: give --journal FILE for that.\n";
    }
    text
}

fn target_row(one: &RegisteredTarget) -> Vec<String> {
    let source = one.source.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
    let kept_back = match one.pending_review {
        0 => String::new(),
        count => format!(" ({count} more wait for an admin)"),
    };
    vec![source, one.tools.to_string(), format!("{}{kept_back}", one.display_text)]
}
