//! The queue of lines for a program's standard input: written at once if the program reads, otherwise queued up to a
//! bound.
//!
//! Sending never waits: a program that does not read must not block the server, not even its own callers.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::sync::Notify;

#[derive(Clone)]
pub struct StdinQueue {
    shared: Arc<StdinQueueShared>,
}

struct StdinQueueShared {
    state: Mutex<StdinQueueState>,
    wakeup: Notify,
    max: usize,
}

struct StdinQueueState {
    pipe: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Vec<u8>>,
    /// How much of the first line is written.
    written: usize,
    bytes: usize,
    /// Whether the input is closed once the queue is empty.
    is_last: bool,
}

/// Why a line was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinQueueError {
    /// The queue is full.
    Full,
    /// The program's input is closed.
    Closed,
}

impl StdinQueue {
    pub(super) fn new(stdin: Option<ChildStdin>, max: usize) -> io::Result<Self> {
        let stdin = stdin.ok_or_else(|| io::Error::other("the program has no input"))?;
        let pipe = Arc::new(pipe::Sender::from_owned_fd(stdin.into_owned_fd()?)?);
        let state = StdinQueueState { pipe: Some(pipe.clone()), ..StdinQueueState::closed() };
        let shared =
            Arc::new(StdinQueueShared { state: Mutex::new(state), wakeup: Notify::new(), max });
        tokio::spawn(write_loop(shared.clone(), pipe));
        Ok(Self { shared })
    }

    /// Queues a whole line, including its line feed.
    pub fn send_line(&self, line: Vec<u8>) -> Result<(), StdinQueueError> {
        let mut state = self.shared.lock_state();
        let pipe = state.pipe.as_ref().ok_or(StdinQueueError::Closed)?;
        let mut written = 0;
        if state.queue.is_empty() {
            written = match pipe.try_write(&line) {
                Ok(written) if written == line.len() => return Ok(()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => {
                    state.close();
                    return Err(StdinQueueError::Closed);
                }
            };
            state.written = written;
        } else if self.shared.max < state.bytes + line.len() {
            return Err(StdinQueueError::Full);
        }
        state.bytes += line.len() - written;
        state.queue.push_back(line);
        drop(state);
        self.shared.wakeup.notify_one();
        Ok(())
    }

    /// Closes the program's input once it has read the queue.
    pub(crate) fn close_when_drained(&self) {
        self.shared.lock_state().is_last = true;
        self.shared.wakeup.notify_one();
    }

    /// Closes the program's input now and drops the queue.
    pub(crate) fn close(&self) {
        self.shared.lock_state().close();
        self.shared.wakeup.notify_one();
    }
}

impl StdinQueueShared {
    fn lock_state(&self) -> MutexGuard<'_, StdinQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StdinQueueState {
    fn closed() -> Self {
        Self { pipe: None, queue: VecDeque::new(), written: 0, bytes: 0, is_last: false }
    }

    fn close(&mut self) {
        *self = Self::closed();
    }

    /// Writes as much as the pipe accepts. Returns whether something is left.
    fn write_pending(&mut self) -> bool {
        while let (Some(pipe), Some(line)) = (&self.pipe, self.queue.front()) {
            match pipe.try_write(line.get(self.written..).unwrap_or_default()) {
                Ok(count) => {
                    self.written += count;
                    self.bytes = self.bytes.saturating_sub(count);
                    if line.len() <= self.written {
                        self.queue.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => self.close(),
            }
        }
        if self.is_last {
            self.close();
        }
        false
    }
}

/// Writes queued lines whenever the program reads. It ends when the queue is closed, at the latest with the process.
async fn write_loop(shared: Arc<StdinQueueShared>, pipe: Arc<pipe::Sender>) {
    loop {
        let (left, open) = {
            let mut state = shared.lock_state();
            (state.write_pending(), state.pipe.is_some())
        };
        match (open, left) {
            (false, _) => return,
            (true, false) => shared.wakeup.notified().await,
            (true, true) => tokio::select! {
                _ = pipe.writable() => {}
                () = shared.wakeup.notified() => {}
            },
        }
    }
}
