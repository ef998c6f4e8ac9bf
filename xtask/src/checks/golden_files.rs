//! Golden files: rejects files that no test refers to, and proposals that were neither accepted nor rejected.

use std::path::Path;

use crate::checks::CheckProgress;
use crate::workspace;
use crate::xtask_error::XtaskError;

pub(super) fn check_golden_files(progress: &mut CheckProgress) -> Result<(), XtaskError> {
    let in_use = progress.golden_files_in_use.as_ref();
    if in_use.is_none() {
        println!(
            "only proposals are looked for: not all tests ran, so nobody knows which golden files are in use"
        );
    }
    let mut complaints = Vec::new();
    for file in workspace::files_below(workspace::workspace_root())? {
        let real_path = file.canonicalize()?;
        if is_proposal(&file) {
            complaints.push(format!(
                "{} was neither accepted nor rejected",
                workspace::relative_path(&file)
            ));
        }
        if is_golden(&file) && in_use.is_some_and(|in_use| !in_use.contains(&real_path)) {
            complaints.push(format!("no test refers to {}", workspace::relative_path(&file)));
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(XtaskError::new(complaints.join("\n")))
}

fn is_golden(file: &Path) -> bool {
    has_ending(file, ".snap")
}

/// `insta` writes a proposal next to the golden file, or for an inline one in a hidden file next to the test.
fn is_proposal(file: &Path) -> bool {
    has_ending(file, ".snap.new") || has_ending(file, ".pending-snap")
}

fn has_ending(file: &Path, ending: &str) -> bool {
    file.to_string_lossy().ends_with(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_files_and_proposals_differ_in_their_ending() {
        assert!(is_golden(Path::new("src/snapshots/a.snap")));
        assert!(!is_golden(Path::new("src/snapshots/a.snap.new")));
        assert!(is_proposal(Path::new("src/snapshots/a.snap.new")));
        assert!(is_proposal(Path::new("src/.lib.rs.pending-snap")));
        assert!(!is_proposal(Path::new("src/snapshots/a.snap")));
    }
}
