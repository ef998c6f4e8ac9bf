//! What an upstream sends is read here if it is long, where it keeps nobody waiting.
//!
//! A few threads of low priority: whoever sends much is read when there is time, and calls go first. Threads for blocking
//! work would not do, as they are as many as are wanted and get as much of the processor as everybody else. It is for
//! what takes milliseconds: all upstreams share it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// To read more bytes than this takes long.
pub(crate) const LONG: usize = 64 * 1024;

/// How much the others go first, programs of sources too. Not all the way: one of those that spins would leave it nothing.
#[cfg(target_os = "linux")]
const NICE: i32 = 15;
/// One that is at something long does not stop all others.
const FEWEST: usize = 2;

/// What was read, perhaps in pieces: to put much of it together takes long as well.
pub(crate) enum Text<'a> {
    Short(&'a [u8]),
    Long(Pieces),
}

impl Text<'_> {
    /// Reads it, aside if it is long.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> T {
        match self {
            Self::Short(bytes) => read(bytes),
            Self::Long(pieces) if pieces.len() <= LONG => read(&pieces.into_bytes()),
            Self::Long(pieces) => aside(move || read(&pieces.into_bytes())).await,
        }
    }

    /// Whether there is nothing to be seen in it.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Short(bytes) => bytes.trim_ascii().is_empty(),
            Self::Long(Pieces { long, last, .. }) => {
                long.iter().chain([last]).all(|piece| piece.trim_ascii().is_empty())
            }
        }
    }
}

/// Bytes as they come: room for all of them in one place is taken up only if they turn out to be of use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    long: Vec<Vec<u8>>,
    last: Vec<u8>,
    length: usize,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.end_piece();
        self.length += bytes.len();
        self.last.extend_from_slice(bytes);
    }

    /// The same without a copy of what is long.
    pub(crate) fn append(&mut self, piece: Vec<u8>) {
        self.end_piece();
        self.length += piece.len();
        match self.last.is_empty() {
            true => self.last = piece,
            false => self.last.extend_from_slice(&piece),
        }
    }

    fn end_piece(&mut self) {
        if LONG <= self.last.len() {
            self.last.shrink_to_fit();
            self.long.push(std::mem::take(&mut self.last));
        }
    }

    /// The first piece, which is long if there are others, and the others.
    pub(crate) fn split_first(mut self) -> (Vec<u8>, Vec<Vec<u8>>) {
        if self.long.is_empty() {
            return (self.last, self.long);
        }
        self.long.push(self.last);
        (self.long.remove(0), self.long)
    }

    /// In one place, which takes long if they are many.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.long.is_empty() {
            return self.last;
        }
        self.long.push(self.last);
        self.long.concat()
    }
}

impl From<Pieces> for Text<'_> {
    fn from(pieces: Pieces) -> Self {
        Self::Long(pieces)
    }
}

type Work = Box<dyn FnOnce() + Send>;

static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// How much is waiting to be done aside, or being done.
pub fn aside_under_way() -> usize {
    UNDER_WAY.load(Ordering::Relaxed)
}

/// Does the work on one of the threads. What nobody waits for any more is not begun.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = oneshot::channel();
    let work: Work = Box::new(move || {
        if !done.is_closed() {
            // Whoever gives up meanwhile does not need it.
            drop(done.send(catch_unwind(AssertUnwindSafe(work))));
        }
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    });
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    static THREADS: OnceLock<Sender<Work>> = OnceLock::new();
    THREADS.get_or_init(threads).send(work).expect("the threads never end");
    match result.await.expect("work is always done") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

fn threads() -> Sender<Work> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let number = thread::available_parallelism().map_or(FEWEST, |cores| cores.get() / 2);
    for _ in 0..number.max(FEWEST) {
        let receiver = Arc::clone(&receiver);
        let thread = thread::Builder::new().name("aside".to_owned());
        thread.spawn(move || serve(&receiver)).expect("a thread can be started");
    }
    sender
}

fn serve(work: &Mutex<Receiver<Work>>) {
    // On Linux a thread has a priority of its own. Elsewhere the whole process would be slower.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else { return };
        next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_a_thread_of_low_priority() {
        let here = thread::current().id();
        let (there, nice) =
            aside(|| (thread::current().id(), rustix::process::getpriority_process(None).unwrap()))
                .await;
        assert_ne!(here, there);
        if cfg!(target_os = "linux") {
            let own = rustix::process::getpriority_process(None).unwrap();
            assert!(own < nice, "{own} {nice}");
        }
    }

    #[tokio::test]
    async fn work_that_is_given_up_stops_nothing() {
        for _ in 0..100 {
            let slow = aside(|| thread::sleep(std::time::Duration::from_millis(1)));
            drop(tokio::time::timeout(std::time::Duration::ZERO, slow).await);
        }
        assert_eq!(aside(|| 1).await, 1);
    }

    #[tokio::test]
    async fn a_panic_reaches_who_asked_and_nobody_else() {
        let asked = tokio::spawn(aside(|| assert!(std::hint::black_box(false), "it is wrong")));
        assert!(asked.await.unwrap_err().is_panic());
        for _ in 0..10 {
            assert_eq!(aside(|| 2).await, 2);
        }
    }
}
