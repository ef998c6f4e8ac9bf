//! Text tables: a title, and indented columns.

use comfy_table::{CellAlignment, Table, presets};

use crate::output;
use crate::output::TextStyle;

/// A title and an indented table; only the title if there are no rows. Cells are escaped for the terminal.
pub(crate) fn table_section(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut text = format!("\n{title}\n");
    if rows.is_empty() {
        return text;
    }
    let plain = |row: Vec<String>| {
        row.iter().map(|cell| output::escape_for_terminal(cell).into_owned()).collect()
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(plain).collect();
    let has_numbers = |number: usize| {
        let cells = rows.iter().filter_map(|row| row.get(number));
        cells.clone().all(|cell| cell.parse::<f64>().is_ok())
    };
    let numbers: Vec<bool> = (0..columns.len()).map(has_numbers).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(columns).add_rows(rows);
    for (column, is_number) in table.column_iter_mut().zip(numbers) {
        column.set_padding((2, 0));
        if is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (number, line) in table.lines().enumerate() {
        let line = line.trim_end();
        text +=
            &if number == 0 { output::style_text(TextStyle::Bold, line) } else { line.to_owned() };
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_control_the_terminal() {
        let rows = vec![vec!["a\u{1b}[2J\u{202e}b".to_owned()]];
        assert_eq!(
            table_section("One", &["NAME"], rows),
            "\nOne\n  NAME\n  a\\u{1b}[2J\\u{202e}b\n"
        );
    }
}
