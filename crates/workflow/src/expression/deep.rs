//! Threads with a deep stack, for what goes as deep as a document or an expression says.
//!
//! A few of them evaluate for all workflows: what takes long waits for others that do, and keeps nobody else waiting.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// What the deepest expression takes on the deepest value, and more. Memory is taken only for what is used of it.
const STACK: usize = 64 << 20;

type Work = Box<dyn FnOnce() + Send>;

/// Does some work at once, while the caller waits.
pub(crate) fn now<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        match thread.expect("a thread can be started").join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Does some work when there is a thread for it. None if it panicked.
pub(crate) async fn soon<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let work: Work = Box::new(move || {
        if !done.is_closed() {
            // Whoever gave up meanwhile does not need it.
            drop(done.send(work()));
        }
    });
    static THREADS: OnceLock<Sender<Work>> = OnceLock::new();
    THREADS.get_or_init(threads).send(work).ok()?;
    result.await.ok()
}

fn threads() -> Sender<Work> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let number = thread::available_parallelism().map_or(2, |cores| cores.get() / 2);
    for _ in 0..number.max(2) {
        let receiver = Arc::clone(&receiver);
        let thread = thread::Builder::new().name("expressions".to_owned()).stack_size(STACK);
        thread.spawn(move || serve(&receiver)).expect("a thread can be started");
    }
    sender
}

fn serve(work: &Mutex<Receiver<Work>>) {
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else { return };
        next();
    }
}
