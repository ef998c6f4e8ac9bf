//! Large answers on one connection are read one after another: many at once would take more memory than one server may.
//! Whoever has to wait for that waits for the same server.

use tokio::sync::SemaphorePermit;

use super::HttpLink;

pub(super) const AT_ONCE: usize = 1;
const LARGE: usize = 256 * 1024;

/// An answer that may turn out to be large.
pub(super) struct Large<'a> {
    link: &'a HttpLink,
    place: Option<SemaphorePermit<'a>>,
}

impl<'a> Large<'a> {
    pub(super) fn not_yet(link: &'a HttpLink) -> Self {
        Self { link, place: None }
    }

    /// So much of it is held now. Says whether that is large.
    pub(super) async fn holds(&mut self, bytes: usize) -> bool {
        if bytes <= LARGE {
            self.place = None;
        } else if self.place.is_none() {
            self.place = self.link.large.acquire().await.ok();
        }
        LARGE < bytes
    }
}
