//! `toolcrib explain`: which tools an identity has, and why.

use serde_json::Value;

use crate::support::Folder;

const STAFF: &str = r#"{"role":"staff"}"#;

#[test]
fn explain_lists_the_tools_of_an_identity() {
    let folder = Folder::with_catalog();
    let run = folder.run(&format!("explain --claims {STAFF}"));
    insta::assert_snapshot!(run.seen(), @r#"
    As of event 18 of 2026-05-01T09:12:00.000Z

    Policies
      yes  staff-read grants `pets-read`
             yes  `role` is "staff": it equals "staff"

    2 tools
      NAME      ID                 VISIBILITY
      getOwner  petstore:getOwner  listed
      listPets  petstore:listPets  listed
    "#);
}

#[test]
fn explain_shows_why_a_tool_is_granted_or_blocked() {
    let folder = Folder::with_catalog();
    folder.write("guest.json", r#"{"role": "guest"}"#);
    let run = folder.run(&format!("explain --claims {STAFF} --tool petstore__getOwner"));
    insta::assert_snapshot!(run.seen(), @r#"
    As of event 18 of 2026-05-01T09:12:00.000Z

    petstore:getOwner: granted as `getOwner`, listed
      policy `staff-read` grants group `pets-read`, which selects it
      group `pets-all` has it (selected); not granted, not active
      group `pets-read` has it (selected); granted by `staff-read`

    Policies
      yes  staff-read grants `pets-read`
             yes  `role` is "staff": it equals "staff"
    "#);
    let run = folder.run("explain --claims guest.json --tool deletePet");
    insta::assert_snapshot!(run.seen(), @r#"
    As of event 18 of 2026-05-01T09:12:00.000Z

    petstore:deletePet: not granted
      the tool is disabled
      and: no policy grants group `pets-all`
      group `pets-all` has it (selected); not granted, not active

    Policies
      no   staff-read would grant `pets-read`
             no   `role` is "guest": it does not equal "staff"
    exit code: 3
    "#);
}

#[test]
fn explain_answers_for_past_positions_and_as_json() {
    let folder = Folder::with_catalog();
    let granted = |at: &str| {
        let line = format!("explain --claims {STAFF} --tool getOwner --json{at}");
        let run: Value = serde_json::from_str(&folder.run(&line).stdout).unwrap();
        run["tools"][0]["granted"].as_bool().unwrap()
    };
    assert!(granted(""));
    assert!(!granted(" --at 17"));
    assert_eq!(folder.run(&format!("explain --claims {STAFF} --at 99")).code, Some(1));
}

#[test]
fn claims_that_are_no_object_are_rejected() {
    let folder = Folder::with_catalog();
    for claims in ["[]", "{\"role\"", "missing.json"] {
        let run = folder.run(&format!("explain --claims {claims}"));
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{claims}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}
