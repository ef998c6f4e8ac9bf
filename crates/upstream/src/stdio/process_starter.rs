//! One thread that starts all programs and lives as long as the process.
//!
//! The kernel's parent-death signal refers to the thread that started a program, not to its process. Runtime threads
//! come and go; this one stays.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{LazyLock, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::group_guard::GroupGuard;
use super::{ProgramSpec, bound_child};

enum StarterCommand {
    Start(StartRequest),
    /// All processes of a group have ended.
    GroupEnded(u32),
}

struct StartRequest {
    command: Command,
    binder: Option<PathBuf>,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

static STARTER: LazyLock<Option<mpsc::Sender<StarterCommand>>> = LazyLock::new(|| {
    let (wishes, taken) = mpsc::channel();
    let work = move || {
        let mut guard = GroupGuard::default();
        while let Ok(wish) = taken.recv() {
            match wish {
                StarterCommand::Start(start) => start.spawn_child(&mut guard),
                StarterCommand::GroupEnded(group) => guard.remove_group(group),
            }
        }
    };
    let thread = std::thread::Builder::new().name("starts-programs".to_owned()).spawn(work);
    thread.ok().map(|_| wishes)
});

impl StartRequest {
    fn spawn_child(mut self, guard: &mut GroupGuard) {
        let _inside = self.runtime.enter();
        let child = self.command.spawn();
        let group = child.as_ref().ok().and_then(Child::id);
        if let (Some(program), Some(group)) = (&self.binder, group) {
            guard.add_group(program, group);
        }
        // If the caller has stopped waiting, the send fails and drops the child, which kills it.
        if let (Err(_), Some(group)) = (self.reply.send(child), group) {
            guard.remove_group(group);
        }
    }
}

/// Reports that all processes of a group have ended, so that the guard forgets it.
pub(super) fn report_group_ended(group: u32) {
    if let Some(wishes) = STARTER.as_ref() {
        // The send cannot fail: the thread lives as long as the process.
        wishes.send(StarterCommand::GroupEnded(group)).unwrap_or_default();
    }
}

pub(super) async fn start_program(program: &ProgramSpec, file: &Path) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts programs is gone");
    let wishes = STARTER.as_ref().ok_or_else(gone)?;
    if program.sandbox.is_some() && program.binder.is_none() {
        let why = "there is nothing here that could put it into its sandbox";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let (reply, child) = oneshot::channel();
    let (command, bound_by) = (build_command(program, file), program.binder.clone());
    let start = StartRequest { command, binder: bound_by, runtime: Handle::current(), reply };
    wishes.send(StarterCommand::Start(start)).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn build_command(program: &ProgramSpec, file: &Path) -> Command {
    let mut command = match &program.binder {
        Some(binder) => {
            let mut command = Command::new(binder);
            command.args(bound_child::binder_arguments(program, file));
            command
        }
        None => Command::new(file),
    };
    command
        .args(&program.arguments)
        .env_clear()
        .envs(&program.environment)
        .current_dir(program.working_directory.clone().unwrap_or_else(|| PathBuf::from("/")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}
