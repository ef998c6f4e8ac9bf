//! Third-party programs, installed below `target/` exactly as files of the workspace pin them.
//!
//! Every package is pinned by its hash. A stamp next to each folder repeats the pins it was made from. If the pins
//! change or the installation was interrupted, the folder is installed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::xtask_error::XtaskError;
use crate::{program, setup, workspace};

/// A folder below `target/` that `fill` has filled according to these pins.
pub(crate) fn install_folder(
    name: &str,
    pins: &[PathBuf],
    fill: impl FnOnce(&Path) -> Result<(), XtaskError>,
) -> Result<PathBuf, XtaskError> {
    let folder = workspace::workspace_root().join("target").join(name);
    let stamp = folder.with_extension("installed");
    let wanted = stamp_text(&folder, pins)?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    eprintln!("installing {}", workspace::relative_path(&folder));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fill(&folder)?;
    fs::write(&stamp, wanted)?;
    Ok(folder)
}

/// Installs a Python virtual environment with the packages that `requirements` pins.
pub(crate) fn install_python_environment(
    name: &str,
    requirements: &Path,
) -> Result<PathBuf, XtaskError> {
    setup::ensure_python()?;
    install_folder(name, &[requirements.to_owned()], |folder| {
        create_environment(folder)?;
        program::run_command(&mut pip_command(folder, requirements))
    })
}

/// Installs only the files of the packages that `requirements` pins, without their dependencies.
pub(crate) fn install_python_files(name: &str, requirements: &Path) -> Result<PathBuf, XtaskError> {
    setup::ensure_python()?;
    install_folder(name, &[requirements.to_owned()], |folder| {
        let environment = folder.join("environment");
        create_environment(&environment)?;
        let mut pip = pip_command(&environment, requirements);
        program::run_command(pip.arg("--no-deps").arg("--target").arg(folder))?;
        Ok(fs::remove_dir_all(environment)?)
    })
}

fn create_environment(folder: &Path) -> Result<(), XtaskError> {
    program::run_command(program::new_command("python3").args(["-m", "venv"]).arg(folder))
}

fn pip_command(environment: &Path, requirements: &Path) -> Command {
    let mut pip = program::new_command(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]);
    pip.args(["--require-hashes", "--requirement"]).arg(requirements).stdout(std::io::stderr());
    pip
}

/// The content of the stamp. It includes the folder, because a virtual environment does not work after it was moved.
fn stamp_text(folder: &Path, pins: &[PathBuf]) -> Result<String, XtaskError> {
    let mut stamp = format!("{}\n", folder.display());
    for pin in pins {
        stamp.push_str(&workspace::read_file(pin)?);
    }
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let folders = ["docs", "packaging", "rig"];
        let files = folders
            .map(|name| workspace::files_below(&workspace::workspace_root().join(name)).unwrap());
        let name_of = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
        files.into_iter().flatten().filter(|file| wanted(&name_of(file))).collect()
    }

    #[test]
    fn pins_name_packages_but_no_download_locations() {
        let pins = pins(|name| name.starts_with("requirements") || name.starts_with("package"));
        assert_eq!(pins.len(), 11);
        for pin in pins {
            let text = workspace::read_file(&pin).unwrap();
            for word in [
                "\"resolved\"",
                "--index-url",
                "--extra-index-url",
                "--trusted-host",
                "--find-links",
            ] {
                assert!(!text.contains(word), "`{}` has `{word}`", pin.display());
            }
        }
    }

    #[test]
    fn every_pinned_package_has_a_hash() {
        for pin in pins(|name| name == "package-lock.json") {
            let lock = workspace::read_file(&pin).unwrap();
            let packages = lock.matches("    \"node_modules/").count();
            assert!(packages > 0);
            assert_eq!(lock.matches("\"integrity\": \"sha512-").count(), packages);
        }
        for pin in pins(|name| name.starts_with("requirements") && name.ends_with(".txt")) {
            let requirements = workspace::read_file(&pin).unwrap();
            let lines = requirements.lines().filter(|line| !line.starts_with([' ', '#']));
            for line in lines {
                assert!(
                    line.contains("==") && line.ends_with(" \\"),
                    "no version or hash: `{line}`"
                );
            }
        }
    }
}
