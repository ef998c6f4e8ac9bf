//! A program bound to the life of the server that started it.
//!
//! The system kills a process together with its parent if the process itself asked for that. A foreign program does not
//! ask, and asking for it between fork and exec takes unsafe code. So the server's own program is started first: it asks,
//! and then becomes the other program, which the wish survives.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use super::guard;
#[cfg(target_os = "linux")]
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The first argument of a program that is to become another one.
pub(super) const ASKED: &str = "--become-a-bound-child";

/// The exit code of shells for what cannot be run.
const CANNOT_RUN: u8 = 126;

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
    let program = arguments.next()?;
    if !bind(parent) {
        return Some(ExitCode::from(CANNOT_RUN));
    }
    #[expect(clippy::disallowed_methods, reason = "this is where programs are started")]
    let _error = std::process::Command::new(program).args(arguments).exec();
    Some(ExitCode::from(CANNOT_RUN))
}

/// Whether the parent is still the one that started us: it may have died before we asked.
#[cfg(target_os = "linux")]
fn bind(parent: i32) -> bool {
    let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    bound && getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent)
}

/// Elsewhere a program notices by the end of its input.
#[cfg(not(target_os = "linux"))]
fn bind(_parent: i32) -> bool {
    true
}
