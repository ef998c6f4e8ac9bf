//! Reads declared resources and resource templates.

use std::path::{Component, Path};

use model::placeholder::is_plain_name;
use model::{CustomHolds, CustomResource, CustomResourceTemplate, CustomWork};
use serde_json::{Value, json};
use url::Url;

use super::{CustomSettingsReader, DeclarationHead, placeholder_names, uri_template};

/// The fields of a resource that can hold its content.
struct ResourceContentFields<'a> {
    text: Option<&'a str>,
    blob: Option<&'a str>,
    file: Option<&'a str>,
    url: Option<&'a str>,
}

impl CustomSettingsReader<'_> {
    pub(super) fn read_resource(&mut self, number: usize, resource: &CustomResource) {
        let at = format!("resources[{number}]");
        let (before, uri) = (self.problems.len(), &*resource.uri);
        if Url::parse(uri).is_err() || uri.contains(['{', '}']) || !is_printable(uri) {
            self.report_problem(
                format!("{at}.uri"),
                "is to be a whole address, such as `docs://handbook`",
            );
        }
        self.check_name(&format!("{at}.name"), &resource.name);
        let key = format!("resource/{uri}");
        self.reserve_key(
            &format!("{at}.uri"),
            &key,
            format!("Resource with URI '{uri}' already exists"),
        );
        let ways = ResourceContentFields {
            text: resource.text.as_deref(),
            blob: resource.blob.as_deref(),
            file: resource.file.as_deref(),
            url: resource.url.as_deref(),
        };
        let given = [
            ("text", ways.text.is_some()),
            ("blob", ways.blob.is_some()),
            ("file", ways.file.is_some()),
            ("url", ways.url.is_some()),
        ];
        self.check_exactly_one(&at, &given);
        let holds = self.read_content(&at, &ways, &[]);
        let shown = self.mime_type_extra(&at, resource.mime_type.as_deref());
        let (Some(holds), true) = (holds, before == self.problems.len()) else { return };
        let (title, uri) = (resource.title.as_deref(), uri.into());
        let (name, description) = (&*resource.name, &*resource.description);
        let head = DeclarationHead { at, key, name, title, description };
        self.add_declaration(head, CustomWork::Resource { uri, holds }, &shown);
    }

    pub(super) fn read_resource_template(
        &mut self,
        number: usize,
        template: &CustomResourceTemplate,
    ) {
        let at = format!("resource_templates[{number}]");
        let (before, uri_template) = (self.problems.len(), &*template.uri_template);
        let variables = match uri_template::parse_uri_variables(uri_template) {
            Ok(variables) => variables,
            Err(why) => {
                self.report_problem(format!("{at}.uri_template"), why);
                Vec::new()
            }
        };
        self.check_name(&format!("{at}.name"), &template.name);
        let key = format!("template/{uri_template}");
        let twice = format!("Resource with URI '{uri_template}' already exists");
        self.reserve_key(&format!("{at}.uri_template"), &key, twice);
        let (text, file) = (template.text.as_deref(), template.file.as_deref());
        let ways = ResourceContentFields { text, blob: None, file, url: template.url.as_deref() };
        let given =
            [("text", text.is_some()), ("file", file.is_some()), ("url", ways.url.is_some())];
        self.check_exactly_one(&at, &given);
        let holds = self.read_content(&at, &ways, &variables);
        let shown = self.mime_type_extra(&at, template.mime_type.as_deref());
        for (name, values) in &template.values {
            let at = format!("{at}.values.{name}");
            self.check_values(&at, values);
            if !variables.contains(&&**name) {
                self.report_problem(at, "is no name in the address");
            }
        }
        let (Some(holds), true) = (holds, before == self.problems.len()) else { return };
        let (title, uri_template) = (template.title.as_deref(), uri_template.into());
        let (name, description) = (&*template.name, &*template.description);
        let head = DeclarationHead { at, key, name, title, description };
        let values = template.values.clone();
        self.add_declaration(head, CustomWork::Template { uri_template, holds, values }, &shown);
    }

    fn read_content(
        &mut self,
        at: &str,
        ways: &ResourceContentFields<'_>,
        variables: &[&str],
    ) -> Option<CustomHolds> {
        if let Some(text) = ways.text {
            self.check_length(&format!("{at}.text"), text);
            return Some(CustomHolds::Text(text.into()));
        }
        if let Some(blob) = ways.blob {
            self.check_length(&format!("{at}.blob"), blob);
            if !is_base64(blob) {
                self.report_problem(
                    format!("{at}.blob"),
                    "is to be base64, with its `=` at the end",
                );
            }
            return Some(CustomHolds::Blob(blob.into()));
        }
        let is_name = |name: &str| variables.contains(&name);
        let at = format!("{at}.{}", if ways.file.is_some() { "file" } else { "url" });
        let place = ways.file.or(ways.url)?;
        for name in
            placeholder_names(place, &is_plain_name).into_iter().filter(|name| !is_name(name))
        {
            self.report_problem(
                &*at,
                format!("has `{{{{{name}}}}}`, which is no part of the address"),
            );
        }
        match ways.file {
            Some(file) => {
                if !is_plain_absolute_path(Path::new(file)) {
                    self.report_problem(at, "is to be an absolute path without `.` and `..`");
                }
                Some(CustomHolds::File(file.into()))
            }
            None => self.build_get_request(&at, place, &is_name).map(CustomHolds::Request),
        }
    }

    fn mime_type_extra(&mut self, at: &str, mime_type: Option<&str>) -> Vec<(&'static str, Value)> {
        let Some(mime_type) = mime_type else { return Vec::new() };
        if !mime_type.contains('/') || !is_printable(mime_type) {
            self.report_problem(
                format!("{at}.mime_type"),
                "is to be a type, such as `text/markdown`",
            );
        }
        vec![("mimeType", json!(mime_type))]
    }
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || c.is_whitespace() && c != ' ')
}

/// Whether a path is absolute and has no `.` or `..`.
fn is_plain_absolute_path(path: &Path) -> bool {
    let is_plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    // `Path` normalizes `/a/./b` to `/a/b`, so dots are checked in the text.
    let has_dot = path.to_string_lossy().split('/').any(|part| part == ".");
    path.is_absolute() && path.components().all(is_plain) && !has_dot
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && text.len() - body.len() <= 2 && body.bytes().all(allowed)
}
