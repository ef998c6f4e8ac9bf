//! Search: the time of a query among many tools with few or many granted ones, and the cost of the index.
//!
//! The tools are generated: names of a verb and two nouns, and descriptions with uneven word frequencies, as in any
//! language.

use std::borrow::Cow;
use std::time::Instant;

use catalog::tool_set::{Slot, ToolSet};
use search::{SearchDocument, SearchField, SearchIndex, search_tools};
use serde_json::json;

use super::BenchArgs;
use super::report::{BenchReport, RatioBound};
use crate::seeded_random::SeededRandom;

const VERBS: [&str; 8] = ["get", "list", "create", "update", "delete", "search", "send", "export"];
/// Size of the vocabulary.
const VOCABULARY_SIZE: u64 = 40_000;
const QUERIES: usize = 300;

pub(super) fn run(report: &mut BenchReport, orders: &BenchArgs) -> anyhow::Result<()> {
    let scale = if orders.quick { 10 } else { 1 };
    for (tools, limit) in [(10_000 / scale, 200.0), (100_000 / scale, 1_000.0)] {
        let mut random = SeededRandom::new(7);
        let documents: Vec<SearchDocument> =
            (0..tools).map(|number| random_tool(number, &mut random)).collect();
        let (before, begin) = (own_megabytes()?, Instant::now());
        let mut index = SearchIndex::default();
        index.put_tools((0..).zip(documents.iter().map(Cow::Borrowed)));
        let (took, grown) = (begin.elapsed().as_secs_f64(), own_megabytes()? - before);
        report.add(format!("{tools} tools indexed"), took, 5.0, "s", RatioBound::AtMost(1.0));
        report.add(format!("{tools} tools: memory"), grown, 400.0, "MB", RatioBound::AtMost(1.0));
        measure_change(report, &mut index, &documents);
        for percent in [100, 10, 1] {
            let mine: ToolSet =
                (0..tools as Slot).filter(|_| random.below(100) < percent).collect();
            let median = median_query_time(&index, &mine, &mut random);
            let what = format!("{tools} tools, {percent} % granted: a query");
            report.add(what, median, limit, "µs", RatioBound::AtMost(1.0));
        }
    }
    Ok(())
}

fn measure_change(report: &mut BenchReport, index: &mut SearchIndex, documents: &[SearchDocument]) {
    let mut times: Vec<f64> = Vec::new();
    for (slot, document) in (0..200).zip(documents.iter().rev()) {
        // As in a catalog: a reader still holds the previous index.
        let before = index.clone();
        let begin = Instant::now();
        index.put_tool(slot, document);
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        drop(before);
    }
    let what = format!("one changed tool among {}", documents.len());
    report.add(what, median_of(times), 5.0, "ms", RatioBound::AtMost(1.0));
}

fn median_query_time(index: &SearchIndex, mine: &ToolSet, random: &mut SeededRandom) -> f64 {
    let times = (0..QUERIES).map(|number| {
        let verb = VERBS[number % VERBS.len()];
        let words: Vec<String> = (0..3 + number % 6).map(|_| random_word(random)).collect();
        let query = format!("please {verb} the {} for me", words.join(" "));
        let begin = Instant::now();
        std::hint::black_box(search_tools(&[(index, mine)], &query, 10));
        begin.elapsed().as_secs_f64() * 1e6
    });
    median_of(times.collect())
}

fn median_of(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn random_tool(number: usize, random: &mut SeededRandom) -> SearchDocument {
    let name =
        format!("{}_{}_{}", VERBS[number % VERBS.len()], random_word(random), random_word(random));
    let mut document = SearchDocument::new(&format!("{number:06}"), &name);
    let text: Vec<String> = (0..20).map(|_| random_word(random)).collect();
    document.add_text(SearchField::Description, &text.join(" "));
    document.add_text(SearchField::Source, &format!("source{}", number / 100));
    document.add_keyword(&random_word(random));
    let [one, two] = [random_word(random), random_word(random)];
    let text = format!("The {} of the {}", random_word(random), random_word(random));
    document.add_parameters(&json!({"properties": {one: {"description": text}, two: {}}}));
    document
}

/// A random word. The product of three uniform numbers makes a few words frequent and most of them rare.
fn random_word(random: &mut SeededRandom) -> String {
    let part = |random: &mut SeededRandom| random.below(1_000) as f64 / 1_000.0;
    let number = (VOCABULARY_SIZE as f64 * part(random) * part(random) * part(random)) as u64;
    let syllables = ["ba", "ke", "li", "mo", "nu", "pra", "ste", "tri", "vo", "zu"];
    let mut word = String::new();
    let mut rest = number + 100;
    while 0 < rest {
        word.push_str(syllables[(rest % 10) as usize]);
        rest /= 10;
    }
    word
}

/// Resident memory of this process, in megabytes.
fn own_megabytes() -> anyhow::Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = pages.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4096.0 / 1e6)
}
