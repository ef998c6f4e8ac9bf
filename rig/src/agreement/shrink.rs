//! Shrinks a disagreeing case: removes everything that the disagreement does not need.
//!
//! A case is JSON, so one removal works for changes, claims, tools, selectors and everything else. Results that are no
//! longer a case, or no valid one, are skipped.

use serde_json::Value;

use super::compare_answers::{AnswerMismatch, check_case};
use super::tally::AgreementTally;
use super::world::AgreementCase;

pub(super) async fn shrink_case(
    case: AgreementCase,
    mismatch: AnswerMismatch,
) -> (AgreementCase, AnswerMismatch) {
    let mut best = (case, mismatch);
    loop {
        let before = best.0.clone();
        let mut place = 0;
        while let Some(smaller) = without_element(&best.0, place) {
            match still_differs(smaller, &best.0).await {
                Some(smaller) => best = smaller,
                None => place += 1,
            }
        }
        if best.0 == before {
            return best;
        }
    }
}

async fn still_differs(
    smaller: Value,
    than: &AgreementCase,
) -> Option<(AgreementCase, AnswerMismatch)> {
    let case: AgreementCase = serde_json::from_value(smaller).ok()?;
    // Removing a field may leave its default, which is the same case.
    if case == *than {
        return None;
    }
    let mismatch = check_case(&case, &mut AgreementTally::default()).await.ok()??;
    Some((case, mismatch))
}

/// The case without its n-th removable element, counted from the outside in; `None` if there are fewer.
fn without_element(case: &AgreementCase, place: usize) -> Option<Value> {
    let mut smaller = serde_json::to_value(case).expect("a case is JSON");
    let wishes = case.wishes.len();
    let removed = match place.checked_sub(wishes) {
        // Remove the last changes first: they depend on the earlier ones.
        None => {
            let place = wishes - 1 - place;
            smaller["made_by"] = (case.made_by - usize::from(place < case.made_by)).into();
            smaller["wishes"].as_array_mut().is_some_and(|all| {
                all.remove(place);
                true
            })
        }
        Some(place) => {
            let mut left = place;
            remove_nth(&mut smaller["identities"], &mut left)
                || remove_nth(&mut smaller["wishes"], &mut left)
        }
    };
    removed.then_some(smaller)
}

fn remove_nth(value: &mut Value, left: &mut usize) -> bool {
    let size = match value {
        Value::Array(elements) => elements.len(),
        Value::Object(members) => members.len(),
        _ => return false,
    };
    if *left < size {
        match value {
            Value::Array(elements) => drop(elements.remove(*left)),
            Value::Object(members) => {
                let key = members.keys().nth(*left).cloned().unwrap_or_default();
                members.shift_remove(&key);
            }
            _ => {}
        }
        return true;
    }
    *left -= size;
    match value {
        Value::Array(elements) => elements.iter_mut().any(|element| remove_nth(element, left)),
        Value::Object(members) => members.values_mut().any(|member| remove_nth(member, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_nested_element_is_removed_once() {
        let whole = json!({"a": [1, {"b": 2}], "c": 3});
        let mut smaller = Vec::new();
        for place in 0.. {
            let mut value = whole.clone();
            let mut left = place;
            if !remove_nth(&mut value, &mut left) {
                break;
            }
            smaller.push(value.to_string());
        }
        assert_eq!(
            smaller,
            [
                r#"{"c":3}"#,
                r#"{"a":[1,{"b":2}]}"#,
                r#"{"a":[{"b":2}],"c":3}"#,
                r#"{"a":[1],"c":3}"#,
                r#"{"a":[1,{}],"c":3}"#,
            ]
        );
    }
}
