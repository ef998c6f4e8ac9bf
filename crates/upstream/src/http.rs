//! Requests to upstreams: guarded, limited in time and size, and never sent twice.
//!
//! The one thing below us that tries again is the pool: it takes another connection if the first had been closed before
//! a byte of the request was written to it. Whatever may have reached the upstream is reported and left to the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use reqwest::{Method, header};
use reqwest::{Response, header::HeaderMap, header::HeaderValue};
pub use url::{Host, Origin, Url};

use crate::aside::{LONG, aside};
use crate::egress::{Allowed, Egress, EgressError, InvalidAllowed};
use tokio::sync::Semaphore;

use crate::large::{LARGE, Large, Room};
use crate::resolver::Lookups;
use coming::Coming;
use connections::Connections;
pub use error::{Cause, HttpError};
use identity::Identified;
pub use identity::{Identity, InvalidIdentity};
pub use opened::Opened;
pub use retry_after::retry_after;
use watched::Watched;

mod coming;
mod connections;
mod error;
mod identity;
mod opened;
mod retry_after;
mod watched;

/// Sends requests within one policy. A copy shares its connections; another policy, from [`HttpClient::with_egress`],
/// has connections of its own and shares only the certificates.
#[derive(Clone)]
pub struct HttpClient {
    egress: Arc<Egress>,
    connections: Connections,
    shown: Option<Arc<Shown>>,
    identified: Option<Arc<Identified>>,
    room: Option<Room>,
    /// How many long answers of the room one caller may have.
    share: Option<Arc<Semaphore>>,
    /// How long an answer may take to begin.
    first: Duration,
    silence: Duration,
}

/// A credential for the documents of one origin. It cannot be printed.
pub struct Shown {
    /// Nobody else is shown it.
    pub origin: Origin,
    /// Sent with each request.
    pub headers: HeaderMap,
    /// A name and a value that are added to the query.
    pub query: Option<(String, String)>,
}

/// What to ask. It cannot be printed: headers and body hold secrets.
#[derive(Clone)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: Method,
    /// Where to.
    pub url: Url,
    /// Those that say how the body is sent are replaced.
    pub headers: HeaderMap,
    /// As it is sent.
    pub body: Option<Vec<u8>>,
}

/// When to stop waiting and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For everything together: connecting, waiting and reading.
    pub deadline: Duration,
    /// Of the body, after decoding.
    pub max_bytes: u64,
}

/// What came back, whatever its status. It cannot be printed either.
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// Decoded. If it says what went wrong and is no page, there is no more than [`LONG`] of it.
    pub body: Vec<u8>,
    /// Where it came from, after redirects.
    pub url: Url,
    /// Its places among the long answers of its upstream.
    pub large: Large,
}

/// Where redirects may lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redirects {
    /// To the same origin.
    Within,
    Anywhere,
}

const MAX_REDIRECTS: usize = 3;

/// How long an answer of the API of a source may take to begin, unless half of the time of a call is longer.
const FIRST: Duration = Duration::from_secs(15);
/// The longest silence in an answer, unless a third of all its time is longer: who has minutes may think for one.
const SILENCE: Duration = Duration::from_secs(10);

impl Default for Limits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(30), max_bytes: 10 * 1024 * 1024 }
    }
}

impl HttpClient {
    /// Loads the machine's root certificates: make one, and the others [from it](Self::with_egress).
    pub fn new(egress: Egress) -> Self {
        let egress = Arc::new(egress);
        let connections = Connections::new(egress.clone(), Lookups::of_the_system());
        let (shown, identified, room, share) = (None, None, None, None);
        let (first, silence) = (Duration::MAX, SILENCE);
        Self { egress, connections, shown, identified, room, share, first, silence }
    }

    /// The same for another policy.
    pub fn with_egress(&self, egress: Egress) -> Self {
        let egress = Arc::new(egress);
        self.over(egress.clone(), self.connections.with_egress(egress))
    }

    fn over(&self, egress: Arc<Egress>, connections: Connections) -> Self {
        let identified = self.identified.as_ref().map(|it| Arc::new(it.over(&connections)));
        Self { egress, connections, identified, ..self.clone() }
    }

    /// The same, with what a source says it may reach: addresses, networks, host names.
    pub fn allowing_texts(&self, more: &[Box<str>]) -> Result<Self, InvalidAllowed> {
        if more.is_empty() {
            return Ok(self.clone());
        }
        let more: Result<Vec<Allowed>, _> = more.iter().map(|text| text.parse()).collect();
        Ok(self.allowing(more?))
    }

    /// The same, with more open than before: what one source may reach.
    pub fn allowing(&self, more: impl IntoIterator<Item = Allowed>) -> Self {
        let mut egress = Egress::clone(&self.egress);
        egress.allowed.extend(more);
        self.with_egress(egress)
    }

    /// The same through a proxy, which may be anywhere. Proxies in the environment are never used.
    pub fn with_proxy(&self, proxy: &Url) -> Result<Self, HttpError> {
        Ok(self.over(self.egress.clone(), self.connections.with_proxy(proxy)?))
    }

    /// The same for agents that may name any host: all of theirs are looked up a few at a time, and leave places to others.
    pub fn for_names_of_agents(&self) -> Self {
        self.over(self.egress.clone(), self.connections.for_names_of_agents())
    }

    /// The same, with a credential for [documents](Self::get_document) of one origin. What is [sent](Self::send) says for
    /// itself what it shows.
    pub fn showing(&self, shown: Shown) -> Self {
        Self { shown: Some(Arc::new(shown)), ..self.clone() }
    }

    /// The same for one upstream: how many of its long answers are read at once, and how long a call may take.
    pub fn within(&self, room: Room, time: Duration) -> Self {
        Self { room: Some(room), first: FIRST.max(time / 2), ..self.clone() }
    }

    /// The same for one caller: as many of those are its own as there are places here.
    pub fn sharing(&self, share: Arc<Semaphore>) -> Self {
        Self { share: Some(share), ..self.clone() }
    }

    /// The same for the upstream of another client.
    pub fn in_room_of(&self, other: &Self) -> Self {
        Self { room: other.room.clone(), first: other.first, ..self.clone() }
    }

    /// Whether a url may be asked, as far as that can be said without asking for the addresses of its name.
    pub fn check_url(&self, url: &Url) -> Result<(), EgressError> {
        self.egress.check_url(url)
    }

    /// Sends a request once. A redirect is an answer like any other.
    pub async fn send(&self, request: Request, limits: Limits) -> Result<Answer, HttpError> {
        let url = request.url.clone();
        let repeatable = request.method.is_idempotent();
        // Only the sending of a body can be watched. Without one, it may always have been sent.
        let empty = request.body.as_ref().is_none_or(Vec::is_empty);
        let sent = Arc::new(AtomicBool::new(empty));
        let deadline = limits.deadline;
        let exchange = self.exchange(request, limits, LONG, &sent);
        tokio::time::timeout(deadline, exchange).await.unwrap_or_else(|_| {
            let origin = origin(&url);
            let sent = sent.load(Ordering::Relaxed);
            Err(HttpError::Timeout { origin, deadline, sent, repeatable })
        })
    }

    /// Reads a document, such as a specification. Redirects are followed a few times within the same origin; all of
    /// it before one deadline.
    pub async fn get_document(&self, url: &Url, limits: Limits) -> Result<Answer, HttpError> {
        in_time(url, limits.deadline, self.follow(url, limits, Redirects::Within)).await
    }

    /// Reads a page that anybody may read. Redirects are followed a few times to wherever may be reached; this must not be
    /// asked of a client that [shows](Self::showing) something.
    pub async fn get_page(&self, url: &Url, limits: Limits) -> Result<Answer, HttpError> {
        in_time(url, limits.deadline, self.follow(url, limits, Redirects::Anywhere)).await
    }

    async fn follow(
        &self,
        url: &Url,
        limits: Limits,
        redirects: Redirects,
    ) -> Result<Answer, HttpError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.document(&url);
            // A page is shown whatever its status; of a document that is not there, nothing is.
            let of_failure = if redirects == Redirects::Anywhere { usize::MAX } else { LONG };
            let mut answer = self.exchange(request, limits, of_failure, &Arc::default()).await?;
            // Without the credential that was added: addresses are kept and shown.
            answer.url = url.clone();
            let Some(next) = answer.redirect() else { return Ok(answer) };
            let next = self.without_shown(next);
            self.egress.check_url(&next)?;
            if redirects == Redirects::Within && next.origin() != url.origin() {
                return Err(HttpError::Redirected { to: origin(&next) });
            }
            url = next;
        }
        Err(HttpError::TooManyRedirects { limit: MAX_REDIRECTS })
    }

    fn document(&self, url: &Url) -> Request {
        let mut request = Request::get(url.clone());
        if let Some(shown) = self.shown.as_ref().filter(|shown| shown.origin == url.origin()) {
            request.headers.extend(shown.headers.clone());
            if let Some((name, value)) = &shown.query {
                request.url.query_pairs_mut().append_pair(name, value);
            }
        }
        request
    }

    /// A redirect may repeat what was added to the query.
    fn without_shown(&self, mut url: Url) -> Url {
        let name = self.shown.as_ref().and_then(|shown| Some(&shown.query.as_ref()?.0));
        if let Some(name) = name.filter(|name| url.query_pairs().any(|(other, _)| other == **name))
        {
            let others = url.query_pairs().filter(|(other, _)| *other != **name);
            let others: Vec<_> =
                others.map(|(one, two)| (one.into_owned(), two.into_owned())).collect();
            url.query_pairs_mut().clear().extend_pairs(others);
        }
        url
    }

    /// Of an answer that says what went wrong, so much will do.
    async fn exchange(
        &self,
        request: Request,
        limits: Limits,
        of_failure: usize,
        sent: &Arc<AtomicBool>,
    ) -> Result<Answer, HttpError> {
        // A little before all of its time is over, so that what is said is why.
        let until = tokio::time::Instant::now() + limits.deadline.mul_f64(0.95);
        self.egress.check_url(&request.url)?;
        let url = request.url.clone();
        let method = request.method.clone();
        let client = self.connections_to(&url).to(&url).await?;
        let empty = request.body.as_ref().is_none_or(Vec::is_empty);
        let first = self.first;
        let begun = tokio::time::timeout(first, client.execute(request.prepare(sent.clone())));
        let response = begun.await.map_err(|_| HttpError::Timeout {
            origin: origin(&url),
            deadline: first,
            sent: empty || sent.load(Ordering::Relaxed),
            repeatable: method.is_idempotent(),
        })?;
        let mut response =
            response.map_err(|error| HttpError::from_reqwest(error, &url, &method))?;
        let mut large = Large::not_yet(self.room.as_ref(), self.share.as_ref());
        let silence = self.silence.max(limits.deadline / 3);
        let status = response.status().as_u16();
        let enough = if response.status().is_success() { usize::MAX } else { of_failure };
        let within = Within { bytes: limits.max_bytes, enough, silence, until };
        check_encoding(&response)?;
        let headers = std::mem::take(response.headers_mut());
        let body = read(Coming::of(response), &method, within, &mut large).await?;
        Ok(Answer { status, headers, body, url, large })
    }
}

async fn in_time(
    url: &Url,
    deadline: Duration,
    followed: impl Future<Output = Result<Answer, HttpError>>,
) -> Result<Answer, HttpError> {
    tokio::time::timeout(deadline, followed).await.unwrap_or_else(|_| {
        Err(HttpError::Timeout { origin: origin(url), deadline, sent: true, repeatable: true })
    })
}

impl Request {
    /// A request for what is there.
    pub fn get(url: Url) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None }
    }

    /// The length of the body is said in a header, even of no body where one is usual (RFC 9110, section 8.6), as some
    /// upstreams insist on it.
    fn prepare(self, sent: Arc<AtomicBool>) -> reqwest::Request {
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
            *request.body_mut() = Some(reqwest::Body::wrap(Watched::new(body, sent)));
        }
        request
    }
}

impl Answer {
    /// As it was sent, with its parameters.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// Has it read aside, when it is the turn of its upstream; none if that took longer than so. What has begun then
    /// goes on, and the answer keeps its places until it has ended.
    pub async fn read_aside<T: Send + 'static>(
        self,
        within: Duration,
        read: impl FnOnce(Self) -> T + Send + 'static,
    ) -> Option<T> {
        let reading = async {
            let turn = self.large.turn().await;
            aside(move || {
                let done = read(self);
                drop(turn);
                done
            })
            .await
        };
        tokio::time::timeout(within, reading).await.ok()
    }

    /// Where to look instead. A redirect that leads nowhere is an ordinary answer.
    fn redirect(&self) -> Option<Url> {
        if !matches!(self.status, 301 | 302 | 303 | 307 | 308) {
            return None;
        }
        self.url.join(self.headers.get(header::LOCATION)?.to_str().ok()?).ok()
    }
}

/// What an answer may be.
struct Within {
    bytes: u64,
    /// So much of it will do: how it begins says what went wrong.
    enough: usize,
    /// How long nothing may come of it.
    silence: Duration,
    /// How long to wait for [a place, or for its pace](crate::large).
    until: tokio::time::Instant,
}

/// Counts while reading: the announced length is a claim, and none is left of it after decoding.
async fn read(
    mut coming: Coming,
    method: &Method,
    Within { bytes: limit, enough, silence, until }: Within,
    large: &mut Large,
) -> Result<Vec<u8>, HttpError> {
    let announced = coming.announced();
    if announced.is_some_and(|bytes| limit < bytes) && enough == usize::MAX {
        return Err(HttpError::TooLarge { limit, announced });
    }
    let mut body = Vec::new();
    loop {
        let chunk = tokio::time::timeout(silence, coming.next()).await;
        let chunk = chunk.map_err(|_| {
            let (origin, repeatable) = (origin(coming.url()), method.is_idempotent());
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
        make_room(&mut body, chunk.len(), announced.unwrap_or(limit));
        body.extend_from_slice(&chunk);
        if tokio::time::timeout_at(until, large.holds(body.len())).await.is_err() {
            let (origin, repeatable) = (origin(coming.url()), method.is_idempotent());
            return Err(match large.has_waited() {
                true => HttpError::Crowded { origin, repeatable },
                false => HttpError::Lengthy { origin, repeatable },
            });
        }
    }
}

/// What is large has room for all of it at once: to grow again and again would take twice the memory while it is moved.
/// Room that is not used takes none.
fn make_room(body: &mut Vec<u8>, more: usize, expected: u64) {
    let length = body.len() + more;
    if LARGE < length && body.capacity() < length {
        let expected = usize::try_from(expected).unwrap_or(usize::MAX).max(length);
        body.reserve_exact(expected - body.len());
    }
}

/// What could be decoded has been, and its header is gone.
fn check_encoding(response: &Response) -> Result<(), HttpError> {
    let mut encodings = response.headers().get_all(header::CONTENT_ENCODING).iter();
    match encodings.any(|encoding| encoding != "identity") {
        true => Err(HttpError::Encoded),
        false => Ok(()),
    }
}

pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests;
