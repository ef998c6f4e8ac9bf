//! `toolcrib workflow`: checks workflow documents and prints their plans. It calls no tools.

use std::path::Path;

use serde_json::{Value, json};
use toolcrib::{InvalidDocument, read_workflow};

use crate::cli::Ended;
use crate::cli::workflow::{CheckWorkflows, ShowWorkflow};
use crate::failure::Failure;
use crate::out::{self, counted, plain};
use crate::target;

/// Maximum bytes of a document.
const LIMIT: u64 = 1 << 20;

/// Prints the plan of a workflow, as text and as a Mermaid diagram.
pub(crate) async fn show(arguments: &ShowWorkflow) -> Result<Ended, Failure> {
    let read = read(&arguments.file).await?;
    let workflow = match read {
        Ok(workflow) => workflow,
        Err(error) => {
            let text = problems(&arguments.file, &error);
            out::notes(&text);
            return Ok(Ended::ProblemsFound);
        }
    };
    let plan = workflow.plan();
    if arguments.mermaid {
        out::print(&workflow.mermaid())?;
        return Ok(Ended::Fine);
    }
    if arguments.json.json {
        let mut shown = json!(plan);
        shown["title"] = json!(workflow.title);
        shown["summary"] = json!(workflow.summary);
        shown["input_schema"] = json!(workflow.input_schema);
        shown["output_schema"] = json!(workflow.output_schema);
        shown["mermaid"] = Value::from(workflow.mermaid());
        out::print_json(&shown)?;
        return Ok(Ended::Fine);
    }
    let about = workflow.summary.as_deref().or(workflow.title.as_deref()).unwrap_or_default();
    let mut text = format!("{}: {}\n\nCalls\n", plain(&plan.workflow), plain(about.trim()));
    for tool in &plan.tools {
        text += &format!("  {}\n", plain(tool));
    }
    text += "\nSteps\n";
    for line in plan.to_string().lines() {
        text += &format!("  {}\n", plain(line));
    }
    text += &format!("\nPicture (Mermaid)\n{}", workflow.mermaid());
    out::print(&text)?;
    Ok(Ended::Fine)
}

/// Checks documents, and prints all problems of invalid ones.
pub(crate) async fn check(arguments: &CheckWorkflows) -> Result<Ended, Failure> {
    let mut ended = Ended::Fine;
    for file in &arguments.files {
        let text = match read(file).await? {
            Ok(workflow) => {
                let plan = workflow.plan();
                let steps = counted(plan.steps.len(), "step", "steps");
                let tools = counted(plan.tools.len(), "tool", "tools");
                format!("{file}: `{}`, {steps}, {tools}", workflow.name)
            }
            Err(error) => {
                ended = Ended::ProblemsFound;
                problems(file, &error)
            }
        };
        let lines: Vec<String> = text.lines().map(|line| plain(line).into_owned()).collect();
        out::print(&lines.join("\n"))?;
    }
    Ok(ended)
}

async fn read(file: &str) -> Result<Result<toolcrib::Workflow, InvalidDocument>, Failure> {
    let bytes = match file {
        "-" => target::from_stdin(LIMIT).await?,
        path => target::from_file(Path::new(path), LIMIT)?,
    };
    Ok(read_workflow(&String::from_utf8_lossy(&bytes)))
}

/// One line per problem.
fn problems(file: &str, error: &InvalidDocument) -> String {
    match error {
        InvalidDocument::Workflow(invalid) => {
            let lines = invalid.problems.iter().map(|problem| format!("{file}: {problem}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => format!("{file}: {}", model::sentence(other)),
    }
}
