//! Fuzz target: indexes arbitrary tools and runs arbitrary queries. Nothing may panic or take long, and hits must be
//! valid.
//!
//! The input is split at zero bytes. If its first byte is 255, the query is repeated up to a
//! megabyte. The query and the texts of the tools follow, four texts for each tool. Every second tool is not granted.
#![no_main]

use std::borrow::Cow;

use catalog::tool_set::{Slot, ToolSet};
use libfuzzer_sys::fuzz_target;
use search::{SearchDocument, SearchField, SearchHit, SearchIndex, search_tools};
use serde_json::json;

/// Maximum length of the repeated query, in bytes.
const LONGEST: usize = 1 << 20;
const LIMIT: usize = 10;

fuzz_target!(|bytes: &[u8]| {
    let Some((times, rest)) = bytes.split_first() else { return };
    let mut texts = rest.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let Some(query) = texts.next() else { return };
    let query = match times {
        255 => query.repeat(LONGEST / query.len().max(1)),
        _ => query.into_owned(),
    };
    let texts: Vec<Cow<'_, str>> = texts.collect();
    let tools: Vec<SearchDocument> = (0..).zip(texts.chunks(4)).map(document).collect();
    let granted = |slot: &Slot| slot % 2 == 0;
    let all = (0..).zip(tools.iter().map(Cow::Borrowed));

    let (mut among, mut alone) = (SearchIndex::default(), SearchIndex::default());
    among.put_tools(all.clone());
    alone.put_tools(all.filter(|(slot, _)| granted(slot)));
    let mine: ToolSet = (0..tools.len() as Slot).filter(granted).collect();
    let found = search_tools(&[(&among, &mine)], &query, LIMIT);
    check(&found, &mine);
    let without_others = search_tools(&[(&alone, &mine)], &query, LIMIT);
    assert_eq!(found, without_others, "something is learnt of tools that are not granted");

    // Removed tools are not found; after reinsertion the hits are the same as before.
    (0..tools.len() as Slot).for_each(|slot| among.remove_tool(slot));
    assert!(search_tools(&[(&among, &mine)], &query, LIMIT).is_empty());
    for (slot, tool) in tools.iter().enumerate().rev() {
        among.put_tool(slot as Slot, tool);
    }
    assert_eq!(search_tools(&[(&among, &mine)], &query, LIMIT), found);
});

fn check(found: &[SearchHit], mine: &ToolSet) {
    assert!(found.len() <= LIMIT);
    for hit in found {
        assert!(0.0 < hit.score && hit.score <= 1.0, "{hit:?}");
        assert!(mine.contains(hit.slot), "{hit:?} is not granted");
    }
    assert!(found.is_sorted_by(|one, two| two.score <= one.score));
}

/// Ids are ordered like slots, so that equal scores have the same order in both indexes.
fn document((slot, texts): (Slot, &[Cow<'_, str>])) -> SearchDocument {
    let text = |place: usize| texts.get(place).map_or("", AsRef::as_ref);
    let mut document = SearchDocument::new(&format!("{slot:06}"), text(0));
    document.add_keyword(text(1));
    document.add_text(SearchField::Description, text(2));
    document
        .add_parameters(&json!({"properties": {text(3): {"description": text(1), "enum": [text(2)]}}}));
    document
}
