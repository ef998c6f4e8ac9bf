//! Progress of long operations: one self-replacing line on stderr, only on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Delay before progress is shown: short operations need none.
const QUIET_FOR: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(100);

/// A progress line, cleared when it is dropped.
pub(crate) struct Progress {
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Starts a progress line; silent unless stderr is a terminal.
    pub(crate) fn start() -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + QUIET_FOR);
        Self { next, shown: false }
    }

    /// Updates the line, if the last update is long enough ago.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + EVERY);
            self.shown = true;
            replace_line(&text());
        }
    }
}

/// Awaits `work`, and shows the elapsed time meanwhile.
pub(crate) async fn during<T>(what: &str, work: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let mut progress = Progress::start();
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(EVERY, &mut work).await {
            Ok(done) => return done,
            Err(_) => progress.show(|| format!("{what}: {} s", start.elapsed().as_secs())),
        }
    }
}

impl Drop for Progress {
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
