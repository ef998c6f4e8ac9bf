//! Large answers on one connection are read one after another: many at once would take more memory than one server may.
//! Whoever has to wait for that waits for the same server.

use tokio::sync::SemaphorePermit;

use super::HttpLink;
use crate::aside::LONG;

pub(super) const AT_ONCE: usize = 1;

/// An answer that may turn out to be large.
pub(super) struct Large<'a> {
    link: &'a HttpLink,
    place: Option<SemaphorePermit<'a>>,
}

impl<'a> Large<'a> {
    pub(super) fn not_yet(link: &'a HttpLink) -> Self {
        Self { link, place: None }
    }

    /// So much of it is held now.
    pub(super) async fn holds(&mut self, bytes: usize) {
        if bytes <= LONG {
            self.place = None;
        } else if self.place.is_none() {
            self.place = self.link.large.acquire().await.ok();
        }
    }
}
