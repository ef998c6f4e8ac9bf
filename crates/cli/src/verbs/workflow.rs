//! `toolcrib workflow`: checks workflow documents and prints their plans. It calls no tools.

use std::path::Path;

use config::config_error::read_limited_file;
use serde_json::{Value, json};
use toolcrib::{InvalidWorkflowDocument, read_workflow};

use crate::arguments::VerbOutcome;
use crate::arguments::workflow::{CheckWorkflowsArgs, ShowWorkflowArgs};
use crate::cli_error::CliError;
use crate::output::{count_noun, escape_for_terminal};
use crate::{inspected_target, output};

/// Maximum bytes of a document.
const MAX_DOCUMENT_BYTES: u64 = 1 << 20;

/// Prints the plan of a workflow, as text and as a Mermaid diagram.
pub(crate) async fn show_workflow(arguments: &ShowWorkflowArgs) -> Result<VerbOutcome, CliError> {
    let read = read_document(&arguments.file).await?;
    let workflow = match read {
        Ok(workflow) => workflow,
        Err(error) => {
            let text = problems_text(&arguments.file, &error);
            output::print_notes(&text);
            return Ok(VerbOutcome::ProblemsFound);
        }
    };
    let plan = workflow.to_plan();
    if arguments.mermaid {
        output::print_text(&workflow.to_mermaid())?;
        return Ok(VerbOutcome::Success);
    }
    if arguments.json.json {
        let mut shown = json!(plan);
        shown["title"] = json!(workflow.title);
        shown["summary"] = json!(workflow.summary);
        shown["input_schema"] = json!(workflow.input_schema);
        shown["output_schema"] = json!(workflow.output_schema);
        shown["mermaid"] = Value::from(workflow.to_mermaid());
        output::print_json(&shown)?;
        return Ok(VerbOutcome::Success);
    }
    let about = workflow.summary.as_deref().or(workflow.title.as_deref()).unwrap_or_default();
    let mut text = format!(
        "{}: {}\n\nCalls\n",
        escape_for_terminal(&plan.workflow),
        escape_for_terminal(about.trim())
    );
    for tool in &plan.tools {
        text += &format!("  {}\n", escape_for_terminal(tool));
    }
    text += "\nSteps\n";
    for line in plan.to_string().lines() {
        text += &format!("  {}\n", escape_for_terminal(line));
    }
    text += &format!("\nPicture (Mermaid)\n{}", workflow.to_mermaid());
    output::print_text(&text)?;
    Ok(VerbOutcome::Success)
}

/// Checks documents, and prints all problems of invalid ones.
pub(crate) async fn check_workflows(
    arguments: &CheckWorkflowsArgs,
) -> Result<VerbOutcome, CliError> {
    let mut ended = VerbOutcome::Success;
    for file in &arguments.files {
        let text = match read_document(file).await? {
            Ok(workflow) => {
                let plan = workflow.to_plan();
                let steps = count_noun(plan.steps.len(), "step", "steps");
                let tools = count_noun(plan.tools.len(), "tool", "tools");
                format!("{file}: `{}`, {steps}, {tools}", workflow.name)
            }
            Err(error) => {
                ended = VerbOutcome::ProblemsFound;
                problems_text(file, &error)
            }
        };
        let lines: Vec<String> =
            text.lines().map(|line| escape_for_terminal(line).into_owned()).collect();
        output::print_text(&lines.join("\n"))?;
    }
    Ok(ended)
}

async fn read_document(
    file: &str,
) -> Result<Result<toolcrib::Workflow, InvalidWorkflowDocument>, CliError> {
    let bytes = match file {
        "-" => inspected_target::read_stdin(MAX_DOCUMENT_BYTES).await?,
        path => read_limited_file(Path::new(path), MAX_DOCUMENT_BYTES)?,
    };
    Ok(read_workflow(&String::from_utf8_lossy(&bytes)))
}

/// One line per problem.
fn problems_text(file: &str, error: &InvalidWorkflowDocument) -> String {
    match error {
        InvalidWorkflowDocument::Workflow(invalid) => {
            let lines = invalid.problems.iter().map(|problem| format!("{file}: {problem}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => format!("{file}: {}", model::format_error_chain(other)),
    }
}
