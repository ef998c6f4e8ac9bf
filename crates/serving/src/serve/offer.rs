//! Where a server gets its tools from: the journal, the targets on the command line, or the demo.

use model::StdioCommand;
use toolcrib::{JournalPlace, Toolcrib, ViewedTool};

use super::greeting::{self, Place};
use crate::app::App;
use crate::cli::serve::Serve;
use crate::client::Client;
use crate::config;
use crate::config::Config;
use crate::demo::Demo;
use crate::failure::Failure;
use crate::out::{counted, plain, quoted};
use crate::table::section;
use crate::targets::register::{Offered, register};
use crate::targets::{self, Wanted, example};

pub(super) enum Offer {
    /// The tools of the journal.
    Catalog,
    Targets(Vec<Wanted>),
    Demo,
}

/// A mode after its sources were registered.
pub(super) enum Made {
    Catalog,
    Targets(Vec<Offered>),
    Demo(Demo),
}

/// Details for the startup message.
pub(super) struct Beside<'a> {
    pub(super) place: &'a Place,
    pub(super) journal: &'a JournalPlace,
    /// The secret of an admin key, if one was just created.
    pub(super) key: Option<&'a str>,
    /// Whether callers without a credential are accepted.
    pub(super) anonymous: bool,
}

impl Offer {
    /// Reads the targets. If the journal is new, at least one target must be readable.
    pub(super) async fn read(arguments: &Serve, is_new: bool) -> Result<Self, Failure> {
        if arguments.demo {
            return Ok(Self::Demo);
        }
        if arguments.targets.is_empty() {
            return Ok(Self::Catalog);
        }
        let wanted = targets::look_at(&arguments.targets).await?;
        let problem = |one: &Wanted| Some(format!("{}: {}", one.shown, one.problem()?));
        let problems: Vec<String> = wanted.iter().filter_map(problem).collect();
        if is_new && problems.len() == wanted.len() {
            return Err(Failure::NothingToServe(problems));
        }
        Ok(Self::Targets(wanted))
    }

    /// The location of the journal: in memory for targets and the demo, unless the operator names one.
    pub(super) fn journal(config: &Config, arguments: &Serve) -> Result<JournalPlace, Failure> {
        let is_of_terminal = arguments.demo || !arguments.targets.is_empty();
        match (is_of_terminal, config.journal_is_given) {
            (true, true) if arguments.demo => Err(Failure::DemoInMemory),
            (true, false) => Ok(JournalPlace::Memory),
            (true | false, _) => Ok(config.journal.clone()),
        }
    }

    /// The programs that the command line names.
    pub(super) fn programs(&self) -> Vec<StdioCommand> {
        match self {
            Self::Targets(wanted) => targets::programs(wanted),
            Self::Catalog | Self::Demo => Vec::new(),
        }
    }

    /// Registers the targets or starts the demo.
    pub(super) async fn make(self, app: &App, anonymous: bool) -> Result<Made, Failure> {
        Ok(match self {
            Self::Catalog => Made::Catalog,
            Self::Targets(wanted) => Made::Targets(register(&app.crib, wanted, anonymous).await?),
            Self::Demo => Made::Demo(Demo::open(app).await?),
        })
    }
}

impl Made {
    /// The last part of the startup message: how to use the server.
    pub(super) fn text(&self, crib: &Toolcrib, beside: &Beside<'_>) -> String {
        match self {
            Self::Catalog => beside.key.map_or_else(String::new, |key| {
                greeting::key(beside.place, key) + &greeting::try_key(beside.place, key)
            }),
            Self::Targets(offered) => of_targets(crib, offered, beside),
            Self::Demo(demo) => {
                let key = beside.key.unwrap_or_default();
                greeting::console(beside.place, key) + &demo.text(&beside.place.url, key)
            }
        }
    }
}

fn of_targets(crib: &Toolcrib, offered: &[Offered], beside: &Beside<'_>) -> String {
    let Beside { place, journal, key, anonymous } = beside;
    let count = offered.iter().map(|one| one.tools).sum();
    let open = crib.anyone().list();
    let open: Vec<_> = open.into_iter().filter(|tool| tool.entry().is_some()).collect();
    let for_whom = match anonymous {
        true => "for whoever comes without a credential",
        false => "for nobody yet: a policy grants the group `all-tools` to agents",
    };
    let title = format!("{}, {for_whom}", counted(count, "tool", "tools"));
    let rows = offered.iter().map(row).collect();
    let mut text = section(&title, &["SOURCE", "TOOLS", "FROM"], rows);
    for one in offered {
        if let (Some(problem), Some(_)) = (&one.problem, &one.source) {
            let problem = plain(problem);
            text += &format!("  {} is tried again later: {problem}\n", plain(&one.shown));
        } else if let Some(problem) = &one.problem {
            text += &format!("  {} is left out: {}\n", plain(&one.shown), plain(problem));
        }
        if let Some(shut) = &one.shut {
            let (shown, shut) = (plain(&one.shown), plain(shut));
            text += &format!(
                "  calls of {shown} are shut, as {shut} is not public: give --allow {shut}\n"
            );
        }
    }
    if let (true, more @ 1..) = (*anonymous, open.len().saturating_sub(count)) {
        let more = counted(more, "tool", "tools");
        text +=
            &format!("  {more} of other sources are open in the same way: `toolcrib tool list`\n");
    }
    if *anonymous && place.has_port {
        let (program, url) = (config::own_name(), place.mcp());
        let is_shut = |tool: &ViewedTool| {
            let source = tool.entry().map(|entry| &entry.tool.source);
            offered.iter().any(|one| one.shut.is_some() && one.source.as_ref() == source)
        };
        let callable: Vec<_> = open.into_iter().filter(|tool| !is_shut(tool)).collect();
        if let Some(call) = example::call(&callable) {
            text += &format!("\nCall one:\n  {} call {url} {call}\n", quoted(&program));
        }
        text += &format!("\nTell a client (`{} client` knows more):\n", quoted(&program));
        for client in [Client::Cursor, Client::ClaudeDesktop] {
            text += &format!("  {:<14}  {}\n", client.title(), client.configuration(&url));
        }
    }
    text += &key.map_or_else(String::new, |key| greeting::key(place, key));
    if matches!(journal, JournalPlace::Memory) {
        text += "\nNothing is kept when the server stops: give --journal FILE for that.\n";
    }
    text
}

fn row(one: &Offered) -> Vec<String> {
    let source = one.source.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
    let kept_back = match one.kept_back {
        0 => String::new(),
        count => format!(" ({count} more wait for an admin)"),
    };
    vec![source, one.tools.to_string(), format!("{}{kept_back}", one.shown)]
}
