//! A program bound to the life of the server that started it, and to what it may do.
//!
//! The system kills a process together with its parent if the process itself asked for that, and only a process itself
//! can give up rights. A foreign program does neither, and doing it between fork and exec takes unsafe code. So the
//! server's own program is started first: it does both, and then becomes the other program, for which they hold.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use super::profile;
use super::{Program, Sandbox, guard};
#[cfg(target_os = "linux")]
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The first argument of a program that is to become another one.
const ASKED: &str = "--become-a-bound-child";
const HIDE: &str = "--hide";
const SANDBOX: &str = "--sandbox";
const READ: &str = "--read";
const WRITE: &str = "--write";
const PROGRAM: &str = "--";

/// The exit code of shells for what cannot be run.
const CANNOT_RUN: u8 = 126;

/// What to become, as arguments of our own program. The program's own arguments follow.
pub(super) fn arguments(program: &Program, file: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![ASKED.into(), std::process::id().to_string().into()];
    let mut add = |option: &str, paths: &[PathBuf]| {
        words.extend(paths.iter().flat_map(|path| [option.into(), path.into()]));
    };
    add(HIDE, &program.hidden);
    if let Some(sandbox) = &program.sandbox {
        // It may be empty, and is one all the same.
        add(SANDBOX, &[PathBuf::new()]);
        add(READ, &sandbox.read);
        add(WRITE, &sandbox.write);
    }
    words.extend([PROGRAM.into(), file.into()]);
    words
}

/// Becomes another program, or what guards programs, if the arguments of this process say so. Call it before anything else in `main`, and end with
/// what it returns.
pub fn run_if_asked() -> Option<ExitCode> {
    run_in_this_process(std::env::args_os())
}

/// The same for arguments that are handed in.
pub fn run_in_this_process(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    let asked = arguments.next()?;
    if asked == guard::ASKED {
        guard::watch(std::io::stdin().lock());
        return Some(ExitCode::SUCCESS);
    }
    if asked != ASKED {
        return None;
    }
    let parent = arguments.next()?.into_string().ok()?.parse().ok()?;
    let (hidden, sandbox) = options(&mut arguments)?;
    let program = arguments.next()?;
    // Nobody but whoever started us reads it, as the end of the program's standard error.
    if let Err(error) = bind(parent, &program, &hidden, sandbox.as_ref()) {
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

/// Reads up to the program.
fn options(words: &mut impl Iterator<Item = OsString>) -> Option<(Vec<PathBuf>, Option<Sandbox>)> {
    let (mut hidden, mut sandbox) = (Vec::new(), None::<Sandbox>);
    loop {
        let word = words.next()?;
        if word == PROGRAM {
            return Some((hidden, sandbox));
        }
        let path = PathBuf::from(words.next()?);
        match word.to_str()? {
            HIDE => hidden.push(path),
            SANDBOX => sandbox = Some(Sandbox::default()),
            READ => sandbox.as_mut()?.read.push(path),
            WRITE => sandbox.as_mut()?.write.push(path),
            _ => return None,
        }
    }
}

/// The parent may have died before we asked.
#[cfg(target_os = "linux")]
fn bind(
    parent: i32,
    program: &OsStr,
    hidden: &[PathBuf],
    sandbox: Option<&Sandbox>,
) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|now| now.as_raw_nonzero().get() != parent) {
        return Err(io::Error::other("the server is gone"));
    }
    profile::take(program, hidden, sandbox)
}

/// Elsewhere a program notices by the end of its input that the server is gone.
#[cfg(not(target_os = "linux"))]
fn bind(_: i32, _: &OsStr, _: &[PathBuf], sandbox: Option<&Sandbox>) -> io::Result<()> {
    match sandbox {
        Some(_) => Err(io::Error::other("there is a sandbox on Linux only")),
        None => Ok(()),
    }
}
