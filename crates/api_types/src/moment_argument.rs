//! A moment of the catalog's history, as an argument or a parameter names it.

use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use toolcrib::{JournalMoment, Position};

/// A moment as a command line argument.
#[derive(Clone, Debug)]
pub struct MomentArgument(pub JournalMoment);

#[derive(Debug, thiserror::Error)]
#[error("a moment is a position (`120`), a time (`2026-05-01T12:00:00Z`) or a date (`2026-05-01`)")]
pub struct InvalidMoment;

impl FromStr for MomentArgument {
    type Err = InvalidMoment;

    fn from_str(text: &str) -> Result<Self, InvalidMoment> {
        if let Ok(position) = text.parse() {
            return Ok(Self(JournalMoment::Position(Position(position))));
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Self(JournalMoment::Time(time)));
        }
        // `Date` also parses a date followed by a time, which lacks a UTC offset; only a bare date is accepted.
        let date = Some(text)
            .filter(|text| text.len() == "2026-05-01".len())
            .and_then(|text| text.parse::<Date>().ok());
        let begins =
            date.and_then(|date| date.to_zoned(TimeZone::UTC).ok()).ok_or(InvalidMoment)?;
        Ok(Self(JournalMoment::Time(begins.timestamp())))
    }
}
