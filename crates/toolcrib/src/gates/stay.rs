//! The stay of a call at its source. While it waits for people, or goes on as a task of the source, its place is for
//! others: it is counted as a job, like those that are followed over HTTP.

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

    /// Makes room for others, if there are not too many jobs already.
    pub(crate) fn step_aside(&mut self) -> Result<(), Failure> {
        if self.aside.is_none() {
            self.aside = Some(self.gates.follow(self.wish.source, self.wish.agent)?);
            self.pass.taken = None;
        }
        Ok(())
    }

    /// Takes a place again. It has begun and cannot be refused: where there is none, it goes on as a job.
    pub(crate) async fn come_back(&mut self) {
        if self.aside.is_some()
            && let Ok(taken) = self.gates.take_again(self.wish).await
        {
            (self.pass.taken, self.aside) = (Some(taken), None);
        }
    }

    /// What the call says about its source.
    pub(crate) fn end(self, verdict: Verdict) {
        self.pass.end(verdict);
    }
}
