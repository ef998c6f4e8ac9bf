//! Large answers on one connection are read one after another: many at once would take more memory than one server may.
//! Whoever has to wait for that waits for the same server. What is very large is read slowly, too: it takes up the machine
//! otherwise, and most likely it is of no use.

use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::sleep;

use super::HttpLink;
use crate::aside::LONG;

pub(super) const AT_ONCE: usize = 1;
/// Up to here as fast as it comes, then with a rest after each piece.
const FAST: usize = 1024 * 1024;
const REST: Duration = Duration::from_millis(1);

/// An answer that may turn out to be large.
pub(super) struct Large<'a> {
    link: &'a HttpLink,
    place: Option<SemaphorePermit<'a>>,
    next_rest: usize,
}

impl<'a> Large<'a> {
    pub(super) fn not_yet(link: &'a HttpLink) -> Self {
        Self { link, place: None, next_rest: FAST }
    }

    /// So much of it is held now.
    pub(super) async fn holds(&mut self, bytes: usize) {
        if bytes <= LONG {
            (self.place, self.next_rest) = (None, FAST);
        } else if self.place.is_none() {
            self.place = self.link.large.acquire().await.ok();
        }
        if self.next_rest <= bytes {
            self.next_rest = bytes + LONG;
            sleep(REST).await;
        }
    }
}
