//! Generates `docs/reference/events.md`: every event as it is stored.

use serde::Serialize;
use serde_json::Value;

use super::encode_event;
use crate::journal::{NewEvent, StreamName};
use crate::reference_page::assert_page;
use crate::sample_events::{
    group_events, key_events, label_events, policy_events, source_events, tool_events,
};

const OPENING: &str = r##"# Events

<!-- Made from the code by a test; change it there. -->

Every change of the catalog is an event. `toolcrib journal tail --json` prints them, one JSON object in a line: `position` (its
place among all events, without gaps), `stream` (of whom it tells), `version` (its place in the stream), `type`, `time`, `actor`,
and `data`, for which there are examples below. In what `toolcrib journal export` writes, each is `{"event": …}`; the
schemas that they refer to come first, each as `{"document": …}`. Events are for ever: types and members are added, and none is
renamed or taken away. What a program does not know it leaves alone.
"##;

#[test]
fn the_events_page_matches_the_stored_events() {
    let mut page = OPENING.to_owned();
    page += &section("Sources", StreamName::SOURCE_PREFIX, &source_events());
    page += &section("Tools", StreamName::TOOL_PREFIX, &tool_events());
    page += &section("Groups", StreamName::GROUP_PREFIX, &group_events());
    page += &section("Policies", StreamName::POLICY_PREFIX, &policy_events());
    page += &section("Labels", StreamName::LABEL_PREFIX, &label_events());
    page += &section("API keys", StreamName::API_KEY_PREFIX, &key_events());
    assert_page("events.md", &page);
}

fn section(title: &str, stream: &str, events: &[impl Serialize]) -> String {
    let mut text = format!("\n## {title}\n\nIn the streams `{stream}ID`.\n");
    let mut last = String::new();
    for event in events {
        let NewEvent { kind, data } = encode_event(event);
        let data: Value = serde_json::from_str(&data).unwrap();
        if last != *kind {
            text += &format!("\n### {kind}\n");
            last = kind.to_string();
        }
        text += &format!("\n```json\n{data:#}\n```\n");
    }
    text
}
