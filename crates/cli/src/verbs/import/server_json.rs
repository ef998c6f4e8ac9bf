//! `server.json` of the official MCP registry: one server with its remote URLs and packages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{ImportedServer, ImportedTransport, ParsedServers, SkippedServer, string_field};

/// The servers of such a file, or of a response of the registry; `None` if the document has a different format.
pub(super) fn parse_registry_document(document: &Value) -> Option<ParsedServers> {
    if let Some(Value::Array(all)) = document.get("servers") {
        return Some(
            all.iter()
                .filter_map(|one| parse_registry_server(one.get("server").unwrap_or(one)))
                .collect(),
        );
    }
    parse_registry_server(document.get("server").unwrap_or(document)).map(|one| vec![one])
}

fn parse_registry_server(document: &Value) -> Option<Result<ImportedServer, SkippedServer>> {
    let document = document.as_object()?;
    if !document.contains_key("packages") && !document.contains_key("remotes") {
        return None;
    }
    let whole = string_field(document, "name")?;
    // Use the last segment of a name like `io.github.ada/files`; the rest is its namespace.
    let name = whole.rsplit('/').next().unwrap_or(&whole).to_owned();
    let description = string_field(document, "description").unwrap_or_default();
    let objects = |member: &str| document.get(member).and_then(Value::as_array).cloned();
    let remotes = objects("remotes").unwrap_or_default();
    let packages = objects("packages").unwrap_or_default();
    let remote = remotes.iter().filter_map(Value::as_object).map(remote_transport);
    let package = packages.iter().filter_map(Value::as_object).map(package_transport);
    let mut why = "it has no place and no package that is known".to_owned();
    for place in remote.chain(package) {
        match place {
            Ok(place) => return Some(Ok(ImportedServer { name, description, transport: place })),
            Err(reason) => why = reason,
        }
    }
    Some(Err(SkippedServer { name, why }))
}

fn remote_transport(remote: &Map<String, Value>) -> Result<ImportedTransport, String> {
    let url = string_field(remote, "url").ok_or("a remote has no `url`")?;
    if url.contains('{') {
        return Err(format!("its url has gaps to fill in: `{url}`"));
    }
    let headers = input_values(remote.get("headers"))?;
    Ok(ImportedTransport::Url { url, headers })
}

fn package_transport(package: &Map<String, Value>) -> Result<ImportedTransport, String> {
    let kind = package.get("transport").and_then(|transport| transport.get("type"));
    if kind.is_some_and(|kind| kind != "stdio") {
        return Err(
            "its package is started as a server of its own: start it, and give its url".to_owned()
        );
    }
    let identifier = string_field(package, "identifier").ok_or("a package has no `identifier`")?;
    let version = string_field(package, "version");
    let registry = string_field(package, "registryType").unwrap_or_default();
    let at = |sign: &str| match &version {
        Some(version) => format!("{identifier}{sign}{version}"),
        None => identifier.clone(),
    };
    let (usual, before, what) = match registry.as_str() {
        "npm" => ("npx", vec!["-y".to_owned()], at("@")),
        "pypi" => ("uvx", Vec::new(), at("==")),
        "oci" => {
            let run = ["run", "--rm", "-i"].map(str::to_owned).to_vec();
            ("docker", run, identifier.clone())
        }
        other => return Err(format!("packages of `{other}` are not known")),
    };
    let program = string_field(package, "runtimeHint").unwrap_or_else(|| usual.to_owned());
    let environment = input_values(package.get("environmentVariables"))?;
    let mut arguments = match argument_values(package.get("runtimeArguments"))? {
        given if given.is_empty() => before,
        given => given,
    };
    if registry == "oci" {
        arguments.extend(environment.keys().flat_map(|name| ["-e".to_owned(), name.clone()]));
    }
    arguments.push(what);
    arguments.extend(self::argument_values(package.get("packageArguments"))?);
    Ok(ImportedTransport::Program { program, arguments, environment, folder: None })
}

/// Values by name. A required value that the file lacks becomes a reference to a variable, which the user must set.
fn input_values(list: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let mut inputs = BTreeMap::new();
    for input in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
        let name = string_field(input, "name").ok_or("a value has no name")?;
        match string_field(input, "value").or_else(|| string_field(input, "default")) {
            Some(value) if !value.contains('{') => drop(inputs.insert(name, value)),
            // Most likely a secret: the server reads it from its environment.
            _ if is_required(input) => drop(inputs.insert(name.clone(), format!("${{{name}}}"))),
            _ => {}
        }
    }
    Ok(inputs)
}

fn argument_values(list: Option<&Value>) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for argument in
        list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
    {
        let value = string_field(argument, "value").or_else(|| string_field(argument, "default"));
        let value = value.filter(|value| !value.contains('{'));
        let name = string_field(argument, "name")
            .filter(|_| argument.get("type").is_some_and(|kind| kind == "named"));
        match (name, value) {
            (Some(name), Some(value)) => words.extend([name, value]),
            (None, Some(value)) => words.push(value),
            (_, None) if is_required(argument) => {
                let what = string_field(argument, "valueHint").unwrap_or_default();
                return Err(format!("it needs an argument that the file does not give: {what}"));
            }
            (_, None) => {}
        }
    }
    Ok(words)
}

fn is_required(input: &Map<String, Value>) -> bool {
    input.get("isRequired") == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_of_the_registry_is_parsed() {
        let package = json!({
            "name": "io.github.ada/files", "description": "Files", "version": "1.0.0",
            "packages": [{
                "registryType": "npm", "identifier": "@ada/files", "version": "1.2.3",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "/data"},
                    {"type": "named", "name": "--level", "default": "2"},
                ],
                "environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}],
            }],
        });
        let read = parse_registry_document(&package).unwrap();
        let Ok(ImportedServer {
            name,
            transport: ImportedTransport::Program { program, arguments, environment, .. },
            ..
        }) = &read[0]
        else {
            panic!("{read:?}")
        };
        assert_eq!((name.as_str(), program.as_str()), ("files", "npx"));
        assert_eq!(arguments, &["-y", "@ada/files@1.2.3", "/data", "--level", "2"]);
        assert_eq!(environment["TOKEN"], "${TOKEN}");
        let remote = json!({"server": {
            "name": "a/web", "remotes": [{"type": "streamable-http", "url": "https://a.example/mcp"}],
        }});
        let read = parse_registry_document(&remote).unwrap();
        assert!(matches!(
            &read[0],
            Ok(ImportedServer { transport: ImportedTransport::Url { .. }, .. })
        ));
        let odd =
            json!({"name": "a/b", "packages": [{"registryType": "nuget", "identifier": "x"}]});
        assert!(parse_registry_document(&odd).unwrap()[0].is_err());
        assert!(parse_registry_document(&json!({"name": "a"})).is_none());
    }
}
