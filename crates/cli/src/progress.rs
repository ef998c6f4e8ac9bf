//! Progress of long operations: one self-replacing line on stderr, only on a terminal.

use std::io;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Delay before progress is shown: short operations need none.
const INITIAL_DELAY: Duration = Duration::from_secs(1);
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// A progress line, cleared when it is dropped.
pub(crate) struct ProgressLine {
    next: Option<Instant>,
    shown: bool,
}

impl ProgressLine {
    /// Starts a progress line; silent unless stderr is a terminal.
    pub(crate) fn start() -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + INITIAL_DELAY);
        Self { next, shown: false }
    }

    /// Updates the line, if the last update is long enough ago.
    pub(crate) fn update(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + UPDATE_INTERVAL);
            self.shown = true;
            replace_line(&text());
        }
    }
}

/// Awaits `work`, and shows the elapsed time meanwhile.
pub(crate) async fn show_while<T>(what: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let mut progress = ProgressLine::start();
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(UPDATE_INTERVAL, &mut work).await {
            Ok(done) => return done,
            Err(_) => progress.update(|| format!("{what}: {} s", start.elapsed().as_secs())),
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.shown {
            replace_line("");
        }
    }
}

fn replace_line(text: &str) {
    let mut stderr = io::stderr().lock();
    drop(write!(stderr, "\r{text}\x1b[K").and_then(|()| stderr.flush()));
}
