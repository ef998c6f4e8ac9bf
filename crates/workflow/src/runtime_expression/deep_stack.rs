//! Threads with a large stack, for recursion as deep as a document or an expression nests.
//!
//! A small pool evaluates the expressions of all workflows: long evaluations queue behind each other and block no
//! request thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;

/// Stack size in bytes, with a margin above the deepest expression on the deepest value. The system commits only used
/// pages.
const THREAD_STACK_BYTES: usize = 64 << 20;

type EvaluationJob = Box<dyn FnOnce() + Send>;

/// Runs some work on a new thread while the caller blocks.
pub(crate) fn run_on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn_scoped(scope, work);
        match thread.expect("a thread can be started").join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs some work on the pool; `None` if the work panicked.
pub(crate) async fn run_on_pool<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let work: EvaluationJob = Box::new(move || {
        if !done.is_closed() {
            // Skip the work if the caller dropped its future meanwhile.
            drop(done.send(work()));
        }
    });
    static THREADS: OnceLock<Sender<EvaluationJob>> = OnceLock::new();
    THREADS.get_or_init(start_pool).send(work).ok()?;
    result.await.ok()
}

fn start_pool() -> Sender<EvaluationJob> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    let number = thread::available_parallelism().map_or(2, |cores| cores.get() / 2);
    for _ in 0..number.max(2) {
        let receiver = Arc::clone(&receiver);
        let thread =
            thread::Builder::new().name("expressions".to_owned()).stack_size(THREAD_STACK_BYTES);
        thread.spawn(move || run_worker(&receiver)).expect("a thread can be started");
    }
    sender
}

fn run_worker(work: &Mutex<Receiver<EvaluationJob>>) {
    loop {
        let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(next) = next else { return };
        next();
    }
}
