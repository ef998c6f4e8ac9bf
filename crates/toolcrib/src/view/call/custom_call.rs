//! Calls a custom tool: a fixed answer, or a program that runs on this machine. Both go through the same gate as any
//! other call.

use std::time::Duration;

use calls::call_failures::report_unusable;
use calls::compiled_tool::{CompiledCustomTool, CustomToolWork};
use calls::source_gates::SourceVerdict;
use catalog::{CataloguedSource, CataloguedTool};
use execution::{CredentialMask, plain_text};
use json::strict_json;
use limits::run_low_priority_if_long;
use model::{CallFailure, CommandOutput, Content, CustomCommand, ErrorCode, FixedAnswer, Outcome};
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use upstream::stdio::{ProgramLimits, ProgramOutput, ProgramRunError, run_program};

use super::call_result::build_outcome;
use super::tool_failure;
use crate::view::AgentView;

/// Default timeout of a program.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Limits on captured output: bytes of standard output, lines and characters of standard error.
const MAX_STDOUT_BYTES: usize = 1 << 20;
const MAX_STDERR_LINES: usize = 20;
const MAX_STDERR_CHARS: usize = 2_000;
/// Time between the termination signal and the kill.
const TERMINATION_GRACE: Duration = Duration::from_millis(500);

impl AgentView {
    pub(super) async fn run_custom_tool(
        &self,
        source: &CataloguedSource,
        entry: &CataloguedTool,
        ready: &CompiledCustomTool,
        arguments: Map<String, Value>,
    ) -> Result<Outcome, CallFailure> {
        let source = &source.source;
        let start = Instant::now();
        let (result, content) = match &ready.work {
            CustomToolWork::Answer(answer) => {
                self.admit_once(source, &entry.tool.id, PROGRAM_TIMEOUT)
                    .await?
                    .finish(SourceVerdict::Works);
                fixed_content(answer)
            }
            CustomToolWork::Command(command, line) => {
                let time = source.profile.limits.timeout().unwrap_or(PROGRAM_TIMEOUT);
                let patience = self.client_timeout.filter(|patience| *patience < time);
                let until = start + patience.unwrap_or(time);
                let line = line.render(&arguments)?;
                let pass = self.admit_once(source, &entry.tool.id, PROGRAM_TIMEOUT).await?;
                let said = self.run_program(command, line, &arguments, until).await;
                let is_late = |failure: &CallFailure| failure.code == ErrorCode::UpstreamTimeout;
                pass.finish(match &said {
                    // The client's own timeout was shorter than the source's: this says nothing about the program.
                    Err(failure) if is_late(failure) && patience.is_some() => {
                        SourceVerdict::Inconclusive
                    }
                    Err(failure) if is_late(failure) => SourceVerdict::Fails,
                    Err(failure) if failure.code == ErrorCode::InternalError => {
                        SourceVerdict::Fails
                    }
                    _ => SourceVerdict::Works,
                });
                said?
            }
        };
        Ok(build_outcome(entry.tool.id.clone(), start, result, content, None))
    }

    async fn run_program(
        &self,
        command: &CustomCommand,
        line: Vec<String>,
        arguments: &Map<String, Value>,
        until: Instant,
    ) -> Result<(Option<Value>, Vec<Content>), CallFailure> {
        let cannot = |error: &dyn std::error::Error| {
            report_unusable(
                &command.run.program,
                error,
                "the program of the tool cannot be run here",
            )
        };
        let (upstreams, secrets) = (self.crib.upstreams(), self.crib.secrets());
        let prepared = upstreams.prepare_program(&command.run, secrets).await;
        let (mut program, hidden) = prepared.map_err(|error| cannot(&error))?;
        program.arguments = line.into_iter().map(Into::into).collect();
        let input = match command.stdin {
            true => serde_json::to_vec(arguments).unwrap_or_default(),
            false => Vec::new(),
        };
        let limits = ProgramLimits { grace: TERMINATION_GRACE, ..ProgramLimits::default() };
        let running = run_program(&program, input, MAX_STDOUT_BYTES, MAX_STDERR_LINES, limits);
        let ran = match timeout_at(until, running).await {
            Ok(Ok(ran)) => ran,
            Ok(Err(ProgramRunError::OutputTooLarge { limit })) => {
                let why = format!("Error: the program said more than {limit} bytes and was ended");
                return Err(tool_failure(why));
            }
            Ok(Err(error @ ProgramRunError::Io(_))) => return Err(cannot(&error)),
            Err(_) => {
                let message = "the program took too long and was ended";
                return Err(CallFailure::new(ErrorCode::UpstreamTimeout, message, false));
            }
        };
        let (mask, output) = (CredentialMask::from_secrets(&hidden), command.output);
        run_low_priority_if_long(ran.stdout.len(), move || read_program_output(&ran, &mask, output))
            .await
    }
}

fn fixed_content(answer: &FixedAnswer) -> (Option<Value>, Vec<Content>) {
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
fn read_program_output(
    ran: &ProgramOutput,
    mask: &CredentialMask,
    output: CommandOutput,
) -> Result<(Option<Value>, Vec<Content>), CallFailure> {
    let plain = |bytes: &[u8]| {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        mask.mask_text(&mut text);
        plain_text(&text)
    };
    if !ran.is_success {
        let stderr = plain(ran.stderr.as_bytes());
        let skipped = stderr.chars().count().saturating_sub(MAX_STDERR_CHARS);
        let last: String = stderr.chars().skip(skipped).collect();
        let how = &ran.status;
        return Err(tool_failure(match last.trim() {
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
            let mut value = strict_json::parse_tolerant(&ran.stdout).map_err(|error| {
                tool_failure(format!("Error: the program did not say JSON: {error}"))
            })?;
            mask.mask_json(&mut value);
            Ok((Some(value), Vec::new()))
        }
    }
}
