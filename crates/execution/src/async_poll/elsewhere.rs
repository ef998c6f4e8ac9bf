//! A look that is sent on: to the result, once the work is done, or to where its status is told at the moment.

use url::Url;

use super::Reply;
use crate::template::within_origin;

/// How often one look is sent on.
const MOST: u32 = 3;

/// Where a look was sent on to.
pub(super) struct Elsewhere {
    pub(super) url: Url,
    /// Whether something else than the status is there, which an API sends nobody to before the work is done.
    pub(super) is_result: bool,
    times: u32,
}

impl Elsewhere {
    /// Where an answer sends a look on to that was `before` sent to where it came from; none if it is not followed.
    pub(super) fn after(reply: &Reply, before: Option<&Self>) -> Option<Self> {
        let is_result = match reply.outcome.upstream_status? {
            302 | 303 => true,
            // The same thing is there.
            301 | 307 | 308 => before.is_some_and(|it| it.is_result),
            _ => return None,
        };
        let times = before.map_or(0, |it| it.times) + 1;
        let url = within_origin(reply.url.as_ref()?, reply.location()?).ok()?;
        (times <= MOST).then_some(Self { url, is_result, times })
    }
}
