//! Configuration files of desktop clients: `mcpServers` of Claude and Cursor, `servers` of VS Code, with comments.

use serde_json::{Map, Value};

use super::{
    ImportedServer, ImportedTransport, ParsedServers, SkippedServer, string_field, string_map,
};

/// The servers of a client's file; `None` if the document has a different format.
pub(super) fn parse_client_file(document: &Value) -> Option<ParsedServers> {
    let inside = document.get("mcp").unwrap_or(document);
    let servers =
        ["mcpServers", "servers"].iter().find_map(|name| inside.get(name)?.as_object())?;
    Some(servers.iter().map(|(name, server)| parse_client_server(name, server)).collect())
}

fn parse_client_server(name: &str, server: &Value) -> Result<ImportedServer, SkippedServer> {
    let not = |why: &str| SkippedServer { name: name.to_owned(), why: why.to_owned() };
    let server = server.as_object().ok_or_else(|| not("it is no object"))?;
    let asks = |value: &String| value.contains("${input:");
    let place = match (string_field(server, "command"), string_field(server, "url")) {
        (Some(program), _) => {
            let environment = string_map(server.get("env"));
            let arguments =
                string_list(server, "args").ok_or_else(|| not("its `args` are no texts"))?;
            if environment.values().chain(&arguments).any(asks) {
                return Err(not("it asks for something when it is started: write that down first"));
            }
            ImportedTransport::Program {
                program,
                arguments,
                environment,
                folder: string_field(server, "cwd"),
            }
        }
        (None, Some(url)) => {
            let headers = string_map(server.get("headers"));
            if headers.values().any(asks) {
                return Err(not("it asks for something when it is started: write that down first"));
            }
            ImportedTransport::Url { url, headers }
        }
        (None, None) => return Err(not("it has neither a `command` nor a `url`")),
    };
    Ok(ImportedServer { name: name.to_owned(), description: String::new(), transport: place })
}

fn string_list(server: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    match server.get(name) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(words)) => {
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        }
        Some(_) => None,
    }
}

/// Reduces JSON with comments to plain JSON: removes `// …`, `/* … */` and trailing commas.
pub(super) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches('\u{feff}');
    while let Some(c) = rest.chars().next() {
        if c == '"' {
            let end = string_end(rest);
            out.push_str(rest.get(..end).unwrap_or_default());
            rest = rest.get(end..).unwrap_or_default();
        } else if let Some(after) = rest.strip_prefix("//") {
            rest = after.find('\n').and_then(|end| after.get(end..)).unwrap_or_default();
        } else if let Some(after) = rest.strip_prefix("/*") {
            rest = after.split_once("*/").map_or("", |(_, after)| after);
        } else {
            if matches!(c, ']' | '}') && out.trim_end().ends_with(',') {
                out.truncate(out.trim_end().len() - 1);
            }
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    out
}

/// The byte offset after the closing quotation mark of the string that `text` starts with.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return place + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use serde_json::json;

    #[test]
    fn the_files_of_claude_and_vs_code_are_parsed() {
        let claude = json!({"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "1", "N": 2}},
            "bad": {"args": []},
        }});
        let read = parse_client_file(&claude).unwrap();
        let environment =
            BTreeMap::from([("A".to_owned(), "1".to_owned()), ("N".to_owned(), "2".to_owned())]);
        let place = ImportedTransport::Program {
            program: "npx".to_owned(),
            arguments: vec!["-y".to_owned(), "server".to_owned()],
            environment,
            folder: None,
        };
        let expected = ImportedServer {
            name: "files".to_owned(),
            description: String::new(),
            transport: place,
        };
        assert!(read.contains(&Ok(expected)));
        assert!(read.iter().any(|one| one.as_ref().is_err_and(|not| not.name == "bad")));
        let code = r#"{ // for VS Code
            "servers": {"web": {"type": "http", "url": "https://a.example/mcp", /* a key */
                "headers": {"X-Key": "${input:key}"}}, "two": {"url": "https://b.example//x"},},}"#;
        let document: Value = serde_json::from_str(&without_comments(code)).unwrap();
        let read = parse_client_file(&document).unwrap();
        assert!(read[0].as_ref().is_err_and(|not| not.why.contains("asks")));
        let Ok(ImportedServer { transport: ImportedTransport::Url { url, .. }, .. }) = &read[1]
        else {
            panic!()
        };
        assert_eq!(url, "https://b.example//x");
    }
}
