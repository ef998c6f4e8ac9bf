//! `/console`: the web console (requirement X5). A page, a style sheet and modules of our own, compiled into the
//! program; they use the public API. See `docs/adr/0042-a-console-of-platform-parts.md`.
//!
//! The files contain no secret, so they need no credential. All content comes from the API, which requires an admin.

use api_types::problem::Problem;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
};
use axum::response::{IntoResponse as _, Response};
use endpoint::etag::{EntityTag, IfNoneMatch};
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;

pub const CONSOLE_PATH: &str = "/console";

/// Allows only our own files and API: no markup from elsewhere, no framing.
const CONSOLE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const PAGE: ConsoleFile =
    ConsoleFile { media_type: HTML, text: include_str!("console/index.html") };
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

#[derive(Clone, Copy)]
struct ConsoleFile {
    media_type: &'static str,
    text: &'static str,
}

/// Every file except the page, by name.
const FILES: [(&str, ConsoleFile); 18] = [
    ("style.css", ConsoleFile { media_type: CSS, text: include_str!("console/style.css") }),
    script_file("main.js", include_str!("console/main.js")),
    script_file("api.js", include_str!("console/api.js")),
    script_file("dom.js", include_str!("console/dom.js")),
    script_file("form.js", include_str!("console/form.js")),
    script_file("list.js", include_str!("console/list.js")),
    script_file("live.js", include_str!("console/live.js")),
    script_file("overview.js", include_str!("console/overview.js")),
    script_file("sources.js", include_str!("console/sources.js")),
    script_file("tools.js", include_str!("console/tools.js")),
    script_file("picture.js", include_str!("console/picture.js")),
    script_file("thing.js", include_str!("console/thing.js")),
    script_file("groups.js", include_str!("console/groups.js")),
    script_file("policies.js", include_str!("console/policies.js")),
    script_file("labels.js", include_str!("console/labels.js")),
    script_file("keys.js", include_str!("console/keys.js")),
    script_file("activity.js", include_str!("console/activity.js")),
    script_file("explain.js", include_str!("console/explain.js")),
];

const fn script_file(name: &'static str, text: &'static str) -> (&'static str, ConsoleFile) {
    (name, ConsoleFile { media_type: SCRIPT, text })
}

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_console", CONSOLE_PATH, get_console)
            .open_to_all("console", "Show the web console")
            .returns_file("text/html"),
        ApiRoute::get("get_console_file", "/console/{name}", get_console_file)
            .open_to_all("console", "Show a file of the web console")
            .returns_file("*/*"),
    ]
}

async fn get_console(headers: HeaderMap) -> Response {
    PAGE.respond_to(&headers)
}

async fn get_console_file(
    headers: HeaderMap,
    PathName(name): PathName,
) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, file) = found.ok_or_else(|| Problem::not_found("file of the console", &name))?;
    Ok(file.respond_to(&headers))
}

impl ConsoleFile {
    /// Browsers revalidate on each load and receive only changed files, so a new program version updates the console.
    fn respond_to(self, asked: &HeaderMap) -> Response {
        let tag = EntityTag::of_bytes(self.text.as_bytes());
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(self.media_type)),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONSOLE_POLICY)),
            (ETAG, tag.to_header()),
        ];
        match IfNoneMatch::from_headers(asked).contains_tag(tag) {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => (headers, self.text).into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 125_000;

    #[test]
    fn the_console_is_small_and_loads_nothing_external() {
        let files = FILES.iter().map(|(name, file)| (*name, file.text));
        let files: Vec<_> = files.chain([("index.html", PAGE.text)]).collect();
        let size: usize = files.iter().map(|(_, text)| text.len()).sum();
        assert!(size < LIMIT, "{size} bytes");
        for (name, text) in files {
            // Text of others becomes text nodes; nothing is loaded from elsewhere or stored beyond the tab.
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "DOMParser",
                "srcdoc",
                "eval(",
                "new Function",
                "localStorage",
                "document.cookie",
                "https://",
                "import(",
            ] {
                assert!(!text.contains(word), "{name} has `{word}`");
            }
        }
    }

    #[test]
    fn forms_send_exactly_the_fields_that_the_api_accepts() {
        pub(crate) use crate::admin::groups::GroupBody;
        use api_types::type_schemas::TypeSchema;
        use model::{KeyProfile, LabelProfile, PolicyRules, SourceProfile};
        for (screen, shape) in [
            ("sources.js", TypeSchema::for_type::<SourceProfile>()),
            ("groups.js", TypeSchema::for_type::<GroupBody>()),
            ("policies.js", TypeSchema::for_type::<PolicyRules>()),
            ("labels.js", TypeSchema::for_type::<LabelProfile>()),
            ("keys.js", TypeSchema::for_type::<KeyProfile>()),
        ] {
            let (_, file) = FILES.iter().find(|(name, _)| *name == screen).expect("a screen");
            let (_, list) = file.text.split_once("const BODY = [").expect("a list");
            let (list, _) = list.split_once(']').expect("its end");
            let mut sent: Vec<_> =
                list.split(',').map(|word| word.trim().trim_matches('\'')).collect();
            let schemas = shape.schema_set();
            let taken = schemas.resolve_ref(schemas.get(shape))["properties"].as_object();
            let mut taken: Vec<_> = taken.expect("members").keys().map(String::as_str).collect();
            sent.sort_unstable();
            taken.sort_unstable();
            assert_eq!(sent, taken, "{screen}");
        }
    }

    #[test]
    fn every_imported_module_exists() {
        for (name, file) in FILES {
            for line in file.text.lines().filter(|line| line.starts_with("import ")) {
                let (_, rest) = line.rsplit_once("'./").expect("a module beside it");
                let wanted = rest.trim_end_matches("';");
                assert!(FILES.iter().any(|(known, _)| *known == wanted), "{name}: {wanted}");
            }
        }
    }
}
