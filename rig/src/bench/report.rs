//! Results of benchmarks: a table for people, JSON for programs, and the sections of docs/benchmarks.md.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

/// The figures of one benchmark.
#[derive(Serialize)]
pub(crate) struct BenchReport {
    benchmark: &'static str,
    rows: Vec<BenchFigure>,
}

/// One figure and its reference value.
#[derive(Serialize)]
pub(crate) struct BenchFigure {
    what: String,
    ours: f64,
    against: f64,
    unit: &'static str,
    /// The limit of the ratio, such as `ratio >= 0.7`.
    must: RatioBound,
    ratio: f64,
    holds: bool,
}

/// The limit of a ratio.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RatioBound {
    AtLeast(f64),
    AtMost(f64),
    /// Reported, but not required.
    None,
}

impl BenchReport {
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
        must: RatioBound,
    ) {
        let ratio = ours / against;
        let holds = match must {
            RatioBound::AtLeast(bound) => bound <= ratio,
            RatioBound::AtMost(bound) => ratio <= bound,
            RatioBound::None => true,
        };
        let figure = BenchFigure { what: what.into(), ours, against, unit, must, ratio, holds };
        eprintln!("{}", table_row(&figure));
        self.rows.push(figure);
    }

    /// The number of figures that miss their limit.
    pub(crate) fn missed_count(&self) -> usize {
        self.rows.iter().filter(|row| !row.holds).count()
    }

    fn to_table(&self) -> String {
        let mut text = String::from(
            "| what | ours | against | ratio | must hold | |\n|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            writeln!(text, "{}", table_row(row)).expect("strings can be written");
        }
        text
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        println!("{}", self.to_table());
        println!("{}", serde_json::to_string_pretty(self)?);
        Ok(())
    }

    /// Writes the table into its section of docs/benchmarks.md.
    pub(crate) fn write_to_docs(&self) -> anyhow::Result<()> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
        let (begin, end) =
            (format!("<!-- {} -->", self.benchmark), format!("<!-- /{} -->", self.benchmark));
        let text = std::fs::read_to_string(&path)?;
        let (before, rest) =
            text.split_once(&begin).ok_or_else(|| anyhow::anyhow!("no section {begin}"))?;
        let (_, after) =
            rest.split_once(&end).ok_or_else(|| anyhow::anyhow!("no section {end}"))?;
        std::fs::write(&path, format!("{before}{begin}\n{}{end}{after}", self.to_table()))?;
        Ok(())
    }
}

fn table_row(row: &BenchFigure) -> String {
    let must = match row.must {
        RatioBound::AtLeast(bound) => format!("≥ {bound}"),
        RatioBound::AtMost(bound) => format!("≤ {bound}"),
        RatioBound::None => "–".to_owned(),
    };
    let verdict = match (row.must, row.holds) {
        (RatioBound::None, _) => "",
        (_, true) => "holds",
        (_, false) => "**missed**",
    };
    let BenchFigure { what, ours, against, unit, ratio, .. } = row;
    format!(
        "| {what} | {} {unit} | {} {unit} | {ratio:.2} | {must} | {verdict} |",
        format_number(*ours),
        format_number(*against)
    )
}

fn format_number(number: f64) -> String {
    if 100.0 <= number { format!("{number:.0}") } else { format!("{number:.2}") }
}
