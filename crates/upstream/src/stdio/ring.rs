//! A ring buffer for a program's standard error: always read, so that the program never blocks; only the end is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::watch;

/// The newest bytes, up to a bound, and the number of lines.
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

    /// Clears the buffer for a program that is started again.
    pub(super) fn begin(&self) {
        *self.kept() = Kept::default();
        self.is_whole.send_replace(false);
    }

    /// The kept text. Invalid UTF-8 and control characters are replaced, because the text is shown in terminals.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept();
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        drop(kept);
        let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
        String::from_utf8_lossy(&bytes).chars().map(shown).collect()
    }

    /// The last lines of the text.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let text = self.text();
        let all: Vec<&str> = text.lines().collect();
        all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
    }

    /// Waits until standard error is read to its end.
    pub(crate) async fn whole(&self) {
        // Waiting cannot fail: `self` owns the sender.
        drop(self.is_whole.subscribe().wait_for(|is_whole| *is_whole).await);
    }

    /// The number of lines, including those no longer kept.
    pub(crate) fn lines(&self) -> u64 {
        self.kept().lines
    }
}

/// Reads standard error to its end in a background task.
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
