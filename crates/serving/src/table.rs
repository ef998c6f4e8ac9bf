//! Tables for people: a title, and indented columns.

use comfy_table::{CellAlignment, Table, presets};

/// Columns with these titles hold numbers.
const NUMBERS: [&str; 4] = ["TOOLS", "MEMBERS", "SERVED", "PRIORITY"];

/// A title and an indented table; only the title if there are no rows.
pub(crate) fn section(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut text = format!("\n{title}\n");
    if rows.is_empty() {
        return text;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns).add_rows(rows);
    for (column, title) in table.column_iter_mut().zip(columns) {
        column.set_padding((2, 0));
        if NUMBERS.contains(title) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        text += line.trim_end();
        text.push('\n');
    }
    text
}
