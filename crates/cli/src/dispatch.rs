//! Executes the verb of the command line.

use config::declared_config::config_schema;

use crate::arguments::eval::EvalVerb;
use crate::arguments::journal::JournalVerb;
use crate::arguments::plan::ConfigVerb;
use crate::arguments::workflow::WorkflowVerb;
use crate::arguments::{Cli, CliVerb, VerbOutcome};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::{admin_client, output, verbs};

/// Executes the verb of the command line.
pub(crate) async fn run_verb(cli: Cli, config: ProgramConfig) -> Result<VerbOutcome, CliError> {
    let place = &config.journal;
    match cli.verb {
        CliVerb::Serve(arguments) => verbs::serve::run_server(&config, &arguments).await,
        CliVerb::Stdio(arguments) => verbs::stdio::run_stdio(&config, &arguments).await,
        CliVerb::Discover(arguments) => {
            verbs::discover::discover_target(&arguments.normalize_arguments()).await
        }
        CliVerb::Call(arguments) => {
            verbs::call::call_target_tool(&arguments.normalize_arguments()).await
        }
        CliVerb::Client(arguments) => verbs::client::print_client_configs(&arguments),
        CliVerb::Import(arguments) => verbs::import::import_mcp_servers(&config, &arguments).await,
        CliVerb::Explain(arguments) => verbs::explain::explain_access(&config, &arguments).await,
        CliVerb::Search(arguments) => verbs::search::search_tools(&config, &arguments).await,
        CliVerb::Plan(arguments) => verbs::plan::run_plan(&config, &arguments).await,
        CliVerb::Apply(arguments) => verbs::plan::apply_plan::run_apply(&config, &arguments).await,
        CliVerb::Export(arguments) => verbs::export::export_config(place, &arguments).await,
        CliVerb::Config(ConfigVerb::Schema) => {
            output::print_json(&config_schema::editor_schema()).map(|()| VerbOutcome::Success)
        }
        CliVerb::Source(done) => admin_client::run_source_verb(&config, &done).await,
        CliVerb::Tool(done) => admin_client::run_tool_verb(&config, &done).await,
        CliVerb::Group(done) => admin_client::run_group_verb(&config, &done).await,
        CliVerb::Policy(done) => admin_client::run_policy_verb(&config, &done).await,
        CliVerb::Label(done) => admin_client::run_label_verb(&config, &done).await,
        CliVerb::Key(done) => admin_client::run_key_verb(&config, &done).await,
        CliVerb::Execution(verb) => verbs::execution::run_execution_verb(&config, &verb).await,
        CliVerb::Doctor(arguments) => verbs::doctor::run_doctor(&config, &arguments).await,
        CliVerb::Completions { shell } => verbs::manual::print_completions(shell),
        CliVerb::Man => verbs::manual::print_manual(),
        CliVerb::Eval(EvalVerb::Search(arguments)) => {
            verbs::eval::evaluate_search(&arguments).await
        }
        CliVerb::Journal(JournalVerb::Show(arguments)) => {
            verbs::journal::show::show_journal(place, &arguments).await
        }
        CliVerb::Journal(JournalVerb::Tail(arguments)) => {
            verbs::journal::tail::tail_journal(place, &arguments).await
        }
        CliVerb::Journal(JournalVerb::Verify(format)) => {
            verbs::journal::verify::verify_journal(place, &format).await
        }
        CliVerb::Journal(JournalVerb::Export(arguments)) => {
            verbs::journal::export::export_journal(place, &arguments).await
        }
        CliVerb::Journal(JournalVerb::Import(arguments)) => {
            verbs::journal::import::import_journal(place, &arguments).await
        }
        CliVerb::Journal(JournalVerb::Collect(format)) => {
            verbs::journal::collect::collect_documents(place, &format).await
        }
        CliVerb::Secret(done) => verbs::secret::run_secret_verb(&config, &done).await,
        CliVerb::Workflow(WorkflowVerb::Show(arguments)) => {
            verbs::workflow::show_workflow(&arguments).await
        }
        CliVerb::Workflow(WorkflowVerb::Check(arguments)) => {
            verbs::workflow::check_workflows(&arguments).await
        }
    }
}
