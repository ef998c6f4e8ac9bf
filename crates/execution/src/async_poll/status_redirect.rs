//! Redirects of a status request: to the result of a finished job, or to the current location of the status.

use url::Url;

use super::UpstreamReply;
use crate::template::resolve_within_origin;

/// The maximum number of redirects of one poll.
const MAX_REDIRECTS: u32 = 3;

/// The target of a redirected status request.
pub(super) struct StatusRedirect {
    pub(super) url: Url,
    /// Whether the target is the result; an API redirects there only after the job has finished.
    pub(super) is_result: bool,
    times: u32,
}

impl StatusRedirect {
    /// The redirect target for the next status request, if the redirect is followed; `before` is the previous redirect.
    pub(super) fn from_reply(reply: &UpstreamReply, before: Option<&Self>) -> Option<Self> {
        let is_result = match reply.outcome.upstream_status? {
            302 | 303 => true,
            // These statuses redirect to the same resource.
            301 | 307 | 308 => before.is_some_and(|it| it.is_result),
            _ => return None,
        };
        let times = before.map_or(0, |it| it.times) + 1;
        let url = resolve_within_origin(reply.url.as_ref()?, reply.location()?).ok()?;
        (times <= MAX_REDIRECTS).then_some(Self { url, is_result, times })
    }
}
