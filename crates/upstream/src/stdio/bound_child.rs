//! Bound children: programs that die with the server that started them and run with restricted rights.
//!
//! The kernel kills a process together with its parent only if the process asks for that itself, and only a process
//! itself can drop its rights. A foreign program does neither, and doing it between fork and exec needs unsafe code. So
//! the server starts its own executable first: it does both, and then becomes the other program, which inherits them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use super::confinement;
use super::{ProgramSpec, SandboxPaths, group_guard};
#[cfg(target_os = "linux")]
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The first argument of a process that becomes a bound child.
const BIND_FLAG: &str = "--become-a-bound-child";
const HIDE: &str = "--hide";
const SANDBOX: &str = "--sandbox";
const READ: &str = "--read";
const WRITE: &str = "--write";
const PROGRAM_SEPARATOR: &str = "--";

/// The exit code with which shells report a command that cannot be run.
const CANNOT_RUN: u8 = 126;

/// Arguments for the server's executable: restrictions and the program to become, before the program's own arguments.
pub(super) fn binder_arguments(program: &ProgramSpec, file: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![BIND_FLAG.into(), std::process::id().to_string().into()];
    let mut add = |option: &str, paths: &[PathBuf]| {
        words.extend(paths.iter().flat_map(|path| [option.into(), path.into()]));
    };
    add(HIDE, &program.hidden);
    if let Some(sandbox) = &program.sandbox {
        // An empty sandbox differs from no sandbox.
        add(SANDBOX, &[PathBuf::new()]);
        add(READ, &sandbox.read);
        add(WRITE, &sandbox.write);
    }
    words.extend([PROGRAM_SEPARATOR.into(), file.into()]);
    words
}

/// Becomes another program, or the guard of process groups, if the arguments of this process ask for it. Call it first
/// in `main`, and exit with the code that it returns.
pub fn run_as_bound_child() -> Option<ExitCode> {
    run_as_bound_child_with(std::env::args_os())
}

/// Like [`run_as_bound_child`], with the arguments passed in.
pub fn run_as_bound_child_with(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    let asked = arguments.next()?;
    if asked == group_guard::GUARD_FLAG {
        group_guard::run_guard(std::io::stdin().lock());
        return Some(ExitCode::SUCCESS);
    }
    if asked != BIND_FLAG {
        return None;
    }
    let parent = arguments.next()?.into_string().ok()?.parse().ok()?;
    let (hidden, sandbox) = parse_options(&mut arguments)?;
    let program = arguments.next()?;
    // Only the server that started this process reads the message, as the end of the program's standard error.
    if let Err(error) = bind_to_parent(parent, &program, &hidden, sandbox.as_ref()) {
        let said = writeln!(io::stderr(), "toolcrib: the program is not started: {error}");
        said.unwrap_or_default();
        return Some(ExitCode::from(CANNOT_RUN));
    }
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let error = std::process::Command::new(program).args(arguments).exec();
    let said = writeln!(io::stderr(), "toolcrib: the program cannot be started: {error}");
    said.unwrap_or_default();
    Some(ExitCode::from(CANNOT_RUN))
}

/// Parses the options up to the program.
fn parse_options(
    words: &mut impl Iterator<Item = OsString>,
) -> Option<(Vec<PathBuf>, Option<SandboxPaths>)> {
    let (mut hidden, mut sandbox) = (Vec::new(), None::<SandboxPaths>);
    loop {
        let word = words.next()?;
        if word == PROGRAM_SEPARATOR {
            return Some((hidden, sandbox));
        }
        let path = PathBuf::from(words.next()?);
        match word.to_str()? {
            HIDE => hidden.push(path),
            SANDBOX => sandbox = Some(SandboxPaths::default()),
            READ => sandbox.as_mut()?.read.push(path),
            WRITE => sandbox.as_mut()?.write.push(path),
            _ => return None,
        }
    }
}

/// Binds this process to its parent and drops rights. Fails if the parent has died before the binding took effect.
#[cfg(target_os = "linux")]
fn bind_to_parent(
    parent: i32,
    program: &OsStr,
    hidden: &[PathBuf],
    sandbox: Option<&SandboxPaths>,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
        return Err(io::Error::other("the server is gone"));
    }
    confinement::confine_process(program, hidden, sandbox)
}

/// Outside Linux, a program notices the end of the server by the end of its input.
#[cfg(not(target_os = "linux"))]
fn bind(_: i32, _: &OsStr, _: &[PathBuf], sandbox: Option<&SandboxPaths>) -> io::Result<()> {
    match sandbox {
        Some(_) => Err(io::Error::other("there is a sandbox on Linux only")),
        None => Ok(()),
    }
}
