//! A batch of commands as one atomic step: each command is decided as if the earlier ones had been executed, and either
//! all events are stored or none.

use std::collections::HashMap;

use super::{Catalog, CommandError};
use crate::command::{Command, CommandDecision};
use crate::journal::{
    AppendOutcome, AppendRequest, ChangeContext, Position, StreamAppend, StreamName,
};
use crate::snapshot::Snapshot;
use crate::snapshot_fold::SnapshotFold;

/// The outcome that commands would have: their events with the expected stream versions, and the resulting snapshot.
pub struct CommandPlan {
    /// The snapshot after these commands.
    pub snapshot: Snapshot,
    step: CommandDecision,
}

/// A command of a batch was refused, so none is executed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedCommand {
    /// Index of the refused command, from 0.
    pub number: usize,
    pub error: CommandError,
}

impl CommandPlan {
    /// True if the commands change nothing.
    pub fn is_empty(&self) -> bool {
        self.step.streams.is_empty()
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.step.streams.iter().map(|stream| stream.events.len()).sum()
    }
}

impl Catalog {
    /// Decides these commands one after the other and returns the result. Nothing is stored.
    pub async fn plan_commands(
        &self,
        snapshot: &Snapshot,
        commands: &[Command],
    ) -> Result<CommandPlan, RefusedCommand> {
        let mut fold = SnapshotFold::from(snapshot.clone());
        let mut together = MergedDecisions::default();
        for (number, command) in commands.iter().enumerate() {
            let refused = |error: CommandError| RefusedCommand { number, error };
            let decision =
                command.decide(fold.snapshot()).map_err(|error| refused(error.into()))?;
            fold.apply_decision(&decision);
            together.add_decision(decision);
            // Groups and policies take effect at once; tools only after the fold has placed them.
            if fold.has_touched_tools() {
                let settled =
                    fold.derive_state(&*self.shared.journal, &self.shared.recent_documents).await;
                settled.map_err(|error| refused(error.into()))?;
            }
        }
        let settled = fold.derive_state(&*self.shared.journal, &self.shared.recent_documents).await;
        let number = commands.len().saturating_sub(1);
        settled.map_err(|error| RefusedCommand { number, error: error.into() })?;
        Ok(CommandPlan { snapshot: fold.snapshot().clone(), step: together.step })
    }

    /// Stores a plan, all of it or nothing. If one of its streams has changed since, the result is a
    /// [`Conflict`](crate::journal::JournalError::Conflict), and the caller has to plan again.
    pub async fn execute_plan(
        &self,
        supposed: CommandPlan,
        context: ChangeContext,
    ) -> Result<Position, CommandError> {
        let CommandDecision { streams, documents, .. } = supposed.step;
        if streams.is_empty() {
            return Ok(self.snapshot().position());
        }
        let append = AppendRequest { streams, documents, context, idempotency: None };
        let _kept = self.shared.recent_documents.hold_documents(&append.documents);
        let position = match self.append_measured(append).await? {
            AppendOutcome::Stored(position) => position,
            AppendOutcome::AlreadyStored(answer) => answer.position,
        };
        self.wait_until_visible(position).await?;
        Ok(position)
    }
}

/// Merges decisions into one step that contains each stream once.
#[derive(Default)]
struct MergedDecisions {
    step: CommandDecision,
    stream_indexes: HashMap<StreamName, usize>,
}

impl MergedDecisions {
    fn add_decision(&mut self, decision: CommandDecision) {
        for StreamAppend { stream, expected, mut events } in decision.streams {
            match self.stream_indexes.get(&stream) {
                // This decision already took the earlier events into account, so its events follow them.
                Some(place) => self.step.streams[*place].events.append(&mut events),
                None => {
                    self.stream_indexes.insert(stream.clone(), self.step.streams.len());
                    self.step.streams.push(StreamAppend { stream, expected, events });
                }
            }
        }
        self.step.documents.extend(decision.documents);
    }
}
