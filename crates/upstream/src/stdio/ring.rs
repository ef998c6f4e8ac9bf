//! What a program says on its standard error: always read, so that it never blocks, and the end of it kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::watch;

/// The newest bytes, up to a bound, and how many lines there were.
#[derive(Debug)]
pub(crate) struct Ring {
    kept: Mutex<Kept>,
    max: usize,
    is_whole: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    lines: u64,
}

impl Ring {
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Mutex::default(), max, is_whole: watch::Sender::new(false) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let newest = bytes.get(bytes.len().saturating_sub(self.max)..).unwrap_or_default();
        let over = (kept.bytes.len() + newest.len()).saturating_sub(self.max);
        kept.bytes.drain(..over);
        kept.bytes.extend(newest);
    }

    /// For a program that is started again.
    pub(super) fn begin(&self) {
        *self.kept() = Kept::default();
        self.is_whole.send_replace(false);
    }

    /// What is kept. What is no text is replaced, and so are control characters: it is shown in terminals.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept();
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        drop(kept);
        let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
        String::from_utf8_lossy(&bytes).chars().map(shown).collect()
    }

    /// The last lines of it.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.lines().collect();
        all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
    }

    /// Waits until all of it is read.
    pub(crate) async fn whole(&self) {
        // It cannot fail: we hold the other end ourselves.
        drop(self.is_whole.subscribe().wait_for(|is_whole| *is_whole).await);
    }

    /// How many lines there were, also those that are gone.
    pub(crate) fn lines(&self) -> u64 {
        self.kept().lines
    }
}

/// Reads until the end, in a task that nobody waits for.
pub(super) fn drain(stderr: Option<ChildStderr>, ring: Arc<Ring>) {
    let Some(mut stderr) = stderr else { return };
    tokio::spawn(async move {
        let mut buffer = [0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            ring.push(buffer.get(..count).unwrap_or_default());
        }
        ring.is_whole.send_replace(true);
    });
}
