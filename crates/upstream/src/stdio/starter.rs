//! One thread starts all programs, and lives as long as the process does.
//!
//! The system's word "when your parent dies" means the thread that started a program, not its process. Threads of a
//! runtime come and go; this one does not.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{LazyLock, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Program, bound};

struct Wish {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

static STARTER: LazyLock<Option<mpsc::Sender<Wish>>> = LazyLock::new(|| {
    let (wishes, taken) = mpsc::channel::<Wish>();
    let work = move || {
        while let Ok(Wish { mut command, runtime, reply }) = taken.recv() {
            let _inside = runtime.enter();
            // Whoever no longer waits drops the child, which kills it.
            drop(reply.send(command.spawn()));
        }
    };
    let thread = std::thread::Builder::new().name("starts-programs".to_owned()).spawn(work);
    thread.ok().map(|_| wishes)
});

pub(super) async fn start(program: &Program, file: &Path) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts programs is gone");
    let wishes = STARTER.as_ref().ok_or_else(gone)?;
    let (reply, child) = oneshot::channel();
    let wish = Wish { command: command(program, file), runtime: Handle::current(), reply };
    wishes.send(wish).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn command(program: &Program, file: &Path) -> Command {
    let mut command = match &program.bound_by {
        Some(binder) => {
            let mut command = Command::new(binder);
            command.arg(bound::ASKED).arg(std::process::id().to_string()).arg(file);
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
