//! Results of benchmarks: a table for people, JSON for programs, and the sections of docs/benchmarks.md.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

/// The figures of one benchmark.
#[derive(Serialize)]
pub(crate) struct Report {
    benchmark: &'static str,
    rows: Vec<Figure>,
}

/// One figure and its reference value.
#[derive(Serialize)]
pub(crate) struct Figure {
    what: String,
    ours: f64,
    against: f64,
    unit: &'static str,
    /// The limit of the ratio, such as `ratio >= 0.7`.
    must: Bound,
    ratio: f64,
    holds: bool,
}

/// The limit of a ratio.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Reported, but not required.
    None,
}

impl Report {
    pub(crate) fn new(benchmark: &'static str) -> Self {
        Self { benchmark, rows: Vec::new() }
    }

    /// Adds a figure. Its ratio is our value divided by the reference value.
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        ours: f64,
        against: f64,
        unit: &'static str,
        must: Bound,
    ) {
        let ratio = ours / against;
        let holds = match must {
            Bound::AtLeast(bound) => bound <= ratio,
            Bound::AtMost(bound) => ratio <= bound,
            Bound::None => true,
        };
        let figure = Figure { what: what.into(), ours, against, unit, must, ratio, holds };
        eprintln!("{}", line(&figure));
        self.rows.push(figure);
    }

    /// The number of figures that miss their limit.
    pub(crate) fn missed(&self) -> usize {
        self.rows.iter().filter(|row| !row.holds).count()
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "| what | ours | against | ratio | must hold | |\n|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            writeln!(text, "{}", line(row)).expect("strings can be written");
        }
        text
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        println!("{}", self.table());
        println!("{}", serde_json::to_string_pretty(self)?);
        Ok(())
    }

    /// Writes the table into its section of docs/benchmarks.md.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
        let (begin, end) =
            (format!("<!-- {} -->", self.benchmark), format!("<!-- /{} -->", self.benchmark));
        let text = std::fs::read_to_string(&path)?;
        let (before, rest) =
            text.split_once(&begin).ok_or_else(|| anyhow::anyhow!("no section {begin}"))?;
        let (_, after) =
            rest.split_once(&end).ok_or_else(|| anyhow::anyhow!("no section {end}"))?;
        std::fs::write(&path, format!("{before}{begin}\n{}{end}{after}", self.table()))?;
        Ok(())
    }
}

fn line(row: &Figure) -> String {
    let must = match row.must {
        Bound::AtLeast(bound) => format!("≥ {bound}"),
        Bound::AtMost(bound) => format!("≤ {bound}"),
        Bound::None => "–".to_owned(),
    };
    let verdict = match (row.must, row.holds) {
        (Bound::None, _) => "",
        (_, true) => "holds",
        (_, false) => "**missed**",
    };
    let Figure { what, ours, against, unit, ratio, .. } = row;
    format!(
        "| {what} | {} {unit} | {} {unit} | {ratio:.2} | {must} | {verdict} |",
        short(*ours),
        short(*against)
    )
}

fn short(number: f64) -> String {
    if 100.0 <= number { format!("{number:.0}") } else { format!("{number:.2}") }
}
