//! The errors of verbs, and their messages: one line, from the outermost error to its cause.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use config::config_error::ConfigError;
use execution::{CredentialError, HttpToolError, TemplateError};
use json::document_text::DocumentError;
use mcp_client::McpError;
use model::InvalidSourceUrl;
use server::listen_address::ListenAddress;
use server::tls::TlsError;
use sources::DiscoveryError;
use toolcrib::{
    AuthenticationError, CommandError, EmbeddingError, InvalidJournalLocation, InvalidModel,
    JournalError, SecretError, TransferError,
};
use upstream::http::HttpError;

/// The error of a verb.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    InvalidJournal(#[from] InvalidJournalLocation),
    #[error("a journal in memory is gone with its process: give a path or `postgres://…`")]
    InMemory,
    #[error(
        "{events} events are of types this version does not know and may refer to any document: \
         nothing was removed; use the toolcrib that wrote them"
    )]
    UnknownEventTypes { events: u64 },
    #[error("events kept arriving: nothing was removed; try again when less is going on")]
    EventsKeepArriving,
    #[error("the environment variable {name} is not UTF-8 text")]
    VariableNotText { name: &'static str },
    #[error("{name} cannot be used: {problem}")]
    Telemetry { name: &'static str, problem: String },
    #[error("the program cannot be started")]
    Start(#[source] io::Error),
    #[error("cannot listen on {address}: give another address with --listen")]
    CannotListen { address: ListenAddress, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("TLS is for a port: leave --tls-cert away, or give an address with --listen")]
    TlsOnSocket,
    #[error(
        "nobody could use a server on {address}: there is no issuer and no API key yet. Name an issuer with --config, start it \
         once on 127.0.0.1 and make a key, or give --allow-anonymous to let everybody in"
    )]
    NoPossibleCaller { address: ListenAddress },
    #[error("the key in TOOLCRIB_KEY is not taken")]
    AgentKeyRejected(#[source] AuthenticationError),
    #[error("this identity has no group `{0}`: `toolcrib explain` says which it has")]
    NoSuchGroup(String),
    #[error("the key of the first admin cannot be made")]
    FirstAdmin(#[source] CommandError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("{file}")]
    Import { file: String, source: TransferError },
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("line {line} of `{}` cannot be used", path.display())]
    InvalidLine { path: PathBuf, line: usize, source: serde_json::Error },
    #[error("texts have no vectors")]
    NoVectors(#[from] EmbeddingError),
    #[error(
        "texts have no vectors: name another folder, or leave it away to search by words alone"
    )]
    InvalidModel(#[from] InvalidModel),
    #[error("`{}` cannot be written", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("what was asked for could not be read to its end: nothing after this is there")]
    Interrupted(#[source] axum::Error),
    #[error("the output cannot be written")]
    Output(#[source] io::Error),
    #[error("the folder of `{}` is not there: make it first", path.display())]
    MissingFolder { path: PathBuf },
    #[error("`{}` is there already: give another name, or --force to replace it", path.display())]
    FileExists { path: PathBuf },
    #[error("`{}` is not an ordinary file: use `-` and redirect the output", path.display())]
    NotAFile { path: PathBuf },
    #[error("`{}` is the journal itself: give another name", path.display())]
    IsJournalFile { path: PathBuf },
    #[error("position {asked} is not there yet: the journal ends at {end}")]
    PositionAhead { asked: u64, end: u64 },
    #[error(
        "there is no stream `{name}`: streams are called `upstream_source-ID`, `source_tool-ID`, `tool_group-ID`, \
         `access_policy-ID`, `label-ID` and `api_key-ID`"
    )]
    NoSuchStream { name: String },
    #[error("event {position} has data that are not JSON: see `toolcrib journal verify`")]
    NotJson { position: u64, source: serde_json::Error },
    #[error("the secret is not UTF-8 text")]
    SecretNotText,
    #[error("the secret cannot be read from standard input")]
    SecretInput(#[source] io::Error),
    #[error("standard input cannot be read")]
    Stdin(#[source] io::Error),
    #[error("the target cannot be fetched")]
    TargetUrl(#[source] InvalidSourceUrl),
    #[error("--base-url cannot be used")]
    BaseUrl(#[source] InvalidSourceUrl),
    #[error(transparent)]
    Fetch(#[from] DiscoveryError),
    #[error("{target}")]
    NoTools { target: String, source: DiscoveryError },
    #[error("the MCP server cannot be asked")]
    Mcp(#[source] McpError),
    #[error("`{file}` is not JSON")]
    ImportNotJson { file: String, source: serde_json::Error },
    #[error(
        "the file has neither `mcpServers`, `servers`, `packages` nor `remotes`: give the configuration of a client, or a server.json"
    )]
    ImportUnknown,
    #[error("a source cannot be registered")]
    NotRegistered(#[source] CommandError),
    #[error(
        "the server answered with something else than was asked for: is it a toolcrib of this version?"
    )]
    UnexpectedResponse(#[source] serde_json::Error),
    #[error(
        "nothing of the demo is kept: leave --journal away, and the variable TOOLCRIB_JOURNAL empty"
    )]
    DemoInMemory,
    #[error("no TARGET could be read\n{}", .0.join("\n"))]
    NoReadableTarget(Vec<String>),
    #[error(
        "`{file}` is an http manifest, which is read from the server that it is of: give the URL that its `/tools` is below"
    )]
    ManifestInFile { file: String },
    #[error(
        "`{given}` is where a tool is, or the tool, and the other one is missing: `toolcrib call TARGET TOOL`, or \
         `toolcrib call TOOL -- COMMAND`; `toolcrib discover` lists tools"
    )]
    ToolMissing { given: String },
    #[error(
        "there is one target at most; a program goes behind `--`: toolcrib discover -- {words}"
    )]
    ProgramWithoutDashes { words: String },
    #[error("say which program: `-- COMMAND ARGUMENT…`")]
    CommandMissing,
    #[error("--bearer takes `env:NAME` or `file:PATH`; the token is not given itself")]
    BearerOption,
    #[error(
        "--header takes NAME=REF, where REF is `env:NAME` or `file:PATH`; the value is not given itself"
    )]
    HeaderOption,
    #[error("there is no tool `{name}`: {}", tool_suggestion(near))]
    NoSuchTool { name: String, near: Vec<String> },
    #[error("tool `{tool}` cannot be called")]
    NotCallable { tool: String, source: HttpToolError },
    #[error("the target does not say where its API is: give --base-url URL")]
    NoBaseUrl,
    #[error("standard input can be read once: give the target or --args in another way")]
    StdinTwice,
    #[error("--args is not a JSON object")]
    ArgsNotAnObject(#[source] serde_json::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Issuer(#[from] toolcrib::IssuerError),
    #[error(
        "the claims are not a JSON object: give one like '{{\"role\":\"staff\"}}', or a file with one"
    )]
    ClaimsNotAnObject(#[source] serde_json::Error),
    #[error(
        "`{given}` is neither JSON nor a file: give claims as '{{\"role\":\"staff\"}}', or a file with them"
    )]
    ClaimsAsPair { given: String },
    #[error("the arguments of `{tool}` are wrong\n{}", problems.join("\n"))]
    Arguments { tool: String, problems: Vec<String> },
    #[error(transparent)]
    InvalidRequest(TemplateError),
    #[error("a credential is given as SCHEME=env:NAME or SCHEME=file:PATH, never as it is")]
    CredentialOption,
    #[error(transparent)]
    Credential(CredentialError),
    #[error(
        "calls go to `{to}`, not to `{from}` where the specification is from: \
         give --base-url {to} to send the credential there"
    )]
    OtherOrigin { to: String, from: String },
    #[error("{message}")]
    CallFailed { message: String },
    #[error("`{given}` says nothing of it: give KEY=VALUE, such as `description='For the staff'`")]
    PairExpected { given: String },
    #[error("`{file}` cannot be used")]
    BodyFile { file: String, source: DocumentError },
    #[error("`{file}` is to be a mapping, such as `name: Pets`")]
    BodyNotAnObject { file: String },
    #[error(
        "what is it? Add settings.kind=openapi for a specification, mcp for an MCP server, or http_manifest, workflow, builtin or custom"
    )]
    KindMissing,
    #[error(
        "each running server knows by itself which sources it leaves alone: say which one with --server"
    )]
    ResetNeedsServer,
    #[error("the server's list has no end: {rows} came, and it has more of the same")]
    EndlessList { rows: usize },
    #[error("--server is the address of a server, such as `http://127.0.0.1:8080`")]
    ServerUrl,
    #[error("the key in TOOLCRIB_KEY is no key")]
    KeyNotText,
    #[error("the server cannot be asked")]
    Server(#[source] HttpError),
    #[error(
        "a server runs on the journal `{place}`: give --server with its address, and TOOLCRIB_KEY with an admin's key"
    )]
    JournalInUse { place: String },
    #[error("{sentence}")]
    Rejected {
        status: u16,
        sentence: String,
        /// Fields of the request, each with its error message.
        errors: Vec<(String, String)>,
    },
}

fn tool_suggestion(near: &[String]) -> String {
    match near {
        [] => "`toolcrib discover` lists them".to_owned(),
        near => format!("did you mean `{}`?", near.join("`, `")),
    }
}

impl CliError {
    /// The message and its causes in one line, without repeating a cause that the message already contains.
    pub(crate) fn full_message(&self) -> String {
        model::format_error_chain(self)
    }

    /// Whether the target may be something other than the expected document.
    pub(crate) fn may_be_no_document(&self) -> bool {
        match self {
            Self::Fetch(DiscoveryError::UnexpectedStatus { .. }) => true,
            Self::NoTools { source, .. } | Self::Fetch(source) => matches!(
                source,
                DiscoveryError::UnknownDocument
                    | DiscoveryError::WebPage
                    | DiscoveryError::InvalidText(_)
                    | DiscoveryError::NotOpenapi
                    | DiscoveryError::NotAnHttpManifest { .. }
            ),
            _ => false,
        }
    }

    /// The exit code of the program, for scripts.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Rejected { status: 404, .. } => 4,
            Self::Rejected { status: 401 | 403, .. } => 5,
            Self::Rejected { status: 409 | 412, .. } | Self::JournalInUse { .. } => 6,
            _ => 1,
        }
    }

    /// Whether the reader of our output has closed the pipe.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let mut error: Option<&(dyn Error + 'static)> = Some(self);
        while let Some(this) = error {
            if this
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            {
                return true;
            }
            error = this.source();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_appended_and_not_repeated() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let output = CliError::Output(full()).full_message();
        assert_eq!(output, format!("the output cannot be written: {}", full()));
        let repeated = CliError::Transfer(TransferError::Write(full())).full_message();
        assert_eq!(repeated, format!("the export cannot be written: {}", full()));
    }

    #[test]
    fn a_broken_pipe_is_seen_through_every_layer() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(CliError::Output(broken()).is_broken_pipe());
        assert!(CliError::Transfer(TransferError::Write(broken())).is_broken_pipe());
        assert!(!CliError::InMemory.is_broken_pipe());
    }
}
