//! Admission of a call: only after its whole body has arrived, so that a slow sender occupies no slot.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use axum::BoxError;
use axum::body::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{CallSlot, LoadShedder};

/// The admission of one call. It holds the call's slot while it lives, and `None` if the call was rejected.
#[derive(Clone, Default)]
pub struct CallAdmission(Arc<OnceLock<Option<CallSlot>>>);

/// The body of a call, whose end is withheld until the call is admitted.
struct AdmissionBody<B> {
    body: B,
    pressure: Arc<LoadShedder>,
    admission: CallAdmission,
    pending: Option<PendingAdmission>,
}

type PendingAdmission = Pin<Box<dyn Future<Output = Option<CallSlot>> + Send>>;

impl CallAdmission {
    pub fn is_refused(&self) -> bool {
        matches!(self.0.get(), Some(None))
    }

    /// Waits for the admission; false if the call is rejected.
    pub async fn wait_for_admission(&self, pressure: &Arc<LoadShedder>) -> bool {
        self.0.set(Arc::clone(pressure).admit().await).ok();
        !self.is_refused()
    }

    /// Wraps a body: a reader that reaches its end waits for the admission there.
    pub fn withhold_body_end<B>(
        &self,
        body: B,
        pressure: Arc<LoadShedder>,
    ) -> impl Body<Data = Bytes, Error = BoxError> + Send + 'static
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        AdmissionBody { body, pressure, admission: self.clone(), pending: None }
    }
}

impl<B> AdmissionBody<B> {
    /// Ready with true if the call is admitted, and with false if it is rejected.
    fn poll_admission(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        if self.admission.0.get().is_none() {
            let enter = || Box::pin(Arc::clone(&self.pressure).admit()) as PendingAdmission;
            let place = ready!(self.pending.get_or_insert_with(enter).as_mut().poll(context));
            self.admission.0.set(place).ok();
        }
        Poll::Ready(!self.admission.is_refused())
    }
}

impl<B> Body for AdmissionBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.pending.is_none()
            && let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context))
        {
            return Poll::Ready(Some(frame.map_err(Into::into)));
        }
        let refused = || Err("it was not its turn in time".into());
        self.poll_admission(context).map(|is_in| (!is_in).then(refused))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http_body_util::{BodyExt as _, Full, StreamBody};

    use super::super::MAX_WAITING_CALLS;
    use super::*;

    const SOME: usize = 64;

    fn crowded() -> (Arc<LoadShedder>, Vec<Option<CallSlot>>) {
        let pressure = Arc::new(LoadShedder::default());
        pressure.set_slot_target(SOME);
        let under_way = (0..SOME).map(|_| pressure.try_admit()).collect();
        (pressure, under_way)
    }

    #[tokio::test]
    async fn a_slowly_sent_body_takes_no_slot() {
        let pressure = Arc::new(LoadShedder::default());
        let (drip, drips) = tokio::sync::mpsc::unbounded_channel();
        let frames = futures_util::stream::unfold(drips, |mut drips| async {
            let bytes: Bytes = drips.recv().await?;
            Some((Ok::<_, BoxError>(Frame::data(bytes)), drips))
        });
        let turn = CallAdmission::default();
        let body = turn.withhold_body_end(Box::pin(StreamBody::new(frames)), Arc::clone(&pressure));
        let mut read = Box::pin(body.collect());
        drip.send(Bytes::from_static(b"a")).unwrap();
        assert!(read.as_mut().now_or_never().is_none());
        assert_eq!(pressure.calls_in_progress(), 0);
        drip.send(Bytes::from_static(b"b")).unwrap();
        drop(drip);
        let body = read.now_or_never().expect("all of it is there").unwrap();
        assert_eq!(body.to_bytes(), "ab");
        assert_eq!(pressure.calls_in_progress(), 1);
        drop(turn);
        assert_eq!(pressure.calls_in_progress(), 0);
    }

    #[tokio::test]
    async fn the_end_of_a_body_waits_for_a_slot() {
        let (pressure, mut under_way) = crowded();
        let turn = CallAdmission::default();
        let body = turn.withhold_body_end(Full::new(Bytes::from_static(b"a")), pressure);
        let mut read = Box::pin(body.collect());
        assert!(read.as_mut().now_or_never().is_none());
        under_way.pop();
        assert_eq!(read.now_or_never().unwrap().unwrap().to_bytes(), "a");
        assert!(!turn.is_refused());
    }

    #[tokio::test]
    async fn the_body_of_a_rejected_call_ends_with_an_error() {
        let (pressure, _under_way) = crowded();
        pressure.waiting.store(MAX_WAITING_CALLS, super::super::Relaxed);
        let turn = CallAdmission::default();
        let body = turn.withhold_body_end(Full::new(Bytes::from_static(b"a")), pressure);
        assert!(body.collect().now_or_never().unwrap().is_err());
        assert!(turn.is_refused());
    }
}
