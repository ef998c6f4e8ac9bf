//! `server.json` of the official MCP registry: one server with its remote URLs and packages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{NotTaken, Place, Read, Server, text};

/// The servers of such a file, or of a response of the registry; `None` if the document has a different format.
pub(super) fn servers(document: &Value) -> Option<Read> {
    if let Some(Value::Array(all)) = document.get("servers") {
        return Some(
            all.iter().filter_map(|one| one_of(one.get("server").unwrap_or(one))).collect(),
        );
    }
    one_of(document.get("server").unwrap_or(document)).map(|one| vec![one])
}

fn one_of(document: &Value) -> Option<Result<Server, NotTaken>> {
    let document = document.as_object()?;
    if !document.contains_key("packages") && !document.contains_key("remotes") {
        return None;
    }
    let whole = text(document, "name")?;
    // Use the last segment of a name like `io.github.ada/files`; the rest is its namespace.
    let name = whole.rsplit('/').next().unwrap_or(&whole).to_owned();
    let description = text(document, "description").unwrap_or_default();
    let objects = |member: &str| document.get(member).and_then(Value::as_array).cloned();
    let remotes = objects("remotes").unwrap_or_default();
    let packages = objects("packages").unwrap_or_default();
    let remote = remotes.iter().filter_map(Value::as_object).map(remote);
    let package = packages.iter().filter_map(Value::as_object).map(package);
    let mut why = "it has no place and no package that is known".to_owned();
    for place in remote.chain(package) {
        match place {
            Ok(place) => return Some(Ok(Server { name, description, place })),
            Err(reason) => why = reason,
        }
    }
    Some(Err(NotTaken { name, why }))
}

fn remote(remote: &Map<String, Value>) -> Result<Place, String> {
    let url = text(remote, "url").ok_or("a remote has no `url`")?;
    if url.contains('{') {
        return Err(format!("its url has gaps to fill in: `{url}`"));
    }
    let headers = inputs(remote.get("headers"))?;
    Ok(Place::Url { url, headers })
}

fn package(package: &Map<String, Value>) -> Result<Place, String> {
    let kind = package.get("transport").and_then(|transport| transport.get("type"));
    if kind.is_some_and(|kind| kind != "stdio") {
        return Err(
            "its package is started as a server of its own: start it, and give its url".to_owned()
        );
    }
    let identifier = text(package, "identifier").ok_or("a package has no `identifier`")?;
    let version = text(package, "version");
    let registry = text(package, "registryType").unwrap_or_default();
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
    let program = text(package, "runtimeHint").unwrap_or_else(|| usual.to_owned());
    let environment = inputs(package.get("environmentVariables"))?;
    let mut arguments = match arguments(package.get("runtimeArguments"))? {
        given if given.is_empty() => before,
        given => given,
    };
    if registry == "oci" {
        arguments.extend(environment.keys().flat_map(|name| ["-e".to_owned(), name.clone()]));
    }
    arguments.push(what);
    arguments.extend(self::arguments(package.get("packageArguments"))?);
    Ok(Place::Program { program, arguments, environment, folder: None })
}

/// Values by name. A required value that the file lacks becomes a reference to a variable, which the user must set.
fn inputs(list: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let mut inputs = BTreeMap::new();
    for input in list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object) {
        let name = text(input, "name").ok_or("a value has no name")?;
        match text(input, "value").or_else(|| text(input, "default")) {
            Some(value) if !value.contains('{') => drop(inputs.insert(name, value)),
            // Most likely a secret: the server reads it from its environment.
            _ if is_required(input) => drop(inputs.insert(name.clone(), format!("${{{name}}}"))),
            _ => {}
        }
    }
    Ok(inputs)
}

fn arguments(list: Option<&Value>) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for argument in
        list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
    {
        let value = text(argument, "value").or_else(|| text(argument, "default"));
        let value = value.filter(|value| !value.contains('{'));
        let name = text(argument, "name")
            .filter(|_| argument.get("type").is_some_and(|kind| kind == "named"));
        match (name, value) {
            (Some(name), Some(value)) => words.extend([name, value]),
            (None, Some(value)) => words.push(value),
            (_, None) if is_required(argument) => {
                let what = text(argument, "valueHint").unwrap_or_default();
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
        let read = servers(&package).unwrap();
        let Ok(Server {
            name, place: Place::Program { program, arguments, environment, .. }, ..
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
        let read = servers(&remote).unwrap();
        assert!(matches!(&read[0], Ok(Server { place: Place::Url { .. }, .. })));
        let odd =
            json!({"name": "a/b", "packages": [{"registryType": "nuget", "identifier": "x"}]});
        assert!(servers(&odd).unwrap()[0].is_err());
        assert!(servers(&json!({"name": "a"})).is_none());
    }
}
