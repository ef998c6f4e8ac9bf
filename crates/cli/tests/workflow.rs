//! `toolcrib workflow`: shows a workflow and checks it for errors.

use serde_json::Value;

use crate::support::Folder;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/order.workflow.yaml");

/// Runs the program; the path of the example, which differs between machines, is replaced by `EXAMPLE`.
fn run(arguments: &str) -> String {
    let run = Folder::empty().run(&arguments.replace("EXAMPLE", EXAMPLE));
    run.seen().replace(EXAMPLE, "EXAMPLE")
}

#[test]
fn the_example_is_valid() {
    assert_eq!(run("workflow check EXAMPLE"), "EXAMPLE: `order-dinner`, 8 steps, 2 tools\n");
}

#[test]
fn show_prints_the_steps_and_a_diagram() {
    let shown = run("workflow show EXAMPLE");
    for part in [
        "order-dinner: Orders the dearest pizza that somebody can pay for, and says which\n\nCalls\n",
        "\n  pizzeria__list_pizzas\n  pizzeria__place_order\n\nSteps\n  menu: try, catching status 503; again",
        "\n    list: call pizzeria__list_pizzas {max_price, vegetarian}\n",
        "\n  found: switch .pizza == null → refuse; otherwise → order\n",
        "\n    place: call pizzeria__place_order {address, pizzas}, within 30s\n",
        "\n\nPicture (Mermaid)\nflowchart TD\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn show_prints_the_diagram_alone_or_everything_as_json() {
    let picture = run("workflow show EXAMPLE --mermaid");
    assert!(picture.starts_with("flowchart TD\n"), "{picture}");
    let shown: Value = serde_json::from_str(&run("workflow show EXAMPLE --json")).unwrap();
    assert_eq!(shown["workflow"], "order-dinner");
    assert_eq!(shown["mermaid"], picture);
    assert_eq!(shown["tools"][0], "pizzeria__list_pizzas");
    assert_eq!(shown["steps"][1]["reference"], "/do/0/menu/try/0/list");
    assert_eq!(shown["input_schema"]["required"][0], "address");
}

#[test]
fn check_reports_all_errors_with_their_location() {
    let folder = Folder::empty();
    folder.write(
        "wrong.yaml",
        "document: {dsl: 1.0.0, namespace: a, name: b, version: 1.0.0}\n\
         do:\n- a: {call: http}\n- b: {emit: {}}\n- c: {set: {x: '${ .a + }'}}\n",
    );
    folder.write("broken.yaml", "document: {dsl: 1.0.0\ndo: [");
    let checked = folder.run("workflow check wrong.yaml broken.yaml");
    assert_eq!(checked.code, Some(3));
    let shown = folder.run("workflow show wrong.yaml");
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(3), ""));
    for part in [
        "wrong.yaml: /do/0/a/call: `http` of the DSL is not supported",
        "wrong.yaml: /do/1/b/emit: `emit` of the DSL is not supported",
        "wrong.yaml: /do/2/c/set/x: this is not jq",
    ] {
        assert!(checked.stdout.contains(part), "{part}\n{}", checked.stdout);
        assert!(shown.stderr.contains(part), "{part}\n{}", shown.stderr);
    }
    let broken = checked.stdout.lines().last().unwrap();
    assert!(broken.starts_with("broken.yaml: the document is not YAML"), "{broken}");
    assert!(broken.contains("line"), "{broken}");
    let missing = folder.run("workflow check missing.yaml");
    assert_eq!(missing.code, Some(1), "{}", missing.seen());
}
