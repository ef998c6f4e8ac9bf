//! A ring buffer for a program's standard error: always read, so that the program never blocks; only the end is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::watch;

/// The newest bytes, up to a bound, and the number of lines.
#[derive(Debug)]
pub struct StderrRing {
    contents: Mutex<RingContents>,
    max: usize,
    is_complete: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct RingContents {
    bytes: VecDeque<u8>,
    lines: u64,
}

impl StderrRing {
    pub(super) fn new(max: usize) -> Self {
        Self { contents: Mutex::default(), max, is_complete: watch::Sender::new(false) }
    }

    fn lock_contents(&self) -> MutexGuard<'_, RingContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.lock_contents();
        kept.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let newest = bytes.get(bytes.len().saturating_sub(self.max)..).unwrap_or_default();
        let over = (kept.bytes.len() + newest.len()).saturating_sub(self.max);
        kept.bytes.drain(..over);
        kept.bytes.extend(newest);
    }

    /// Clears the buffer for a program that is started again.
    pub(super) fn clear_contents(&self) {
        *self.lock_contents() = RingContents::default();
        self.is_complete.send_replace(false);
    }

    /// The kept text. Invalid UTF-8 and control characters are replaced, because the text is shown in terminals.
    pub fn printable_text(&self) -> String {
        let kept = self.lock_contents();
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        drop(kept);
        let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
        String::from_utf8_lossy(&bytes).chars().map(shown).collect()
    }

    /// The last lines of the text.
    pub fn last_lines(&self, lines: usize) -> String {
        let text = self.printable_text();
        let all: Vec<&str> = text.lines().collect();
        all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
    }

    /// Waits until standard error is read to its end.
    pub async fn wait_until_complete(&self) {
        // Waiting cannot fail: `self` owns the sender.
        drop(self.is_complete.subscribe().wait_for(|is_whole| *is_whole).await);
    }

    /// The number of lines, including those no longer kept.
    pub fn line_count(&self) -> u64 {
        self.lock_contents().lines
    }
}

/// Reads standard error to its end in a background task.
pub(super) fn drain_stderr(stderr: Option<ChildStderr>, ring: Arc<StderrRing>) {
    let Some(mut stderr) = stderr else { return };
    tokio::spawn(async move {
        let mut buffer = [0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            ring.push(buffer.get(..count).unwrap_or_default());
        }
        ring.is_complete.send_replace(true);
    });
}
