//! The tool `fetch_url`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use upstream::http::{ExchangeLimits, HttpClient, Url};

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema};

pub(crate) static FETCH_URL: BuiltinTool = BuiltinTool {
    name: "fetch_url",
    title: "Fetch a page",
    description: "Fetches a text from the web by GET: a page, a JSON document, a file. Only public addresses, and those that an admin opened for it.",
    tags: &["web", "http", "download", "page"],
    example: r#"{"url": "https://example.com/"}"#,
    uses_network: true,
    input: arguments_schema::<FetchUrlArguments>,
    work: BuiltinWork::Fetch,
};

const LIMITS: ExchangeLimits =
    ExchangeLimits { deadline: Duration::from_secs(20), max_bytes: 2 << 20 };

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Arguments")]
pub(crate) struct FetchUrlArguments {
    /// `http` or `https`.
    #[schemars(length(min = 8, max = 2000))]
    url: String,
    /// From which character on.
    #[serde(default)]
    start: usize,
    /// How many characters at most.
    #[serde(default = "default_max_characters")]
    #[schemars(range(min = 1, max = 1_000_000))]
    max_characters: usize,
}

fn default_max_characters() -> usize {
    20_000
}

pub(crate) async fn fetch_page(arguments: FetchUrlArguments, client: &HttpClient) -> BuiltinResult {
    let FetchUrlArguments { url, start, max_characters } = arguments;
    let url = Url::parse(&url).map_err(|error| format!("this is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only `http` and `https` can be fetched".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a name or a password in it is not fetched".to_owned());
    }
    let answer = client.get_page(&url, LIMITS).await.map_err(|error| error.to_string())?;
    let content_type = answer.content_type().unwrap_or_default().to_owned();
    let Ok(text) = String::from_utf8(answer.body) else {
        return Err(format!("what is there is no text (`{content_type}`)"));
    };
    let all = text.chars().count();
    let part: String = text.chars().skip(start).take(max_characters).collect();
    let end = start.saturating_add(part.chars().count());
    let mut given = json!({
        "url": answer.url.as_str(),
        "status": answer.status,
        "content_type": content_type,
        "text": part,
    });
    if end < all {
        given["next_start"] = end.into();
        given["characters"] = all.into();
    }
    Ok(given)
}
