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

use super::guard::Guard;
use super::{Program, bound};

enum Wish {
    Start(Start),
    /// All processes of a group have ended.
    Ended(u32),
}

struct Start {
    command: Command,
    bound_by: Option<PathBuf>,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

static STARTER: LazyLock<Option<mpsc::Sender<Wish>>> = LazyLock::new(|| {
    let (wishes, taken) = mpsc::channel();
    let work = move || {
        let mut guard = Guard::default();
        while let Ok(wish) = taken.recv() {
            match wish {
                Wish::Start(start) => start.run(&mut guard),
                Wish::Ended(group) => guard.remove(group),
            }
        }
    };
    let thread = std::thread::Builder::new().name("starts-programs".to_owned()).spawn(work);
    thread.ok().map(|_| wishes)
});

impl Start {
    fn run(mut self, guard: &mut Guard) {
        let _inside = self.runtime.enter();
        let child = self.command.spawn();
        let group = child.as_ref().ok().and_then(Child::id);
        if let (Some(program), Some(group)) = (&self.bound_by, group) {
            guard.add(program, group);
        }
        // If the caller has stopped waiting, the send fails and drops the child, which kills it.
        if let (Err(_), Some(group)) = (self.reply.send(child), group) {
            guard.remove(group);
        }
    }
}

/// Reports that all processes of a group have ended, so that the guard forgets it.
pub(super) fn ended(group: u32) {
    if let Some(wishes) = STARTER.as_ref() {
        // The send cannot fail: the thread lives as long as the process.
        wishes.send(Wish::Ended(group)).unwrap_or_default();
    }
}

pub(super) async fn start(program: &Program, file: &Path) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts programs is gone");
    let wishes = STARTER.as_ref().ok_or_else(gone)?;
    if program.sandbox.is_some() && program.bound_by.is_none() {
        let why = "there is nothing here that could put it into its sandbox";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let (reply, child) = oneshot::channel();
    let (command, bound_by) = (command(program, file), program.bound_by.clone());
    let start = Start { command, bound_by, runtime: Handle::current(), reply };
    wishes.send(Wish::Start(start)).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn command(program: &Program, file: &Path) -> Command {
    let mut command = match &program.bound_by {
        Some(binder) => {
            let mut command = Command::new(binder);
            command.args(bound::arguments(program, file));
            command
        }
        None => Command::new(file),
    };
    command
        .args(&program.arguments)
        .env_clear()
        .envs(&program.environment)
        .current_dir(program.folder.clone().unwrap_or_else(|| PathBuf::from("/")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}
