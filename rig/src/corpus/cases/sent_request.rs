//! A request as the upstream receives it.

use execution::RenderedRequest;
use url::Position;

pub(super) struct SentRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl From<RenderedRequest> for SentRequest {
    fn from(request: RenderedRequest) -> Self {
        Self {
            path: request.url.path().to_owned(),
            query: request.url[Position::BeforeQuery..Position::AfterQuery].to_owned(),
            method: request.method,
            headers: request.headers,
            body: request.body.unwrap_or_default(),
        }
    }
}

impl SentRequest {
    /// The values of all headers with this name, in any case.
    pub(super) fn headers(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.headers("cookie").into_iter().flat_map(|line| line.split(';'));
        let mut pairs = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn content_type(&self) -> &str {
        self.headers("content-type").first().copied().unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The parts of a `multipart/form-data` body (RFC 7578).
    pub(super) fn parts(&self) -> Option<Vec<FormPart>> {
        let (_, boundary) = self.content_type().split_once("boundary=")?;
        let boundary = boundary.split(';').next().unwrap_or_default().trim_matches('"');
        let text = self.text();
        let mut pieces: Vec<&str> = text.split(&format!("--{boundary}")).skip(1).collect();
        pieces.pop();
        Some(pieces.into_iter().map(FormPart::parse_part).collect())
    }
}

pub(super) struct FormPart {
    pub name: String,
    pub has_file_name: bool,
    pub content_type: String,
    pub text: String,
}

impl FormPart {
    fn parse_part(text: &str) -> Self {
        let (head, text) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let lines = || head.lines().filter_map(|line| line.split_once(':'));
        let header = |name: &str| {
            let mut named = lines().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            named.next().map(|(_, value)| value.trim()).unwrap_or_default()
        };
        let option = |name: &str| {
            let mut options = header("content-disposition").split(';').map(str::trim);
            options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
        };
        Self {
            name: option("name").unwrap_or_default().trim_matches('"').to_owned(),
            has_file_name: option("filename").is_some_and(|name| name != "\"\""),
            content_type: header("content-type").to_owned(),
            text: text.strip_suffix("\r\n").unwrap_or(text).to_owned(),
        }
    }
}
