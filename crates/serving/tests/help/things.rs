//! The help of the verbs that admins use on sources, tools, groups, policies, labels and keys.

mod group;
mod key;
mod label;
mod policy;
mod source;
mod tool;

use super::help;

/// The help of a thing, and of all that can be done with it; what is the same everywhere is left out.
fn all_of(thing: &str) -> String {
    let whole = help(thing);
    let (_, verbs) = whole.split_once("Commands:\n").unwrap_or_default();
    let verbs = verbs.lines().take_while(|line| !line.is_empty());
    let verbs = verbs.filter_map(|line| line.split_whitespace().next()).filter(|it| *it != "help");
    let each = verbs.map(|verb| {
        let text = help(&format!("{thing} {verb}"));
        let (before, after) = text.split_once("      --server <URL>").unwrap_or((&text, ""));
        let (_, examples) = after.split_once("Print help").unwrap_or_default();
        format!("\n\n-- {verb}\n{}{examples}", before.trim_end())
    });
    let each: String = each.collect();
    format!("{whole}{each}")
}
