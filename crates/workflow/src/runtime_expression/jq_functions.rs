//! The functions of expressions: the functions of jq's standard library that operate on values only.

use jaq_core::box_iter::BoxIter;
use jaq_core::load::parse::Def;
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{Error, ValR, ValT as _};
use json::strict_json;

use super::JqDataType;
use super::jq_value::{JqValue, spend_work};

/// Omitted definitions of the standard library. They need more than values (a clock, a log, process exit, numbers that
/// JSON lacks, another regular-expression engine), or they never end. `join` is replaced by our own.
const OMITTED_DEFINITIONS: [&str; 43] = [
    "join",
    "repeat",
    "while",
    "until",
    "combinations/1",
    "stderr",
    "debug",
    "halt",
    "halt_error",
    "nan",
    "infinite",
    "isnan",
    "isinfinite",
    "isfinite",
    "isnormal",
    "finites",
    "normals",
    "logb",
    "significand",
    "pow10",
    "drem",
    "nexttoward",
    "scalb",
    "gamma",
    "capture_of_match",
    "test",
    "scan_",
    "match",
    "capture",
    "splits",
    "sub",
    "gsub",
    "scan",
    "todate",
    "fromdate",
    "@html",
    "@htmld",
    "@uri",
    "@urid",
    "@base64",
    "@base64d",
    "@sh",
    "split/2",
];

/// Our own definitions, written in jq.
const OWN_DEFINITIONS: &str = r#"
def tonumber: if type == "number" then . elif type == "string" then fromjson | if type == "number" then . else error("this is no number") end else error("this is no number") end;
def toboolean: if type == "boolean" then . elif . == "true" then true elif . == "false" then false else error("this is no boolean") end;
def transpose: [range([.[] | length] | max // 0) as $i | [.[][$i]]];
def in(xs): . as $x | xs | has($x);
def inside(xs): . as $x | xs | contains($x);
def index($i): indices($i)[0];
def rindex($i): indices($i)[-1];
def @json: tojson;
"#;

/// All functions that are written in jq.
pub(super) fn jq_definitions() -> Vec<Def<&'static str>> {
    let own = jaq_core::load::parse(OWN_DEFINITIONS, |parser| parser.defs());
    let own = own.expect("our own definitions are jq");
    let library = jaq_core::defs().chain(jaq_std::defs());
    let library = library.filter(|definition| {
        let with_arity = format!("{}/{}", definition.name, definition.args.len());
        !OMITTED_DEFINITIONS.iter().any(|name| *name == definition.name || *name == with_arity)
    });
    library.chain(own).collect()
}

/// All functions that are written in Rust.
pub(super) fn native_functions() -> impl Iterator<Item = Fun<JqDataType>> {
    let others = jaq_core::funs().chain(jaq_std::base_funs());
    let others = others.filter(|(name, ..)| !matches!(*name, "halt" | "escape_sh"));
    others.chain(own_functions())
}

fn own_functions() -> [Fun<JqDataType>; 7] {
    [
        run(("length", v(0), |cv| bome(cv.1.length()))),
        run(("tojson", v(0), |cv| bome(Ok(JqValue::from(cv.1.to_string()))))),
        run(("fromjson", v(0), |cv| bome(parse_json_text(&cv.1)))),
        run(("has", v(1), |cv| with_argument(cv, |one, two| one.has_key(two).map(JqValue::from)))),
        run(("contains", v(1), |cv| with_argument(cv, |one, two| Ok(one.contains(two).into())))),
        run(("indices", v(1), |cv| with_argument(cv, JqValue::indices_of))),
        run(("join", v(1), |cv| with_argument(cv, join_texts))),
    ]
}

type FilterResults<'a> = BoxIter<'a, jaq_core::ValX<'a, JqValue>>;

fn with_argument<'a>(
    cv: jaq_core::Cv<'a, JqDataType>,
    f: impl Fn(&JqValue, &JqValue) -> ValR<JqValue> + 'a,
) -> FilterResults<'a> {
    unary(cv, move |one, two| f(&one, &two))
}

fn parse_json_text(datum: &JqValue) -> ValR<JqValue> {
    let Some(text) = datum.as_str() else {
        return Err(Error::typ(datum.clone(), "a text"));
    };
    // The parsed value takes more memory than its text.
    spend_work(text.len() as u64);
    let value = strict_json::parse_tolerant(text.as_bytes());
    let value = value.map_err(|_| Error::str("the text is not JSON"))?;
    Ok(JqValue::from_json(&value))
}

/// Builds the joined text in one pass: with the library's definition, each item copies the whole text.
fn join_texts(list: &JqValue, by: &JqValue) -> ValR<JqValue> {
    let mut joined = String::new();
    for (place, item) in list.clone().values().enumerate() {
        let by = by.as_str().ok_or_else(|| Error::typ(by.clone(), "a text"))?;
        if 0 < place {
            joined.push_str(by);
        }
        match item? {
            JqValue::Null => {}
            item => joined.push_str(item.into_string().as_str().unwrap_or_default()),
        }
        spend_work(1 + by.len() as u64);
    }
    Ok(JqValue::from(joined))
}
