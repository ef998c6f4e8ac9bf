//! A deadline for what is mostly there at once: no clock is asked unless it has to be waited for.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::time::error::Elapsed;

pub(crate) async fn in_time<F: Future>(within: Duration, work: F) -> Result<F::Output, Elapsed> {
    let mut work = std::pin::pin!(work);
    // Whatever it waits for wakes this same task.
    match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => tokio::time::timeout(within, work).await,
    }
}
