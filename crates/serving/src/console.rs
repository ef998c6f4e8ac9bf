//! `/console`: the web console (requirement X5). A page, a style sheet and modules of our own, compiled into the
//! program; they use the public API. See `docs/adr/0042-a-console-of-platform-parts.md`.
//!
//! The files contain no secret, so they need no credential. All content comes from the API, which requires an admin.

use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
};
use axum::response::{IntoResponse as _, Response};

use crate::answer::Named;
use crate::etag::{IfNoneMatch, Tag};
use crate::problem::Problem;
use crate::route::Route;

pub(crate) const PATH: &str = "/console";

/// Allows only our own files and API: no markup from elsewhere, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const PAGE: File = File { kind: HTML, text: include_str!("console/index.html") };
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

#[derive(Clone, Copy)]
struct File {
    kind: &'static str,
    text: &'static str,
}

/// Every file except the page, by name.
const FILES: [(&str, File); 18] = [
    ("style.css", File { kind: CSS, text: include_str!("console/style.css") }),
    script("main.js", include_str!("console/main.js")),
    script("api.js", include_str!("console/api.js")),
    script("dom.js", include_str!("console/dom.js")),
    script("form.js", include_str!("console/form.js")),
    script("list.js", include_str!("console/list.js")),
    script("live.js", include_str!("console/live.js")),
    script("overview.js", include_str!("console/overview.js")),
    script("sources.js", include_str!("console/sources.js")),
    script("tools.js", include_str!("console/tools.js")),
    script("picture.js", include_str!("console/picture.js")),
    script("thing.js", include_str!("console/thing.js")),
    script("groups.js", include_str!("console/groups.js")),
    script("policies.js", include_str!("console/policies.js")),
    script("labels.js", include_str!("console/labels.js")),
    script("keys.js", include_str!("console/keys.js")),
    script("activity.js", include_str!("console/activity.js")),
    script("explain.js", include_str!("console/explain.js")),
];

const fn script(name: &'static str, text: &'static str) -> (&'static str, File) {
    (name, File { kind: SCRIPT, text })
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_console", PATH, page)
            .open("console", "Show the web console")
            .shows_file("text/html"),
        Route::get("get_console_file", "/console/{name}", file)
            .open("console", "Show a file of the web console")
            .shows_file("*/*"),
    ]
}

async fn page(headers: HeaderMap) -> Response {
    PAGE.answer(&headers)
}

async fn file(headers: HeaderMap, Named(name): Named) -> Result<Response, Problem> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, file) = found.ok_or_else(|| Problem::not_found("file of the console", &name))?;
    Ok(file.answer(&headers))
}

impl File {
    /// Browsers revalidate on each load and receive only changed files, so a new program version updates the console.
    fn answer(self, asked: &HeaderMap) -> Response {
        let tag = Tag::of_bytes(self.text.as_bytes());
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
            (ETAG, tag.header()),
        ];
        match IfNoneMatch::read(asked).has(tag) {
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
        use crate::admin::groups::GroupBody;
        use crate::schemas::Shape;
        use model::{KeyProfile, LabelProfile, PolicyRules, SourceProfile};
        for (screen, shape) in [
            ("sources.js", Shape::of::<SourceProfile>()),
            ("groups.js", Shape::of::<GroupBody>()),
            ("policies.js", Shape::of::<PolicyRules>()),
            ("labels.js", Shape::of::<LabelProfile>()),
            ("keys.js", Shape::of::<KeyProfile>()),
        ] {
            let (_, file) = FILES.iter().find(|(name, _)| *name == screen).expect("a screen");
            let (_, list) = file.text.split_once("const BODY = [").expect("a list");
            let (list, _) = list.split_once(']').expect("its end");
            let mut sent: Vec<_> =
                list.split(',').map(|word| word.trim().trim_matches('\'')).collect();
            let schemas = shape.schemas();
            let taken = schemas.resolve(schemas.get(shape))["properties"].as_object();
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
