//! Help of the verbs for sources, tools, groups, policies, labels and keys.

mod group;
mod key;
mod label;
mod policy;
mod source;
mod tool;

use super::help;

/// Help of a resource and all of its verbs, without the options that are the same everywhere.
fn help_with_verbs(thing: &str) -> String {
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
