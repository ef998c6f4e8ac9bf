//! Limits on concurrent jobs: a job mostly waits and sends little, but stays in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use model::SourceId;

/// The most jobs of one source, and of one agent.
const OF_SOURCE: u32 = 1_000;
const OF_AGENT: u32 = 100;

#[derive(Default)]
pub(super) struct Jobs(Mutex<HashMap<Whose, u32>>);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Whose {
    Source(SourceId),
    Agent(u64),
}

/// A job that counts against both limits until it is dropped.
pub(crate) struct Followed {
    jobs: Arc<Jobs>,
    whose: [Whose; 2],
}

impl Jobs {
    fn all(&self) -> MutexGuard<'_, HashMap<Whose, u32>> {
        self.0.lock().expect("no one panics while counting")
    }

    /// Counts a job, or returns which of the two limits is reached.
    pub(super) fn begin(
        self: &Arc<Self>,
        source: &SourceId,
        agent: u64,
    ) -> Result<Followed, &'static str> {
        let whose = [Whose::Source(source.clone()), Whose::Agent(agent)];
        let mut all = self.all();
        let [of_source, of_agent] = whose.each_ref().map(|one| all.get(one).copied().unwrap_or(0));
        if OF_AGENT <= of_agent {
            return Err("agent");
        }
        if OF_SOURCE <= of_source {
            return Err("source");
        }
        for one in &whose {
            *all.entry(one.clone()).or_default() += 1;
        }
        drop(all);
        Ok(Followed { jobs: Arc::clone(self), whose })
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut all = self.jobs.all();
        for one in &self.whose {
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
        let jobs = Arc::new(Jobs::default());
        let source = |name: &str| name.parse::<SourceId>().unwrap();
        let begin = |name: &str, agent| jobs.begin(&source(name), agent);
        let mut own: Vec<_> = (0..OF_AGENT).map(|_| begin("a", 1).ok().unwrap()).collect();
        assert_eq!(begin("a", 1).err(), Some("agent"));
        assert_eq!(begin("b", 1).err(), Some("agent"));
        let others = (OF_AGENT..OF_SOURCE).map(|agent| begin("a", agent.into()).ok().unwrap());
        let others: Vec<_> = others.collect();
        assert_eq!(begin("a", 7).err(), Some("source"));
        assert!(begin("b", 7).is_ok());
        drop(own.pop());
        assert!(begin("a", 1).is_ok());
        drop((own, others));
        assert!(jobs.all().is_empty(), "nothing is left of them");
    }
}
