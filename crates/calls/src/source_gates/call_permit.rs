//! The permit of a call at its source. While the call waits for people, or runs as a task of the source, it releases
//! its permit for other calls and counts as a job instead, like jobs that are polled over HTTP.

use model::CallFailure;

use super::job_limit::JobPermit;
use super::{AdmissionRequest, AdmittedCall, SourceGates, SourceVerdict};

pub struct CallPermit<'a> {
    gates: &'a SourceGates,
    wish: AdmissionRequest<'a>,
    pass: AdmittedCall,
    pub(super) job: Option<JobPermit>,
}

impl<'a> CallPermit<'a> {
    pub fn new(gates: &'a SourceGates, wish: AdmissionRequest<'a>, pass: AdmittedCall) -> Self {
        Self { gates, wish, pass, job: None }
    }

    /// Releases the permit for other calls, unless too many jobs run already.
    pub(crate) fn release(&mut self) -> Result<(), CallFailure> {
        if self.job.is_none() {
            self.job = Some(self.gates.begin_job(self.wish.source, self.wish.agent)?);
            self.pass.permits = None;
        }
        Ok(())
    }

    /// Reacquires the permit. A call that already runs cannot be rejected: if no permit is free, it continues as a job.
    pub(crate) async fn reacquire(&mut self) {
        if self.job.is_some()
            && let Ok(taken) = self.gates.reacquire_permits(self.wish).await
        {
            (self.pass.permits, self.job) = (Some(taken), None);
        }
    }

    /// Ends the call with its verdict on the source.
    pub fn finish(self, verdict: SourceVerdict) {
        self.pass.finish(verdict);
    }
}
