//! Client of an embedding endpoint that is compatible with `/v1/embeddings` of `OpenAI`. Its responses are
//! size-limited.

use std::sync::Arc;
use std::time::Duration;

use calls::secrets::SecretStore;
use model::SecretRef;
use search::EmbeddingVector;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::json;
use upstream::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{ExchangeLimits, HttpClient, Method, UpstreamRequest, Url};

use super::embedding_backend::EmbeddingError;

/// Maximum response size per text, in bytes: more than any vector takes.
const MAX_RESPONSE_BYTES: u64 = 128 << 10;

pub(super) struct EmbeddingEndpoint {
    url: Url,
    model: Box<str>,
    key: Option<SecretRef>,
    client: HttpClient,
    secrets: Option<Arc<SecretStore>>,
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingEndpoint {
    /// The endpoint may be at a non-public address, because an operator configured it. Redirects elsewhere stay
    /// forbidden.
    pub(super) fn new(
        url: Url,
        model: Box<str>,
        key: Option<SecretRef>,
        client: &HttpClient,
        secrets: Option<Arc<SecretStore>>,
    ) -> Self {
        let port = url.port_or_known_default();
        let place = url.host_str().zip(port).map(|(host, port)| format!("{host}:{port}").into());
        let allowing = place.and_then(|place| client.with_allowed_texts(&[place]).ok());
        Self { client: allowing.unwrap_or_else(|| client.clone()), url, model, key, secrets }
    }

    pub(super) fn name(&self) -> String {
        format!("{}\n{}", self.url, self.model)
    }

    /// Requests one vector for each text, in their order.
    pub(super) async fn request_vectors(
        &self,
        texts: &[String],
        deadline: Duration,
    ) -> Result<Vec<EmbeddingVector>, EmbeddingError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            let secrets = self.secrets.as_ref().ok_or(EmbeddingError::NoSecretStore)?;
            let key = secrets.read_secret(key).await?;
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()));
            let mut value = value.map_err(|_| EmbeddingError::InvalidKey)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let body = Some(body.to_string().into_bytes());
        let request =
            UpstreamRequest { method: Method::POST, url: self.url.clone(), headers, body };
        let max_bytes = MAX_RESPONSE_BYTES * texts.len() as u64;
        let answer = self.client.send(request, ExchangeLimits { deadline, max_bytes }).await?;
        if answer.status != 200 {
            return Err(EmbeddingError::Status { status: answer.status });
        }
        parse_vectors(&answer.body, texts.len()).ok_or(EmbeddingError::InvalidAnswer)
    }
}

fn parse_vectors(body: &[u8], count: usize) -> Option<Vec<EmbeddingVector>> {
    let mut answered: EmbeddingsResponse = serde_json::from_slice(body).ok()?;
    answered.data.sort_by_key(|it| it.index);
    let is_whole = answered.data.len() == count
        && answered.data.iter().enumerate().all(|(place, it)| it.index == place);
    let vectors = answered.data.iter().map(|it| EmbeddingVector::new(&it.embedding));
    vectors.collect::<Option<Vec<EmbeddingVector>>>().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_one_vector_for_each_text_in_their_order() {
        let two =
            br#"{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}"#;
        let vectors = parse_vectors(two, 2).unwrap();
        assert_eq!(vectors[0], EmbeddingVector::new(&[1.0, 0.0]).unwrap());
        assert!(parse_vectors(two, 1).is_none() && parse_vectors(two, 3).is_none());
        for bad in [
            "",
            "{}",
            "[]",
            r#"{"data": []}"#,
            r#"{"data": [{"index": 0, "embedding": []}]}"#,
            r#"{"data": [{"index": 0, "embedding": [0, 0]}]}"#,
            r#"{"data": [{"index": 7, "embedding": [1, 0]}]}"#,
            r#"{"data": [{"index": 0, "embedding": ["a"]}]}"#,
        ] {
            assert!(parse_vectors(bad.as_bytes(), 1).is_none(), "{bad}");
        }
    }
}
