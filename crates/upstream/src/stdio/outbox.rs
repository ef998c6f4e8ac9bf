//! What is said to a program. It is written at once if the program reads; otherwise it waits, up to a bound.
//!
//! Whoever writes never waits: one program that does not read must not hold up anybody, not even its own callers.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::unix::pipe;
use tokio::process::ChildStdin;
use tokio::sync::Notify;

#[derive(Clone)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    more: Notify,
    max: usize,
}

struct State {
    pipe: Option<Arc<pipe::Sender>>,
    queue: VecDeque<Vec<u8>>,
    /// How much of the first one is written.
    written: usize,
    bytes: usize,
    /// Whether nothing follows what waits.
    is_last: bool,
}

/// Why something was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// Too much waits already.
    Full,
    /// The program does not take anything any more.
    Closed,
}

impl Outbox {
    pub(super) fn new(stdin: Option<ChildStdin>, max: usize) -> io::Result<Self> {
        let stdin = stdin.ok_or_else(|| io::Error::other("the program has no input"))?;
        let pipe = Arc::new(pipe::Sender::from_owned_fd(stdin.into_owned_fd()?)?);
        let state = State { pipe: Some(pipe.clone()), ..State::closed() };
        let shared = Arc::new(Shared { state: Mutex::new(state), more: Notify::new(), max });
        tokio::spawn(write(shared.clone(), pipe));
        Ok(Self { shared })
    }

    /// Takes a whole line, with its end.
    pub(crate) fn send(&self, line: Vec<u8>) -> Result<(), NotTaken> {
        let mut state = self.shared.state();
        let pipe = state.pipe.as_ref().ok_or(NotTaken::Closed)?;
        let mut written = 0;
        if state.queue.is_empty() {
            written = match pipe.try_write(&line) {
                Ok(written) if written == line.len() => return Ok(()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => {
                    state.close();
                    return Err(NotTaken::Closed);
                }
            };
            state.written = written;
        } else if self.shared.max < state.bytes + line.len() {
            return Err(NotTaken::Full);
        }
        state.bytes += line.len() - written;
        state.queue.push_back(line);
        drop(state);
        self.shared.more.notify_one();
        Ok(())
    }

    /// The program sees the end of its input when it has read what waits.
    pub(crate) fn finish(&self) {
        self.shared.state().is_last = true;
        self.shared.more.notify_one();
    }

    /// The program sees the end of its input.
    pub(crate) fn close(&self) {
        self.shared.state().close();
        self.shared.more.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn closed() -> Self {
        Self { pipe: None, queue: VecDeque::new(), written: 0, bytes: 0, is_last: false }
    }

    fn close(&mut self) {
        *self = Self::closed();
    }

    /// Writes what it can. Says whether something is left.
    fn write(&mut self) -> bool {
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

/// Writes what waits, whenever the program reads. It ends when the outbox is closed, which its keeper sees to.
async fn write(shared: Arc<Shared>, pipe: Arc<pipe::Sender>) {
    loop {
        let (left, open) = {
            let mut state = shared.state();
            (state.write(), state.pipe.is_some())
        };
        match (open, left) {
            (false, _) => return,
            (true, false) => shared.more.notified().await,
            (true, true) => tokio::select! {
                _ = pipe.writable() => {}
                () = shared.more.notified() => {}
            },
        }
    }
}
