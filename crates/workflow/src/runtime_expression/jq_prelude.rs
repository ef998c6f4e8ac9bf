//! The part of the jq-defined functions that an expression needs: compiling a definition costs memory and time.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::path::Part;

use super::jq_functions;

type StaticText = &'static str;

/// A definition with the names of the functions that it calls.
struct LibraryDefinition {
    definition: Def<StaticText>,
    calls: BTreeSet<StaticText>,
}

static ALL: LazyLock<Vec<LibraryDefinition>> = LazyLock::new(|| {
    let known = |definition: Def<StaticText>| {
        let mut calls = BTreeSet::new();
        collect_calls(&definition.body, &mut calls);
        LibraryDefinition { definition, calls }
    };
    jq_functions::jq_definitions().into_iter().map(known).collect()
});

/// The definitions that these words need, directly or indirectly, in the order of the library.
pub(super) fn required_definitions(words: &BTreeSet<&str>) -> Vec<Def<StaticText>> {
    let mut wanted: BTreeSet<&str> = words.clone();
    // A definition calls only itself and earlier definitions.
    for known in ALL.iter().rev() {
        if wanted.contains(known.definition.name) {
            wanted.extend(&known.calls);
        }
    }
    let found = ALL.iter().filter(|known| wanted.contains(known.definition.name));
    found.map(|known| known.definition.clone()).collect()
}

/// Collects the functions that a term calls.
fn collect_calls(term: &Term<StaticText>, calls: &mut BTreeSet<StaticText>) {
    let mut each =
        |terms: &[&Term<StaticText>]| terms.iter().for_each(|term| collect_calls(term, calls));
    match term {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => {}
        Term::Call(name, arguments) => {
            arguments.iter().for_each(|argument| collect_calls(argument, calls));
            calls.insert(name);
        }
        Term::Str(format, parts) => {
            for part in parts {
                if let StrPart::Term(term) = part {
                    collect_calls(term, calls);
                }
            }
            calls.extend(format);
        }
        Term::Arr(inside) => inside.iter().for_each(|term| collect_calls(term, calls)),
        Term::Obj(members) => {
            for (name, value) in members {
                collect_calls(name, calls);
                value.iter().for_each(|value| collect_calls(value, calls));
            }
        }
        Term::Neg(inside) | Term::Label(_, inside) => each(&[inside]),
        Term::BinOp(left, operator, right) => {
            each(&[left, right]);
            if let BinaryOp::Pipe(Some(pattern)) = operator {
                collect_pattern_calls(pattern, calls);
            }
        }
        Term::Fold(_, over, pattern, arguments) => {
            each(&[over]);
            collect_pattern_calls(pattern, calls);
            arguments.iter().for_each(|argument| collect_calls(argument, calls));
        }
        Term::TryCatch(tried, caught) => {
            each(&[tried]);
            caught.iter().for_each(|caught| collect_calls(caught, calls));
        }
        Term::IfThenElse(cases, otherwise) => {
            for (condition, then) in cases {
                collect_calls(condition, calls);
                collect_calls(then, calls);
            }
            otherwise.iter().for_each(|otherwise| collect_calls(otherwise, calls));
        }
        Term::Def(definitions, rest) => {
            definitions.iter().for_each(|definition| collect_calls(&definition.body, calls));
            collect_calls(rest, calls);
        }
        Term::Path(of, path) => {
            each(&[of]);
            for (part, _) in &path.0 {
                match part {
                    Part::Index(index) => collect_calls(index, calls),
                    Part::Range(from, to) => {
                        from.iter().chain(to).for_each(|bound| collect_calls(bound, calls));
                    }
                }
            }
        }
    }
}

fn collect_pattern_calls(pattern: &Pattern<StaticText>, calls: &mut BTreeSet<StaticText>) {
    match pattern {
        Pattern::Var(_) => {}
        Pattern::Arr(items) => items.iter().for_each(|item| collect_pattern_calls(item, calls)),
        Pattern::Obj(members) => {
            for (name, member) in members {
                collect_calls(name, calls);
                collect_pattern_calls(member, calls);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RuntimeExpression;
    use super::*;

    #[test]
    fn every_definition_brings_all_that_it_needs() {
        assert!(60 < ALL.len(), "{}", ALL.len());
        for LibraryDefinition { definition, .. } in ALL.iter() {
            let arguments = vec!["."; definition.args.len()].join("; ");
            let text = match definition.args.is_empty() {
                true => definition.name.to_owned(),
                false => format!("{}({arguments})", definition.name),
            };
            assert!(RuntimeExpression::compile(&text, &[]).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_word_without_calls_needs_no_further_definitions() {
        assert!(required_definitions(&BTreeSet::new()).is_empty());
        let names: Vec<_> =
            required_definitions(&["map"].into()).iter().map(|it| it.name).collect();
        assert_eq!(names, ["map"]);
    }
}
