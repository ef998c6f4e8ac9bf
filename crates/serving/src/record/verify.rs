//! `toolcrib record verify`: whether every recorded call is there, and as it was recorded.

use serde::Serialize;
use toolcrib::{JournalPlace, RecordVerification, verify_records};

use crate::cli::{Ended, Json};
use crate::failure::Failure;
use crate::out;
use crate::progress::Progress;

#[derive(Serialize)]
struct Report {
    ok: bool,
    #[serde(flatten)]
    verification: RecordVerification,
}

pub(crate) async fn verify(place: &JournalPlace, format: &Json) -> Result<Ended, Failure> {
    let records = super::open(place).await?;
    let mut progress = Progress::start();
    let tell = |rows: u64| progress.show(|| format!("verified {rows} calls"));
    let verification = verify_records(&*records, tell).await?;
    let ok = verification.problems.is_empty();
    let report = Report { ok, verification };
    match format.json {
        true => out::print_json(&report)?,
        false => out::print(&report.text())?,
    }
    Ok(if ok { Ended::Fine } else { Ended::ProblemsFound })
}

impl Report {
    fn text(&self) -> String {
        let RecordVerification { rows, removed, head, problems } = &self.verification;
        let mut text =
            format!("calls    {rows}\nremoved  {removed}\nhead     {} {}\n", head.id, head.hash);
        text += &out::problems(problems);
        text
    }
}
