//! Descriptions of a workflow before it runs: as text and as a flowchart.

use serde_json::{Value, json};

use crate::Workflow;

fn sample() -> Workflow {
    let document: Value = json!({
        "document": {"dsl": "1.0.0", "namespace": "test", "name": "order", "version": "1.0.0"},
        "do": [
            {"find": {"call": "menu__find", "with": {"name": "${ .pizza }"}, "timeout": {"after": "PT5S"}}},
            {"found": {"switch": [
                {"yes": {"when": ".price < 20", "then": "order"}},
                {"no": {"then": "refuse"}},
            ]}},
            {"refuse": {"raise": {"error": {"type": "https://example.com/\"dear\"", "status": 402}}}},
            {"order": {
                "try": [{"send": {"call": "orders__create"}}],
                "catch": {
                    "errors": {"with": {"status": 503}},
                    "retry": {"delay": {"seconds": 1}, "backoff": {"exponential": {}}, "limit": {"attempt": {"count": 3}}},
                    "do": [{"apologise": {"set": {"sorry": true}, "then": "end"}}],
                },
            }},
            {"tell": {"if": ".loud", "fork": {"compete": true, "branches": [
                {"mail": {"call": "mail__send"}}, {"text": {"call": "text__send"}},
            ]}}},
            {"each": {"for": {"each": "item", "in": ".items"}, "while": "$index < 3", "do": [{"rest": {"wait": "PT2S"}}]}},
            {"last": {"do": [{"done": {"set": "${ {ok: true} }", "then": "exit"}}]}},
        ],
    });
    Workflow::from_document(&document).unwrap()
}

#[test]
fn a_plan_describes_every_step() {
    insta::assert_snapshot!(sample().to_plan(), @r#"
    find: call menu__find {name}, within 5s
    found: switch .price < 20 → order; otherwise → refuse
    refuse: raise 402 "https://example.com/\"dear\""
    order: try, catching status 503; again up to 3 times after 1s, exponential
      send: call orders__create {}
      apologise: set {sorry}, then end
    tell: fork 2 branches, the first one wins, if .loud
      mail: call mail__send {}
      text: call text__send {}
    each: for each $item in .items while $index < 3
      rest: wait 2s
    last: do
      done: set {ok: true}, then exit
    "#);
    let tools: Vec<_> = sample().tool_names().into_iter().collect();
    assert_eq!(tools, ["mail__send", "menu__find", "orders__create", "text__send"]);
}

#[test]
fn a_flowchart_shows_the_target_of_every_step() {
    insta::assert_snapshot!(sample().to_mermaid(), @r#"
    flowchart TD
        start([start])
        done([end])
        s0[["find<br/>call menu__find"]]
        start --> s0
        s1{"found"}
        s0 --> s1
        s1 -->|".price #lt; 20"| s3
        s1 -->|"otherwise"| s2
        s2>"refuse<br/>raise 402"]
        s3{{"order<br/>try"}}
        s7[["send<br/>call orders__create"]]
        s3 -->|"try"| s7
        s8["apologise<br/>set"]
        s3 -->|"catch"| s8
        s8 --> done
        s4[/"tell<br/>fork, first wins"/]
        s7 --> s4
        s9[["mail<br/>call mail__send"]]
        s4 --> s9
        s10[["text<br/>call text__send"]]
        s4 --> s10
        s5{{"each<br/>for each item"}}
        s4 -->|"unless .loud"| s5
        s9 --> s5
        s10 --> s5
        s11(["rest<br/>wait 2s"])
        s5 -->|"each"| s11
        s11 --> s5
        s6["last"]
        s5 -->|"done"| s6
        s12["done<br/>set"]
        s6 --> s12
        s12 --> done
    "#);
}

#[test]
fn no_name_breaks_out_of_its_label_in_a_flowchart() {
    let name = "a\"]; click s0 \"javascript:alert(1)\" <b>#quot;\n end";
    let document = json!({
        "document": {"dsl": "1.0.0", "namespace": "test", "name": "x", "version": "1.0.0"},
        "do": [{name: {"call": name, "if": "\"|]\\n\" == .", "with": {}}}],
    });
    let picture = Workflow::from_document(&document).unwrap().to_mermaid();
    insta::assert_snapshot!(picture, @r##"
    flowchart TD
        start([start])
        done([end])
        s0[["a#quot;]; click s0 #quot;javascript:alert(1)#quot; #lt;b#gt;#35;quot;  end<br/>call a#quot;]; click s0 #quot;javascript:alert(1)#quot; #lt;b#gt;#35;quot;  end"]]
        start --> s0
        s0 -->|"unless #quot;|]\n#quot; == ."| done
        s0 --> done
    "##);
}
