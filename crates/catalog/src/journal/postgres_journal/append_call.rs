//! One call of the SQL function `toolcrib_append`: a group of appends as columns, and the outcome of each append.

use std::collections::HashMap;

use model::Digest;
use serde::Deserialize;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::postgres_connection::PostgresConnection;
use super::postgres_queries::{to_i64, u64_from_row};
use super::{
    AppendOutcome, AppendRequest, IdempotentAnswer, JournalError, Position, StreamName,
    StreamVersion, postgres_schema,
};

/// The columns of a group, named like the parameters of the SQL function.
#[derive(Default)]
struct AppendColumns<'a> {
    s_append: Vec<i64>,
    s_stream: Vec<&'a str>,
    s_expected: Vec<i64>,
    e_append: Vec<i64>,
    e_stream: Vec<&'a str>,
    e_version: Vec<i64>,
    e_type: Vec<&'a str>,
    e_actor: Vec<&'a str>,
    e_correlation: Vec<Option<&'a str>>,
    e_causation: Vec<Option<&'a str>>,
    e_data: Vec<&'a str>,
    d_append: Vec<i64>,
    d_digest: Vec<&'a [u8]>,
    d_body: Vec<&'a str>,
    k_append: Vec<i64>,
    k_key: Vec<&'a str>,
    k_request: Vec<&'a [u8]>,
    k_answer: Vec<&'a str>,
}

impl<'a> AppendColumns<'a> {
    fn from_appends(appends: &[&'a AppendRequest]) -> Self {
        let mut columns = Self::default();
        for (append, number) in appends.iter().zip(1_i64..) {
            columns.push_append(number, append, appends.len() == 1);
        }
        columns
    }

    /// If an append is alone in its group, new streams need no check: the table's unique constraint rejects a conflict,
    /// and the rollback affects no other append.
    fn push_append(&mut self, number: i64, append: &'a AppendRequest, alone: bool) {
        for stream in &append.streams {
            if !alone || stream.expected != StreamVersion::NONE {
                self.s_append.push(number);
                self.s_stream.push(stream.stream.as_str());
                self.s_expected.push(to_i64(stream.expected.0));
            }
            let mut version = stream.expected;
            for event in &stream.events {
                version = version.next();
                self.e_append.push(number);
                self.e_stream.push(stream.stream.as_str());
                self.e_version.push(to_i64(version.0));
                self.e_type.push(&event.kind);
                self.e_actor.push(append.context.actor.as_str());
                self.e_correlation.push(append.context.correlation_id.as_deref());
                self.e_causation.push(append.context.causation_id.as_deref());
                self.e_data.push(&event.data);
            }
        }
        for document in &append.documents {
            self.d_append.push(number);
            self.d_digest.push(&document.digest.as_bytes()[..]);
            self.d_body.push(document.text.as_str());
        }
        if let Some(once) = &append.idempotency {
            self.k_append.push(number);
            self.k_key.push(&once.key);
            self.k_request.push(&once.request.as_bytes()[..]);
            self.k_answer.push(&once.answer);
        }
    }

    fn sql_parameters(&self) -> [&(dyn ToSql + Sync); 18] {
        [
            &self.s_append,
            &self.s_stream,
            &self.s_expected,
            &self.e_append,
            &self.e_stream,
            &self.e_version,
            &self.e_type,
            &self.e_actor,
            &self.e_correlation,
            &self.e_causation,
            &self.e_data,
            &self.d_append,
            &self.d_digest,
            &self.d_body,
            &self.k_append,
            &self.k_key,
            &self.k_request,
            &self.k_answer,
        ]
    }
}

/// Stores a group of appends and returns one result for each.
pub(super) async fn store_appends(
    link: &PostgresConnection,
    appends: &[&AppendRequest],
) -> Result<Vec<Result<AppendOutcome, JournalError>>, JournalError> {
    let columns = AppendColumns::from_appends(appends);
    let rows = link.execute(postgres_schema::APPEND_SQL, &columns.sql_parameters()).await?;
    read_outcomes(link, appends, rows.first().expect("a function has one result"))
}

/// An append that was not stored because its idempotency key already has an answer.
#[derive(Deserialize)]
struct AnsweredAppend {
    append: usize,
    position: Position,
    answer: Box<str>,
    request: Digest,
}

/// An append that was not stored because a stream has another version than expected.
#[derive(Deserialize)]
struct ConflictingAppend {
    append: usize,
    stream: StreamName,
    actual: StreamVersion,
}

fn read_outcomes(
    link: &PostgresConnection,
    appends: &[&AppendRequest],
    row: &Row,
) -> Result<Vec<Result<AppendOutcome, JournalError>>, JournalError> {
    let mut refused: HashMap<usize, Result<AppendOutcome, JournalError>> = HashMap::new();
    for AnsweredAppend { append, position, answer, request } in parse_json_list(link, row, 1)? {
        let once = appends.get(append - 1).and_then(|append| append.idempotency.as_ref());
        let once = once.expect("only an append with a key is answered from before");
        let outcome = match once.request == request {
            true => Ok(AppendOutcome::AlreadyStored(IdempotentAnswer {
                key: once.key.clone(),
                request,
                answer,
                position,
            })),
            false => Err(JournalError::KeyReused { key: once.key.to_string() }),
        };
        refused.insert(append, outcome);
    }
    for ConflictingAppend { append, stream, actual } in parse_json_list(link, row, 2)? {
        let streams = appends.get(append - 1).map_or(&[][..], |append| &append.streams);
        let known = streams.iter().find(|known| known.stream == stream);
        let expected = known.map_or(StreamVersion::NONE, |known| known.expected);
        refused.insert(append, Err(JournalError::Conflict { stream, expected, actual }));
    }
    let mut head = Position(u64_from_row(row, 0));
    let outcome = |(append, place): (&&AppendRequest, usize)| {
        refused.remove(&place).unwrap_or_else(|| {
            head.0 += append.len() as u64;
            Ok(AppendOutcome::Stored(head))
        })
    };
    Ok(appends.iter().zip(1..).map(outcome).collect())
}

fn parse_json_list<T: for<'a> Deserialize<'a>>(
    link: &PostgresConnection,
    row: &Row,
    column: usize,
) -> Result<Vec<T>, JournalError> {
    let Some(text) = row.get::<_, Option<&str>>(column) else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|error| JournalError::Damaged {
        place: link.display_url(),
        cause: format!("an answer: {error}"),
    })
}
