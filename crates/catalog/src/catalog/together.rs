//! Several commands as one: each is decided as if those before it had been carried out, and all of them are stored in one
//! step or not at all.

use std::collections::HashMap;

use super::{Catalog, CommandError};
use crate::command::{Command, Decision};
use crate::fold::Fold;
use crate::journal::{Append, Appended, Context, Position, StreamAppend, StreamName};
use crate::snapshot::Snapshot;

/// What commands would lead to: events that say which versions they follow, and everything as it would be after them.
pub struct Supposed {
    /// Everything as it would be.
    pub snapshot: Snapshot,
    step: Decision,
}

/// One of several commands was refused, so none is carried out.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedAt {
    /// Which, from 0 on.
    pub number: usize,
    /// Why.
    pub error: CommandError,
}

impl Supposed {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.step.streams.is_empty()
    }

    /// How many events it is.
    pub fn len(&self) -> usize {
        self.step.streams.iter().map(|stream| stream.events.len()).sum()
    }
}

impl Catalog {
    /// What these commands would lead to, one after the other. Nothing is stored.
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
            // Groups and policies are there at once; tools only after this.
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

    /// Stores what was supposed, all of it or nothing. If something of it has changed since, it is a
    /// [`Conflict`](crate::journal::JournalError::Conflict): it is for the caller to look again.
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

/// Decisions that become one step: each stream stands in it once.
#[derive(Default)]
struct Together {
    step: Decision,
    places: HashMap<StreamName, usize>,
}

impl Together {
    fn add(&mut self, decision: Decision) {
        for StreamAppend { stream, expected, mut events } in decision.streams {
            match self.places.get(&stream) {
                // It was decided after the events that are there, and follows them.
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
