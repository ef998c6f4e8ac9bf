//! A timeout for work that is mostly ready at once: it reads the clock only if the work has to wait.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::time::error::Elapsed;

pub async fn with_lazy_timeout<F: Future>(within: Duration, work: F) -> Result<F::Output, Elapsed> {
    let mut work = std::pin::pin!(work);
    // This first poll registers the same task's waker, so polling again inside `timeout` is sound.
    match poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => tokio::time::timeout(within, work).await,
    }
}
