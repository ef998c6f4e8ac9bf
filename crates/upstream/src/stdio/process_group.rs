//! Ends a program and everything it started that is still in its process group.
//!
//! First the input is closed, as MCP requires; then the group gets `SIGTERM`, then `SIGKILL`. The exit status is
//! collected at once, so that no zombie is left, and published at once, so that no call waits for a dead program.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::Child;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::stdin_queue::StdinQueue;
use super::{ProgramExit, process_starter};

/// How often to check whether a group has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Stops the program when it is dropped.
pub(super) struct ProcessStopper {
    stop: Arc<Notify>,
}

/// A process group, killed when this is dropped, as when the runtime shuts down.
struct ProcessGroup(Option<Pid>);

pub(super) fn supervise_child(
    child: Child,
    outbox: StdinQueue,
    grace: Duration,
) -> io::Result<(ProcessStopper, watch::Receiver<Option<ProgramExit>>)> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the program has ended already"))?;
    let (ended, watched) = watch::channel(None);
    let stop = Arc::new(Notify::new());
    tokio::spawn(run_supervision(
        child,
        ProcessGroup(Some(pid)),
        outbox,
        grace,
        stop.clone(),
        ended,
    ));
    Ok((ProcessStopper { stop }, watched))
}

async fn run_supervision(
    mut child: Child,
    mut group: ProcessGroup,
    outbox: StdinQueue,
    grace: Duration,
    stop: Arc<Notify>,
    ended: watch::Sender<Option<ProgramExit>>,
) {
    let tell = |status: io::Result<std::process::ExitStatus>| {
        let is_success = status.as_ref().is_ok_and(|status| status.success());
        let how = status.map_or_else(|_| "unknown".to_owned(), |status| status.to_string());
        ended.send_replace(Some(ProgramExit { status: how, is_success, at: Instant::now() }));
    };
    tokio::select! {
        status = child.wait() => tell(status),
        () = stop.notified() => {
            outbox.close();
            if let Ok(status) = timeout(grace / 4, child.wait()).await {
                tell(status);
            } else {
                group.send_signal(Signal::TERM);
                if let Ok(status) = timeout(grace, child.wait()).await {
                    tell(status);
                } else {
                    group.send_signal(Signal::KILL);
                    tell(child.wait().await);
                }
            }
        }
    }
    outbox.close();
    group.end_group(grace).await;
}

impl ProcessGroup {
    fn send_signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // It fails if the group has no processes left, which is the goal.
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }

    fn is_alive(&self) -> bool {
        self.0.is_some_and(|pid| test_kill_process_group(pid).is_ok())
    }

    /// Ends the rest of the group after its leader has exited.
    async fn end_group(&mut self, grace: Duration) {
        if self.is_alive() {
            self.send_signal(Signal::TERM);
            let gone = async {
                while self.is_alive() {
                    sleep(POLL_INTERVAL).await;
                }
            };
            if timeout(grace, gone).await.is_err() {
                self.send_signal(Signal::KILL);
            }
        }
        if let Some(pid) = self.0.take() {
            process_starter::report_group_ended(pid.as_raw_nonzero().get().unsigned_abs());
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.send_signal(Signal::KILL);
    }
}

impl ProcessStopper {
    pub(super) fn request_stop(&self) {
        self.stop.notify_one();
    }
}

impl Drop for ProcessStopper {
    fn drop(&mut self) {
        self.request_stop();
    }
}
