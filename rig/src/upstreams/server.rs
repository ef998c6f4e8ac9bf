//! A small MCP server that repeats what it is told, over stdio or HTTP, and from a moment on does harm if it is to.
//!
//! It speaks `initialize` as most servers do, and has a child of its own so that there is a tree to end.

mod over_http;
mod over_stdio;
mod reply;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

pub(crate) use over_http::read;
pub(crate) use over_stdio::{large, slowly};

use super::hostile::Over;

#[derive(clap::Args)]
pub(crate) struct Orders {
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
    manner: Option<Manner>,
    /// The file.
    #[arg(long)]
    from: Option<PathBuf>,
    /// Listens on a port, and says which.
    #[arg(long)]
    http: bool,
}

/// How a server or an API can do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Manner {
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

pub(crate) fn run(orders: &Orders) -> anyhow::Result<()> {
    if let Some(mark) = &orders.mark {
        // It keeps our output open, as what servers start often does.
        Command::new("/bin/sleep").arg0(mark).arg("100000").spawn()?;
    }
    if let Some(manner) = orders.manner {
        reply::prepared(manner);
    }
    match orders.http {
        true => over_http::run(orders),
        false => over_stdio::run(orders),
    }
}

impl Orders {
    /// The harm it does now.
    fn harm(&self) -> Option<Manner> {
        self.manner.filter(|_| self.from.as_ref().is_some_and(|file| file.exists()))
    }
}

impl Manner {
    /// Whether a refresh is over soon, well or not.
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

    /// Whether there is such a thing there.
    pub(crate) fn is_known_to(self, over: Over) -> bool {
        match self {
            Self::HangsOnInitialize
            | Self::FloodsNotifications
            | Self::RepeatsNames
            | Self::EndlessCursor
            | Self::ManyTools
            | Self::InvalidUtf8 => over != Over::Api,
            Self::DiesInMidCall | Self::LargeAnswer | Self::SlowLoris => true,
            Self::Hangs | Self::LongAnswer | Self::Fails | Self::MalformedJson => over == Over::Api,
        }
    }

    /// Whether what it costs the others is measured. Of what is short and at once, it is known.
    pub(crate) fn is_measured(self) -> bool {
        !matches!(self, Self::Fails | Self::MalformedJson)
    }

    /// The word on the command line.
    pub(crate) fn word(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}
