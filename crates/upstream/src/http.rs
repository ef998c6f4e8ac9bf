//! HTTP requests to upstreams: checked by the egress policy, limited in time and size, and never sent twice.
//!
//! The only layer below that retries is the connection pool: it takes another connection if the first one was closed
//! before a byte of the request was written. A request that may have reached the upstream is reported to the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderValue};
pub use reqwest::{Method, header};
pub use url::{Host, Origin, Url};

use body_chunks::BodyChunks;
use client_certificate::CertifiedConnections;
use limits::low_priority::{MAX_INLINE_BYTES, run_low_priority};
use tokio::sync::Semaphore;

use crate::egress::{AllowedDestination, EgressError, EgressPolicy, InvalidDestination};
use crate::egress_resolver::DnsLookups;
use crate::large_bodies::{LARGE_BODY_BYTES, LargeBodyLease, LargeBodyLimiter};
pub use client_certificate::{ClientTlsCertificate, InvalidClientCertificate};
use connection_pools::ConnectionPools;
pub use http_error::{HttpError, HttpErrorCause};
pub use retry_after::retry_after;
use send_tracking::SendTrackingBody;
pub use streaming_response::StreamingResponse;

mod body_chunks;
mod client_certificate;
mod connection_pools;
mod http_error;
mod retry_after;
mod send_tracking;
mod streaming_response;

/// Sends requests under one egress policy. A clone shares its connections; a client for another policy, from
/// [`HttpClient::with_egress`], has its own connections and shares only the root certificates.
#[derive(Clone)]
pub struct HttpClient {
    egress: Arc<EgressPolicy>,
    connections: ConnectionPools,
    credential: Option<Arc<OriginCredential>>,
    certified: Option<Arc<CertifiedConnections>>,
    body_limiter: Option<LargeBodyLimiter>,
    /// The slots for long bodies that one caller may occupy.
    caller_slots: Option<Arc<Semaphore>>,
    /// How long an upstream may take to begin its response.
    first_byte_timeout: Duration,
    silence: Duration,
}

/// A credential for the documents of one origin. It has no `Debug`, so that it cannot be printed.
pub struct OriginCredential {
    /// The only origin that receives the credential.
    pub origin: Origin,
    /// Headers sent with each request.
    pub headers: HeaderMap,
    /// A name and a value appended to the query.
    pub query: Option<(String, String)>,
}

/// A request to an upstream. It has no `Debug`, because headers and body contain secrets.
#[derive(Clone)]
pub struct UpstreamRequest {
    pub method: Method,
    pub url: Url,
    /// The client replaces headers about the framing of the body.
    pub headers: HeaderMap,
    /// The bytes of the body.
    pub body: Option<Vec<u8>>,
}

/// When to stop waiting and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// For the whole exchange: connecting, waiting and reading.
    pub deadline: Duration,
    /// The maximum size of the decoded body.
    pub max_bytes: u64,
}

/// A response, whatever its status. It has no `Debug`, because it may contain secrets.
pub struct UpstreamResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// The decoded body. Error responses are cut at [`MAX_INLINE_BYTES`] bytes, except those of `get_page`.
    pub body: Vec<u8>,
    /// The URL after redirects.
    pub url: Url,
    /// The permits for a long body of the upstream.
    pub body_lease: LargeBodyLease,
}

/// Which redirects are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedirectPolicy {
    SameOrigin,
    Anywhere,
}

const MAX_REDIRECTS: usize = 3;

/// How long an API may take to begin its response, unless half of the call's deadline is longer.
const MIN_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest pause within a response, unless a third of the deadline is longer: slow calls may pause longer.
const MIN_SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

impl Default for ExchangeLimits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(30), max_bytes: 10 * 1024 * 1024 }
    }
}

impl HttpClient {
    /// Loads the system's root certificates: create one client and derive the others [from it](Self::with_egress).
    pub fn new(egress: EgressPolicy) -> Self {
        let egress = Arc::new(egress);
        let connections = ConnectionPools::new(egress.clone(), DnsLookups::shared_system());
        let (shown, identified, room, share) = (None, None, None, None);
        let (first, silence) = (Duration::MAX, MIN_SILENCE_TIMEOUT);
        Self {
            egress,
            connections,
            credential: shown,
            certified: identified,
            body_limiter: room,
            caller_slots: share,
            first_byte_timeout: first,
            silence,
        }
    }

    /// A client for another egress policy.
    pub fn with_egress(&self, egress: EgressPolicy) -> Self {
        let egress = Arc::new(egress);
        self.with_connections(egress.clone(), self.connections.with_egress(egress))
    }

    fn with_connections(&self, egress: Arc<EgressPolicy>, connections: ConnectionPools) -> Self {
        let identified = self.certified.as_ref().map(|it| Arc::new(it.with_pools(&connections)));
        Self { egress, connections, certified: identified, ..self.clone() }
    }

    /// A client that may also reach these destinations, given as text: addresses, networks or host names.
    pub fn with_allowed_texts(&self, more: &[Box<str>]) -> Result<Self, InvalidDestination> {
        if more.is_empty() {
            return Ok(self.clone());
        }
        let more: Result<Vec<AllowedDestination>, _> =
            more.iter().map(|text| text.parse()).collect();
        Ok(self.with_allowed(more?))
    }

    /// A client that may also reach these destinations, such as those of one source.
    pub fn with_allowed(&self, more: impl IntoIterator<Item = AllowedDestination>) -> Self {
        let mut egress = EgressPolicy::clone(&self.egress);
        egress.allowed.extend(more);
        self.with_egress(egress)
    }

    /// A client that uses a proxy, which may be at any address. Proxies from the environment are never used.
    pub fn with_proxy(&self, proxy: &Url) -> Result<Self, HttpError> {
        Ok(self.with_connections(self.egress.clone(), self.connections.with_proxy(proxy)?))
    }

    /// A client for host names that agents choose: the DNS lookups of all agents together use one share of the permits.
    pub fn for_agent_hosts(&self) -> Self {
        self.with_connections(self.egress.clone(), self.connections.for_agent_hosts())
    }

    /// A client that adds a credential to requests for [documents](Self::get_document) of one origin. Requests passed
    /// to [`send`](Self::send) carry their own credential.
    pub fn with_credential(&self, shown: OriginCredential) -> Self {
        Self { credential: Some(Arc::new(shown)), ..self.clone() }
    }

    /// A client for one upstream: `room` limits its long bodies, `time` is the deadline of its calls.
    pub fn with_body_limiter(&self, room: LargeBodyLimiter, time: Duration) -> Self {
        Self {
            body_limiter: Some(room),
            first_byte_timeout: MIN_FIRST_BYTE_TIMEOUT.max(time / 2),
            ..self.clone()
        }
    }

    /// A client for one caller: `share` bounds how many of the upstream's slots for long bodies this caller occupies.
    pub fn with_caller_slots(&self, share: Arc<Semaphore>) -> Self {
        Self { caller_slots: Some(share), ..self.clone() }
    }

    /// A client for the upstream of another client: it uses the same limiter for long bodies.
    pub fn sharing_limiter_of(&self, other: &Self) -> Self {
        Self {
            body_limiter: other.body_limiter.clone(),
            first_byte_timeout: other.first_byte_timeout,
            ..self.clone()
        }
    }

    /// Checks a URL against the egress policy, as far as that is possible without a DNS lookup.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        self.egress.check_url(url)
    }

    /// Sends a request once. Redirects are returned, not followed.
    pub async fn send(
        &self,
        request: UpstreamRequest,
        limits: ExchangeLimits,
    ) -> Result<UpstreamResponse, HttpError> {
        let url = request.url.clone();
        let repeatable = request.method.is_idempotent();
        // Only the sending of a body can be observed. A request without a body always counts as sent.
        let empty = request.body.as_ref().is_none_or(Vec::is_empty);
        let sent = Arc::new(AtomicBool::new(empty));
        let deadline = limits.deadline;
        let exchange = self.exchange_request(request, limits, MAX_INLINE_BYTES, &sent);
        tokio::time::timeout(deadline, exchange).await.unwrap_or_else(|_| {
            let origin = origin_text(&url);
            let sent = sent.load(Ordering::Relaxed);
            Err(HttpError::Timeout { origin, deadline, sent, repeatable })
        })
    }

    /// Fetches a document such as a specification. A few redirects within the same origin are followed. One deadline
    /// covers everything.
    pub async fn get_document(
        &self,
        url: &Url,
        limits: ExchangeLimits,
    ) -> Result<UpstreamResponse, HttpError> {
        with_deadline(
            url,
            limits.deadline,
            self.follow_redirects(url, limits, RedirectPolicy::SameOrigin),
        )
        .await
    }

    /// Fetches a public page. A few redirects to any allowed destination are followed, so the client must have no
    /// [credential](Self::with_credential).
    pub async fn get_page(
        &self,
        url: &Url,
        limits: ExchangeLimits,
    ) -> Result<UpstreamResponse, HttpError> {
        with_deadline(
            url,
            limits.deadline,
            self.follow_redirects(url, limits, RedirectPolicy::Anywhere),
        )
        .await
    }

    async fn follow_redirects(
        &self,
        url: &Url,
        limits: ExchangeLimits,
        redirects: RedirectPolicy,
    ) -> Result<UpstreamResponse, HttpError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.document_request(&url);
            // A page is used whatever its status, so it is read whole. An error response to a document is not used.
            let of_failure =
                if redirects == RedirectPolicy::Anywhere { usize::MAX } else { MAX_INLINE_BYTES };
            let mut answer =
                self.exchange_request(request, limits, of_failure, &Arc::default()).await?;
            // Without the credential in the query, because the address is stored and displayed.
            answer.url = url.clone();
            let Some(next) = answer.redirect_target() else { return Ok(answer) };
            let next = self.strip_credential(next);
            self.egress.check_url(&next)?;
            if redirects == RedirectPolicy::SameOrigin && next.origin() != url.origin() {
                return Err(HttpError::Redirected { to: origin_text(&next) });
            }
            url = next;
        }
        Err(HttpError::TooManyRedirects { limit: MAX_REDIRECTS })
    }

    fn document_request(&self, url: &Url) -> UpstreamRequest {
        let mut request = UpstreamRequest::get(url.clone());
        if let Some(shown) = self.credential.as_ref().filter(|shown| shown.origin == url.origin()) {
            request.headers.extend(shown.headers.clone());
            if let Some((name, value)) = &shown.query {
                request.url.query_pairs_mut().append_pair(name, value);
            }
        }
        request
    }

    /// Removes the credential from the query of a redirect target, which may repeat it.
    fn strip_credential(&self, mut url: Url) -> Url {
        let name = self.credential.as_ref().and_then(|shown| Some(&shown.query.as_ref()?.0));
        if let Some(name) = name.filter(|name| url.query_pairs().any(|(other, _)| other == **name))
        {
            let others = url.query_pairs().filter(|(other, _)| *other != **name);
            let others: Vec<_> =
                others.map(|(one, two)| (one.into_owned(), two.into_owned())).collect();
            url.query_pairs_mut().clear().extend_pairs(others);
        }
        url
    }

    /// Sends one request. Of an error response at most `of_failure` bytes are read.
    async fn exchange_request(
        &self,
        request: UpstreamRequest,
        limits: ExchangeLimits,
        of_failure: usize,
        sent: &Arc<AtomicBool>,
    ) -> Result<UpstreamResponse, HttpError> {
        // A little before the deadline, so that the error names the real cause instead of a timeout.
        let until = tokio::time::Instant::now() + limits.deadline.mul_f64(0.95);
        self.egress.check_url(&request.url)?;
        let url = request.url.clone();
        let method = request.method.clone();
        let client = self.pools_for(&url).client_for(&url).await?;
        let empty = request.body.as_ref().is_none_or(Vec::is_empty);
        let first = self.first_byte_timeout;
        let begun = tokio::time::timeout(first, client.execute(request.into_reqwest(sent.clone())));
        let response = begun.await.map_err(|_| HttpError::Timeout {
            origin: origin_text(&url),
            deadline: first,
            sent: empty || sent.load(Ordering::Relaxed),
            repeatable: method.is_idempotent(),
        })?;
        let mut response =
            response.map_err(|error| HttpError::from_reqwest(error, &url, &method))?;
        let mut large =
            LargeBodyLease::unacquired(self.body_limiter.as_ref(), self.caller_slots.as_ref());
        let silence = self.silence.max(limits.deadline / 3);
        let status = response.status().as_u16();
        let enough = if response.status().is_success() { usize::MAX } else { of_failure };
        let within = BodyReadLimits {
            bytes: limits.max_bytes,
            enough,
            max_silence: silence,
            wait_until: until,
        };
        check_encoding(&response)?;
        let headers = std::mem::take(response.headers_mut());
        let body =
            read_body(BodyChunks::from_response(response), &method, within, &mut large).await?;
        Ok(UpstreamResponse { status, headers, body, url, body_lease: large })
    }
}

async fn with_deadline(
    url: &Url,
    deadline: Duration,
    followed: impl Future<Output = Result<UpstreamResponse, HttpError>>,
) -> Result<UpstreamResponse, HttpError> {
    tokio::time::timeout(deadline, followed).await.unwrap_or_else(|_| {
        Err(HttpError::Timeout { origin: origin_text(url), deadline, sent: true, repeatable: true })
    })
}

impl UpstreamRequest {
    /// A `GET` request without headers.
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None }
    }

    /// Sets `Content-Length` explicitly, also for an empty body where a body is usual (RFC 9110, section 8.6), because
    /// some upstreams insist on it.
    fn into_reqwest(self, sent: Arc<AtomicBool>) -> reqwest::Request {
        let body = self.body.unwrap_or_default();
        let usual = [Method::POST, Method::PUT, Method::PATCH].contains(&self.method);
        let mut request = reqwest::Request::new(self.method, self.url);
        *request.headers_mut() = self.headers;
        request.headers_mut().remove(header::TRANSFER_ENCODING);
        request.headers_mut().remove(header::CONTENT_LENGTH);
        if usual || !body.is_empty() {
            request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        if !body.is_empty() {
            *request.body_mut() = Some(reqwest::Body::wrap(SendTrackingBody::new(body, sent)));
        }
        request
    }
}

impl UpstreamResponse {
    /// The header as it was sent, with its parameters.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// Parses the response on the low-priority pool when it is this upstream's turn. Returns `None` if that takes
    /// longer than `within`; parsing that has begun goes on, and keeps the permits until it has finished.
    pub async fn read_low_priority<T: Send + 'static>(
        self,
        within: Duration,
        read: impl FnOnce(Self) -> T + Send + 'static,
    ) -> Option<T> {
        let reading = async {
            let turn = self.body_lease.acquire_parse_turn().await;
            run_low_priority(move || {
                let done = read(self);
                drop(turn);
                done
            })
            .await
        };
        tokio::time::timeout(within, reading).await.ok()
    }

    /// The target of a redirect. A redirect without a valid location is an ordinary response.
    fn redirect_target(&self) -> Option<Url> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        self.url.join(self.headers.get(header::LOCATION)?.to_str().ok()?).ok()
    }
}

/// The limits on reading one body.
struct BodyReadLimits {
    bytes: u64,
    /// Stop after this many bytes, because the beginning of an error response is enough.
    enough: usize,
    /// The longest pause between two chunks.
    max_silence: Duration,
    /// How long to wait for [permits and the read rate](crate::large_bodies).
    wait_until: tokio::time::Instant,
}

/// Reads a body and counts its bytes. The announced length is only a claim, and is absent for encoded bodies.
async fn read_body(
    mut coming: BodyChunks,
    method: &Method,
    BodyReadLimits { bytes: limit, enough, max_silence: silence, wait_until: until }: BodyReadLimits,
    large: &mut LargeBodyLease,
) -> Result<Vec<u8>, HttpError> {
    let announced = coming.announced_length();
    if announced.is_some_and(|bytes| limit < bytes) && enough == usize::MAX {
        return Err(HttpError::TooLarge { limit, announced });
    }
    let mut body = Vec::new();
    loop {
        let chunk = tokio::time::timeout(silence, coming.next()).await;
        let chunk = chunk.map_err(|_| {
            let (origin, repeatable) = (origin_text(coming.url()), method.is_idempotent());
            HttpError::Stalled { origin, silence, repeatable }
        })?;
        let chunk = chunk.map_err(|error| HttpError::from_reqwest(error, coming.url(), method))?;
        let Some(chunk) = chunk else { return Ok(body) };
        if enough <= body.len() + chunk.len() {
            body.extend(chunk.iter().take(enough - body.len()));
            return Ok(body);
        }
        if limit < (body.len() + chunk.len()) as u64 {
            return Err(HttpError::TooLarge { limit, announced });
        }
        reserve_body(&mut body, chunk.len(), announced.unwrap_or(limit));
        body.extend_from_slice(&chunk);
        if tokio::time::timeout_at(until, large.grow_to(body.len())).await.is_err() {
            let (origin, repeatable) = (origin_text(coming.url()), method.is_idempotent());
            return Err(match large.has_waited() {
                true => HttpError::QueuedTooLong { origin, repeatable },
                false => HttpError::TooLongToRead { origin, repeatable },
            });
        }
    }
}

/// Reserves the expected size of a large body at once: growing step by step would need twice the memory during each
/// move. Reserved memory that is not written to is not resident.
fn reserve_body(body: &mut Vec<u8>, more: usize, expected: u64) {
    let length = body.len() + more;
    if LARGE_BODY_BYTES < length && body.capacity() < length {
        let expected = usize::try_from(expected).unwrap_or(usize::MAX).max(length);
        body.reserve_exact(expected - body.len());
    }
}

/// Rejects encodings that `reqwest` did not decode; it removes the header of those it decoded.
fn check_encoding(response: &Response) -> Result<(), HttpError> {
    let mut encodings = response.headers().get_all(header::CONTENT_ENCODING).iter();
    match encodings.any(|encoding| encoding != "identity") {
        true => Err(HttpError::UnsupportedEncoding),
        false => Ok(()),
    }
}

pub fn origin_text(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests;
