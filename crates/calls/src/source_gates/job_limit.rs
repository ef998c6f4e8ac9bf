//! Limits on concurrent jobs: a job mostly waits and sends little, but stays in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use model::SourceId;

/// The most jobs of one source, and of one agent.
const MAX_JOBS_PER_SOURCE: u32 = 1_000;
const MAX_JOBS_PER_AGENT: u32 = 100;

#[derive(Default)]
pub(super) struct JobCounts(Mutex<HashMap<JobOwner, u32>>);

#[derive(Clone, PartialEq, Eq, Hash)]
enum JobOwner {
    Source(SourceId),
    Agent(u64),
}

/// A job that counts against both limits until it is dropped.
pub struct JobPermit {
    jobs: Arc<JobCounts>,
    owners: [JobOwner; 2],
}

impl JobCounts {
    fn lock_counts(&self) -> MutexGuard<'_, HashMap<JobOwner, u32>> {
        self.0.lock().expect("no one panics while counting")
    }

    /// Counts a job, or returns which of the two limits is reached.
    pub(super) fn begin_job(
        self: &Arc<Self>,
        source: &SourceId,
        agent: u64,
    ) -> Result<JobPermit, &'static str> {
        let whose = [JobOwner::Source(source.clone()), JobOwner::Agent(agent)];
        let mut all = self.lock_counts();
        let [of_source, of_agent] = whose.each_ref().map(|one| all.get(one).copied().unwrap_or(0));
        if MAX_JOBS_PER_AGENT <= of_agent {
            return Err("agent");
        }
        if MAX_JOBS_PER_SOURCE <= of_source {
            return Err("source");
        }
        for one in &whose {
            *all.entry(one.clone()).or_default() += 1;
        }
        drop(all);
        Ok(JobPermit { jobs: Arc::clone(self), owners: whose })
    }
}

impl Drop for JobPermit {
    fn drop(&mut self) {
        let mut all = self.jobs.lock_counts();
        for one in &self.owners {
            match all.get_mut(one) {
                Some(count) if 1 < *count => *count -= 1,
                _ => drop(all.remove(one)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_limited_by_agent_and_by_source_and_finished_ones_free_their_slot() {
        let jobs = Arc::new(JobCounts::default());
        let source = |name: &str| name.parse::<SourceId>().unwrap();
        let begin = |name: &str, agent| jobs.begin_job(&source(name), agent);
        let mut own: Vec<_> =
            (0..MAX_JOBS_PER_AGENT).map(|_| begin("a", 1).ok().unwrap()).collect();
        assert_eq!(begin("a", 1).err(), Some("agent"));
        assert_eq!(begin("b", 1).err(), Some("agent"));
        let others = (MAX_JOBS_PER_AGENT..MAX_JOBS_PER_SOURCE)
            .map(|agent| begin("a", agent.into()).ok().unwrap());
        let others: Vec<_> = others.collect();
        assert_eq!(begin("a", 7).err(), Some("source"));
        assert!(begin("b", 7).is_ok());
        drop(own.pop());
        assert!(begin("a", 1).is_ok());
        drop((own, others));
        assert!(jobs.lock_counts().is_empty(), "nothing is left of them");
    }
}
