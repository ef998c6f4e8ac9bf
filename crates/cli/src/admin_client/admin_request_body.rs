//! Request bodies of the admin API, from the fields on the command line and in a file.

use config::config_error::read_limited_file;
use json::document_text;
use serde_json::{Map, Value};

use crate::arguments::admin_verbs::{AddArgs, FieldArgs};
use crate::cli_error::CliError;
use crate::{inspected_target, shell_text};

/// Size limit of a body file; the API accepts less.
const MAX_BODY_FILE_BYTES: u64 = 4 << 20;

/// The body for a new entity.
pub(super) async fn new_entity_body(add: &AddArgs) -> Result<Value, CliError> {
    let mut body = self::body_from_fields(&add.said).await?;
    match add.name.as_deref() {
        // `NAME` is a KEY=VALUE pair: the file contains the name.
        Some(pair) if pair.contains('=') => set_pair(&mut body, pair)?,
        Some(word) => {
            let is_said = |key: &str| {
                add.said.pairs.iter().any(|pair| pair.split_once('=').is_some_and(|it| it.0 == key))
            };
            // If the user also gives a `name=…`, the word is the id.
            let key = match (is_said("name"), is_said("id")) {
                (false, _) => "name",
                (true, false) => "id",
                (true, true) => return Err(CliError::PairExpected { given: word.to_owned() }),
            };
            set_field(&mut body, key, Value::String(word.to_owned()));
        }
        None => {}
    }
    Ok(body)
}

/// The fields of the file, overridden by the pairs.
pub(super) async fn body_from_fields(said: &FieldArgs) -> Result<Value, CliError> {
    let mut body = match &said.file {
        Some(file) => read_body_file(file).await?,
        None => Value::Object(Map::new()),
    };
    for pair in &said.pairs {
        set_pair(&mut body, pair)?;
    }
    Ok(body)
}

fn set_pair(body: &mut Value, pair: &str) -> Result<(), CliError> {
    let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Err(CliError::PairExpected { given: pair.to_owned() });
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    set_field(body, key, value);
    Ok(())
}

async fn read_body_file(file: &str) -> Result<Value, CliError> {
    let bytes = match file {
        "-" => inspected_target::read_stdin(MAX_BODY_FILE_BYTES).await?,
        path => read_limited_file(path.as_ref(), MAX_BODY_FILE_BYTES)?,
    };
    let read = document_text::read_document(&bytes);
    let read = read
        .map_err(|source| CliError::BodyFile { file: shell_text::display_target(file), source })?;
    match read.is_object() {
        true => Ok(read),
        false => Err(CliError::BodyNotAnObject { file: shell_text::display_target(file) }),
    }
}

/// Sets a field by its dotted path.
fn set_field(body: &mut Value, key: &str, value: Value) {
    let mut place = body;
    for name in key.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
    }
    *place = value;
}

/// The current entity, reduced to its editable fields, merged with the given fields.
pub(super) fn merge_into_current(there: Value, known: &[String], said: Value) -> Value {
    let mut body = match there {
        Value::Object(there) => there,
        _ => Map::new(),
    };
    body.retain(|name, _| known.iter().any(|known| known == name));
    let mut body = Value::Object(body);
    merge_values(&mut body, said);
    body
}

/// Merges objects; replaces any other value.
fn merge_values(into: &mut Value, said: Value) {
    match (into, said) {
        (Value::Object(into), Value::Object(said)) => {
            for (name, said) in said {
                merge_values(into.entry(name).or_insert(Value::Null), said);
            }
        }
        (into, said) => *into = said,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::arguments::JsonFlag;

    async fn of(pairs: &[&str]) -> Result<Value, CliError> {
        let pairs = pairs.iter().map(|pair| (*pair).to_owned()).collect();
        body_from_fields(&FieldArgs { pairs, file: None }).await
    }

    #[tokio::test]
    async fn values_are_json_or_strings_and_dots_set_nested_fields() {
        let body = of(&[
            "name=Ada",
            "admin=true",
            "claims.role=staff",
            "claims.level=3",
            "groups=[\"a\"]",
        ]);
        let wanted = json!({
            "name": "Ada", "admin": true, "claims": {"role": "staff", "level": 3}, "groups": ["a"],
        });
        assert_eq!(body.await.unwrap(), wanted);
        assert!(matches!(of(&["name"]).await, Err(CliError::PairExpected { .. })));
        assert!(matches!(of(&["=a"]).await, Err(CliError::PairExpected { .. })));
    }

    #[tokio::test]
    async fn the_first_word_is_the_name_or_the_id_if_a_name_is_given() {
        let of = async |name: &str, pairs: &[&str]| {
            let pairs = pairs.iter().map(|pair| (*pair).to_owned()).collect();
            let said = FieldArgs { pairs, file: None };
            new_entity_body(&AddArgs {
                name: Some(name.to_owned()),
                said,
                json: JsonFlag { json: false },
            })
            .await
        };
        assert_eq!(of("Pets", &["a=1"]).await.unwrap(), json!({"name": "Pets", "a": 1}));
        assert_eq!(of("Pets", &["id=p"]).await.unwrap(), json!({"name": "Pets", "id": "p"}));
        assert_eq!(of("p", &["name=Pets"]).await.unwrap(), json!({"name": "Pets", "id": "p"}));
        assert_eq!(of("name=Pets", &["id=p"]).await.unwrap(), json!({"name": "Pets", "id": "p"}));
        let twice = of("Pets", &["id=p", "name=Pets"]).await;
        assert!(matches!(twice, Err(CliError::PairExpected { .. })));
    }

    #[test]
    fn read_only_fields_are_omitted_and_other_fields_stay() {
        let there = json!({"id": "a", "name": "A", "claims": {"role": "staff", "team": "x"}, "is_revoked": false});
        let known = ["name".to_owned(), "claims".to_owned()];
        let body = merge_into_current(there, &known, json!({"claims": {"role": "boss"}}));
        assert_eq!(body, json!({"name": "A", "claims": {"role": "boss", "team": "x"}}));
    }
}
