//! `mcp`: a small MCP server over stdio or HTTP. It echoes text, and can turn hostile at a given moment.
//!
//! It speaks `initialize` as most servers do, and starts a child process, so that there is a process tree to end.

mod echo_over_http;
mod echo_over_stdio;
mod echo_reply;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

pub(crate) use echo_over_http::read_request;
pub(crate) use echo_over_stdio::{write_large, write_slowly};

use super::hostile::SourceTransport;

#[derive(clap::Args)]
pub(crate) struct EchoServerArgs {
    /// What its tools are named after.
    #[arg(long)]
    name: String,
    /// Stands in its command line and in that of a child it starts, to find them by.
    #[arg(long)]
    mark: Option<String>,
    /// A call takes up to so many milliseconds.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// What it does as soon as the file is there.
    #[arg(long, requires = "from")]
    manner: Option<HostileBehavior>,
    /// The file.
    #[arg(long)]
    from: Option<PathBuf>,
    /// Listens on a port, and says which.
    #[arg(long)]
    http: bool,
}

/// How a server or an API can do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HostileBehavior {
    /// Does not answer `initialize`; whoever is connected has to begin anew.
    HangsOnInitialize,
    /// Ends in the middle of an answer.
    DiesInMidCall,
    /// Tells of 100,000 changes before each answer.
    FloodsNotifications,
    /// Lists 10,000 tools of one name.
    RepeatsNames,
    /// Always has one more page.
    EndlessCursor,
    /// Lists 100,000 tools.
    ManyTools,
    /// Answers 10 GB.
    LargeAnswer,
    /// Answers what is no text.
    InvalidUtf8,
    /// Answers one byte in a second.
    SlowLoris,
    /// Takes requests and says nothing.
    Hangs,
    /// Answers 5 MiB, half of what is read.
    LongAnswer,
    /// Answers that it is broken.
    Fails,
    /// Answers half of what it promises.
    MalformedJson,
}

pub(crate) fn run(orders: &EchoServerArgs) -> anyhow::Result<()> {
    if let Some(mark) = &orders.mark {
        // The child keeps our standard output open, as child processes often do.
        Command::new("/bin/sleep").arg0(mark).arg("100000").spawn()?;
    }
    if let Some(manner) = orders.manner {
        echo_reply::prepared_tool_list(manner);
    }
    match orders.http {
        true => echo_over_http::run(orders),
        false => echo_over_stdio::run(orders),
    }
}

impl EchoServerArgs {
    /// The hostile behavior that is active now.
    fn active_harm(&self) -> Option<HostileBehavior> {
        self.manner.filter(|_| self.from.as_ref().is_some_and(|file| file.exists()))
    }
}

impl HostileBehavior {
    /// True if a refresh ends soon, successfully or not.
    pub(crate) fn lets_refreshes_end(self) -> bool {
        match self {
            Self::DiesInMidCall
            | Self::RepeatsNames
            | Self::EndlessCursor
            | Self::ManyTools
            | Self::InvalidUtf8
            | Self::LongAnswer
            | Self::Fails
            | Self::MalformedJson => true,
            Self::HangsOnInitialize
            | Self::FloodsNotifications
            | Self::LargeAnswer
            | Self::SlowLoris
            | Self::Hangs => false,
        }
    }

    /// True if a source with this transport can behave so.
    pub(crate) fn applies_to(self, over: SourceTransport) -> bool {
        match self {
            Self::HangsOnInitialize
            | Self::FloodsNotifications
            | Self::RepeatsNames
            | Self::EndlessCursor
            | Self::ManyTools
            | Self::InvalidUtf8 => over != SourceTransport::Api,
            Self::DiesInMidCall | Self::LargeAnswer | Self::SlowLoris => true,
            Self::Hangs | Self::LongAnswer | Self::Fails | Self::MalformedJson => {
                over == SourceTransport::Api
            }
        }
    }

    /// True if its cost for the other sources is measured. Short and immediate errors have a known cost.
    pub(crate) fn is_measured(self) -> bool {
        !matches!(self, Self::Fails | Self::MalformedJson)
    }

    /// The value on the command line.
    pub(crate) fn cli_value(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
