//! Calls a custom tool: a fixed answer, or a program that runs on this machine. Both go through the same gate as any
//! other call.

use std::time::Duration;

use catalog::{CataloguedSource, CataloguedTool};
use execution::{Mask, plain_text};
use model::{
    CommandOutput, Content, CustomCommand, ErrorCode, Failure, FixedAnswer, Outcome, strict_json,
};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use upstream::aside_if_long;
use upstream::stdio::{ProgramLimits, Ran, RunError, run};

use super::done::told;
use super::{failure_of_tool, unusable};
use crate::gates::Verdict;
use crate::view::AgentView;
use crate::view::ready::{CustomReady, ToolWork};

/// Default timeout of a program.
const TIME: Duration = Duration::from_secs(30);
/// Limits on captured output: bytes of standard output, lines and characters of standard error.
const STDOUT: usize = 1 << 20;
const STDERR_LINES: usize = 20;
const STDERR: usize = 2_000;
/// Time between the termination signal and the kill.
const GRACE: Duration = Duration::from_millis(500);

impl AgentView {
    pub(super) async fn do_custom(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
        ready: &CustomReady,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, Failure> {
        let source = &source.source;
        let start = Instant::now();
        let (result, content) = match &ready.work {
            ToolWork::Answer(answer) => {
                self.enter(source, &entry.tool.id, TIME).await?.end(Verdict::Works);
                fixed(answer)
            }
            ToolWork::Command(command, line) => {
                let time = source.profile.limits.timeout().unwrap_or(TIME);
                let patience = self.patience.filter(|patience| *patience < time);
                let until = start + patience.unwrap_or(time);
                let line = line.render(&arguments)?;
                let pass = self.enter(source, &entry.tool.id, TIME).await?;
                let said = self.run_program(command, line, &arguments, until).await;
                let is_late = |failure: &Failure| failure.code == ErrorCode::UpstreamTimeout;
                pass.end(match &said {
                    // The client's own timeout was shorter than the source's: this says nothing about the program.
                    Err(failure) if is_late(failure) && patience.is_some() => Verdict::Nothing,
                    Err(failure) if is_late(failure) => Verdict::Fails,
                    Err(failure) if failure.code == ErrorCode::InternalError => Verdict::Fails,
                    _ => Verdict::Works,
                });
                said?
            }
        };
        Ok(told(entry.tool.id.clone(), start, result, content, None))
    }

    async fn run_program(
        &self,
        command: &CustomCommand,
        line: Vec<String>,
        arguments: &Map<String, Value>,
        until: Instant,
    ) -> Result<(Option<Value>, Vec<Content>), Failure> {
        let cannot = |error: &dyn std::error::Error| {
            unusable(&command.run.program, error, "the program of the tool cannot be run here")
        };
        let (upstreams, secrets) = (self.crib.upstreams(), self.crib.secrets());
        let prepared = upstreams.program(&command.run, secrets).await;
        let (mut program, hidden) = prepared.map_err(|error| cannot(&error))?;
        program.arguments = line.into_iter().map(Into::into).collect();
        let input = match command.stdin {
            true => serde_json::to_vec(arguments).unwrap_or_default(),
            false => Vec::new(),
        };
        let limits = ProgramLimits { grace: GRACE, ..ProgramLimits::default() };
        let running = run(&program, input, STDOUT, STDERR_LINES, limits);
        let ran = match timeout_at(until, running).await {
            Ok(Ok(ran)) => ran,
            Ok(Err(RunError::TooMuch { limit })) => {
                let why = format!("Error: the program said more than {limit} bytes and was ended");
                return Err(failure_of_tool(why));
            }
            Ok(Err(error @ RunError::Io(_))) => return Err(cannot(&error)),
            Err(_) => {
                let message = "the program took too long and was ended";
                return Err(Failure::new(ErrorCode::UpstreamTimeout, message, false));
            }
        };
        let (mask, output) = (Mask::of(&hidden), command.output);
        aside_if_long(ran.stdout.len(), move || read(&ran, &mask, output)).await
    }
}

fn fixed(answer: &FixedAnswer) -> (Option<Value>, Vec<Content>) {
    match answer {
        FixedAnswer::Text(text) => (None, vec![Content::Text { text: text.to_string() }]),
        FixedAnswer::Json(value) => (Some(value.clone()), Vec::new()),
        FixedAnswer::Content(all) => {
            let all = all.iter().cloned().map(Value::Object);
            let read = |value: Value| {
                Content::deserialize(&value).unwrap_or_else(|_| Content::Other(value))
            };
            (None, all.map(read).collect())
        }
    }
}

/// Reads the output of a program, with its secrets masked and terminal control sequences removed.
fn read(
    ran: &Ran,
    mask: &Mask,
    output: CommandOutput,
) -> Result<(Option<Value>, Vec<Content>), Failure> {
    let plain = |bytes: &[u8]| {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        mask.text(&mut text);
        plain_text(&text)
    };
    if !ran.is_success {
        let stderr = plain(ran.stderr.as_bytes());
        let skipped = stderr.chars().count().saturating_sub(STDERR);
        let last: String = stderr.chars().skip(skipped).collect();
        let how = &ran.how;
        return Err(failure_of_tool(match last.trim() {
            "" => format!("Error: the program ended with {how}"),
            last => format!("Error: the program ended with {how}: {last}"),
        }));
    }
    match output {
        CommandOutput::Text => {
            let text = plain(&ran.stdout);
            let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
            Ok((None, vec![Content::Text { text }]))
        }
        CommandOutput::Json => {
            let mut value = strict_json::tolerant(&ran.stdout).map_err(|error| {
                failure_of_tool(format!("Error: the program did not say JSON: {error}"))
            })?;
            mask.json(&mut value);
            Ok((Some(value), Vec::new()))
        }
    }
}
