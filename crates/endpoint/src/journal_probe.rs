//! Probes whether the journal can be written; the result is reused for a moment.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use toolcrib::Toolcrib;

/// How long a probe result is reused, so that frequent health checks do not load the journal.
const PROBE_RESULT_TTL: Duration = Duration::from_secs(1);

/// Timeout of the write probe, an empty append to the journal.
const JOURNAL_PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of the last write probe of the journal, and its time.
#[derive(Default)]
pub struct JournalProbe(Mutex<Option<(Instant, bool)>>);

impl JournalProbe {
    pub async fn is_journal_writable(&self, crib: &Toolcrib) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, is_written)) = *known
            && at.elapsed() < PROBE_RESULT_TTL
        {
            return is_written;
        }
        let written = tokio::time::timeout(JOURNAL_PROBE_TIMEOUT, crib.catalog().check_writable());
        let is_written = matches!(written.await, Ok(Ok(())));
        *known = Some((Instant::now(), is_written));
        is_written
    }
}
