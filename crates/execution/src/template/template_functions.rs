//! The functions of templates. The engine adds none of its own: no filter, no `range`, no `debug`.

pub(super) mod body_functions;
pub(super) mod header_functions;
pub(super) mod path_functions;
pub(super) mod query_functions;

use std::sync::LazyLock;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, UndefinedBehavior, tests};

use super::encoded_piece::TemplatePosition;
use super::template_context::{
    ANSWER_VARIABLE, ARGUMENTS_VARIABLE, HEADERS_VARIABLE, LOCATION_VARIABLE,
};

/// The variable and all functions, without the internal functions of positions.
const TEMPLATE_NAMES: [&str; 24] = [
    ARGUMENTS_VARIABLE,
    "bytes",
    "cookie",
    "cookies",
    "deep_object",
    "file",
    "form",
    "header",
    "header_json",
    "join",
    "json",
    "json_pair",
    "label",
    "matrix",
    "multipart",
    "object",
    "pairs",
    "part",
    "pipe_delimited",
    "query",
    "rest",
    "simple",
    "space_delimited",
    "text",
];

/// The maximum number of engine steps. Expressions have no loops, so any expression within the length limit needs
/// fewer.
const FUEL: u64 = 50_000;

/// The environment shared by all templates, because a compiled expression only refers to it.
pub(super) static TEMPLATE_ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(FUEL));
    environment.add_test("defined", tests::is_defined);
    environment.add_test("undefined", tests::is_undefined);
    environment.add_test("none", tests::is_none);
    path_functions::register_path_functions(&mut environment);
    query_functions::register_query_functions(&mut environment);
    header_functions::register_header_functions(&mut environment);
    body_functions::register_body_functions(&mut environment);
    environment
});

/// Whether a name is known in this position; only follow-up requests see the previous response.
pub(super) fn is_known_name(name: &str, place: TemplatePosition) -> bool {
    let of_answer = [ANSWER_VARIABLE, HEADERS_VARIABLE, LOCATION_VARIABLE];
    TEMPLATE_NAMES.contains(&name)
        || place == TemplatePosition::FollowUpAddress && of_answer.contains(&name)
}

/// A named option of a function: `explode=true`.
fn flag_option(options: &Kwargs, name: &str, default: bool) -> Result<bool, Error> {
    Ok(options.get::<Option<bool>>(name)?.unwrap_or(default))
}
