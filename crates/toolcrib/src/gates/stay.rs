//! The permit of a call at its source. While the call waits for people, or runs as a task of the source, it releases
//! its permit for other calls and counts as a job instead, like jobs that are polled over HTTP.

use model::Failure;

use super::jobs::Followed;
use super::{Gates, Pass, Verdict, Wish};

pub(crate) struct Stay<'a> {
    gates: &'a Gates,
    wish: Wish<'a>,
    pass: Pass,
    pub(super) aside: Option<Followed>,
}

impl<'a> Stay<'a> {
    pub(crate) fn new(gates: &'a Gates, wish: Wish<'a>, pass: Pass) -> Self {
        Self { gates, wish, pass, aside: None }
    }

    /// Releases the permit for other calls, unless too many jobs run already.
    pub(crate) fn step_aside(&mut self) -> Result<(), Failure> {
        if self.aside.is_none() {
            self.aside = Some(self.gates.follow(self.wish.source, self.wish.agent)?);
            self.pass.taken = None;
        }
        Ok(())
    }

    /// Reacquires the permit. A call that already runs cannot be rejected: if no permit is free, it continues as a job.
    pub(crate) async fn come_back(&mut self) {
        if self.aside.is_some()
            && let Ok(taken) = self.gates.take_again(self.wish).await
        {
            (self.pass.taken, self.aside) = (Some(taken), None);
        }
    }

    /// Ends the call with its verdict on the source.
    pub(crate) fn end(self, verdict: Verdict) {
        self.pass.end(verdict);
    }
}
