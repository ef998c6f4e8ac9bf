//! A batch of commands as one atomic step: each command is decided as if the earlier ones had been executed, and either
//! all events are stored or none.

use std::collections::HashMap;

use super::{Catalog, CommandError};
use crate::command::{Command, Decision};
use crate::fold::Fold;
use crate::journal::{Append, Appended, Context, Position, StreamAppend, StreamName};
use crate::snapshot::Snapshot;

/// The outcome that commands would have: their events with the expected stream versions, and the resulting snapshot.
pub struct Supposed {
    /// The snapshot after these commands.
    pub snapshot: Snapshot,
    step: Decision,
}

/// A command of a batch was refused, so none is executed.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedAt {
    /// Index of the refused command, from 0.
    pub number: usize,
    pub error: CommandError,
}

impl Supposed {
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
    pub async fn suppose(
        &self,
        snapshot: &Snapshot,
        commands: &[Command],
    ) -> Result<Supposed, RefusedAt> {
        let mut fold = Fold::from(snapshot.clone());
        let mut together = Together::default();
        for (number, command) in commands.iter().enumerate() {
            let refused = |error: CommandError| RefusedAt { number, error };
            let decision =
                command.decide(fold.snapshot()).map_err(|error| refused(error.into()))?;
            fold.suppose(&decision);
            together.add(decision);
            // Groups and policies take effect at once; tools only after the fold has placed them.
            if fold.has_touched_tools() {
                let settled = fold.settle(&*self.shared.journal, &self.shared.recent).await;
                settled.map_err(|error| refused(error.into()))?;
            }
        }
        let settled = fold.settle(&*self.shared.journal, &self.shared.recent).await;
        let number = commands.len().saturating_sub(1);
        settled.map_err(|error| RefusedAt { number, error: error.into() })?;
        Ok(Supposed { snapshot: fold.snapshot().clone(), step: together.step })
    }

    /// Stores a plan, all of it or nothing. If one of its streams has changed since, the result is a
    /// [`Conflict`](crate::journal::JournalError::Conflict), and the caller has to plan again.
    pub async fn carry_out(
        &self,
        supposed: Supposed,
        context: Context,
    ) -> Result<Position, CommandError> {
        let Decision { streams, documents, .. } = supposed.step;
        if streams.is_empty() {
            return Ok(self.snapshot().position());
        }
        let append = Append { streams, documents, context, once: None };
        let _kept = self.shared.recent.keep(&append.documents);
        let position = match self.append(append).await? {
            Appended::Stored(position) => position,
            Appended::Before(answer) => answer.position,
        };
        self.shown(position).await?;
        Ok(position)
    }
}

/// Merges decisions into one step that contains each stream once.
#[derive(Default)]
struct Together {
    step: Decision,
    places: HashMap<StreamName, usize>,
}

impl Together {
    fn add(&mut self, decision: Decision) {
        for StreamAppend { stream, expected, mut events } in decision.streams {
            match self.places.get(&stream) {
                // This decision already took the earlier events into account, so its events follow them.
                Some(place) => self.step.streams[*place].events.append(&mut events),
                None => {
                    self.places.insert(stream.clone(), self.step.streams.len());
                    self.step.streams.push(StreamAppend { stream, expected, events });
                }
            }
        }
        self.step.documents.extend(decision.documents);
    }
}
