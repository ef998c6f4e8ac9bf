//! Retries a call where that helps and is safe (requirement E5). Each attempt stays within the deadline of the call and
//! the retry budget of its source, and passes the same gate as any other call.

use std::time::Duration;

use catalog::source::Source;
use execution::{Again, Reply, Request};
use model::{Auth, ErrorCode, Failure, ToolId, TraceContext};
use tokio::time::{Instant, sleep_until, timeout_at};
use upstream::http::Limits;

use super::traced;
use crate::call::CallContext;
use crate::credentials::{For, Whose};
use crate::gates::{Pass, Stay, Verdict, Wish, verdict};
use crate::upstreams::bridge::{self, Bridged, Failed, Retry, Wanted};
use crate::upstreams::{number, number_of_subject};
use crate::view::AgentView;
use crate::view::ready::HttpReady;

/// Maximum backoff before the first retry. It doubles with each retry, up to `MAX_BACKOFF`.
const FIRST_REST: Duration = Duration::from_millis(200);
const LONGEST_REST: Duration = Duration::from_secs(5);

/// The attempts of one call.
struct Tries<'a> {
    view: &'a AgentView,
    wish: Wish<'a>,
    /// Deadline of all attempts, and the time limit it was computed from.
    until: Instant,
    time: Duration,
    made: u32,
    /// Start of the wait for admission, if the wait used up more than half of the time limit.
    is_short_since: Option<Instant>,
}

impl<'a> Tries<'a> {
    fn new(view: &'a AgentView, source: &'a Source, tool: &'a ToolId, time: Duration) -> Self {
        let limits = &source.profile.limits;
        let (agent, subject) = (number(&view.agent), number_of_subject(&view.agent));
        let is_hurried = view.patience.is_some_and(|patience| patience < time);
        let until = view.until(time);
        let of_tool = view.snapshot.tool(tool).and_then(|entry| entry.tool.overridden.limit);
        let source = &source.id;
        let wish = Wish {
            source,
            limits,
            tool: Some(tool),
            of_tool,
            agent,
            subject,
            until: Some(until),
            is_a_look: false,
            is_hurried,
        };
        Self { view, wish, until, time, made: 1, is_short_since: None }
    }

    fn stay(&self, pass: Pass) -> Stay<'a> {
        Stay::new(self.view.crib.gates(), self.wish, pass)
    }

    async fn first(&mut self) -> Result<Pass, Failure> {
        let asked = Instant::now();
        let pass = self.view.crib.gates().enter(self.wish).await?;
        let left = self.until.saturating_duration_since(Instant::now());
        self.is_short_since = (left < self.time / 2).then_some(asked);
        Ok(pass)
    }

    /// Waits for the backoff, at least `Retry-After`, and admits the next attempt. `None` if no retry is possible or
    /// allowed.
    async fn next(&mut self, wished: Option<u64>) -> Option<Pass> {
        if u32::from(self.wish.limits.retries()) < self.made {
            return None;
        }
        let wished = Duration::from_secs(wished.unwrap_or_default());
        let rest = wished.saturating_add(random_part(longest_rest(self.made)));
        let at = Instant::now().checked_add(rest).filter(|at| *at < self.until)?;
        let gates = self.view.crib.gates();
        if !gates.may_try_again(self.wish) {
            return None;
        }
        sleep_until(at).await;
        let pass = gates.enter_again(self.wish).await.ok()?;
        self.made += 1;
        Some(pass)
    }

    /// Time left until the deadline.
    fn left(&self) -> Duration {
        bridge::left_until(self.until)
    }

    /// Adjusts the verdict for the breaker. A timeout does not count against the source if the client's own timeout was
    /// shorter. It does not count either if admission took most of the time while the source answered others: the
    /// source is just busy.
    fn verdict(&self, verdict: Verdict, failure: Option<&Failure>) -> Verdict {
        let is_late = failure.is_some_and(|failure| failure.code == ErrorCode::UpstreamTimeout);
        let is_busy = |since| self.view.crib.gates().has_answered_since(self.wish.source, since);
        let is_hurried = self.wish.is_hurried || self.is_short_since.is_some_and(is_busy);
        if is_late && is_hurried { Verdict::Nothing } else { verdict }
    }

    fn told(&self, failure: &mut Failure) {
        if 1 < self.made {
            failure.message = format!("{} (tried {} times)", failure.message, self.made);
        }
    }
}

impl AgentView {
    /// Sends a request of a tool, with retries.
    pub(in crate::view) async fn send(
        &self,
        source: &Source,
        http: &HttpReady,
        request: Request,
        trace: Option<&TraceContext>,
    ) -> Result<Reply, Failure> {
        self.try_to_send(self.tries(source, http), source, http, (request, trace)).await
    }

    /// Sends a status request. It belongs to its call, which was already counted.
    pub(super) async fn look(
        &self,
        source: &Source,
        http: &HttpReady,
        request: Request,
        trace: Option<&TraceContext>,
    ) -> Result<Reply, Failure> {
        let mut tries = self.tries(source, http);
        tries.wish.is_a_look = true;
        self.try_to_send(tries, source, http, (request, trace)).await
    }

    fn tries<'a>(&'a self, source: &'a Source, http: &'a HttpReady) -> Tries<'a> {
        let time = source.profile.limits.timeout().unwrap_or(Limits::default().deadline);
        Tries::new(self, source, http.tool.id(), time)
    }

    async fn try_to_send(
        &self,
        mut tries: Tries<'_>,
        source: &Source,
        http: &HttpReady,
        (mut request, trace): (Request, Option<&TraceContext>),
    ) -> Result<Reply, Failure> {
        let mut pass = tries.first().await?;
        let start = Instant::now();
        loop {
            let spare = Again::Once.does_no_harm(&request).then(|| request.clone());
            let mut reply = self.send_once(source, http, (request, trace), &tries).await?;
            let outcome = &mut reply.outcome;
            let error = outcome.error.as_ref();
            pass.end(tries.verdict(verdict(error, outcome.upstream_status), error));
            if let Some(failure) = &mut outcome.error {
                if let Some(spare) = spare.filter(|request| reply.again.does_no_harm(request))
                    && let Some(next) = tries.next(failure.retry_after).await
                {
                    (pass, request) = (next, spare);
                    continue;
                }
                tries.told(failure);
            }
            if 1 < tries.made {
                outcome.execution_time_ms =
                    start.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
            }
            return Ok(reply);
        }
    }

    /// Sends one attempt. If the upstream rejects a cached token, the request is sent once more with a new token. This
    /// happens only if repeating is harmless, or the response says that the token was the reason. A 401 alone does not
    /// prove that: some APIs relay the 401 of another service.
    async fn send_once(
        &self,
        source: &Source,
        http: &HttpReady,
        (request, trace): (Request, Option<&TraceContext>),
        tries: &Tries<'_>,
    ) -> Result<Reply, Failure> {
        let (keyring, secrets) = (self.crib.keyring(), self.crib.secrets());
        let whose = Whose::Agent(&self.agent, &self.came_with);
        let at = (&source.id, &source.profile);
        let late = |_| late(&source.profile.auth);
        let client = keyring.identified(&http.client, at, http.origin.clone(), secrets);
        let client = timeout_at(tries.until, client).await.map_err(late)??;
        let client =
            client.sharing(self.crib.gates().long_answers_of(&source.id, tries.wish.agent));
        let wanted = For::tool(source, http.audience.as_ref());
        let send = async |request| {
            let given = keyring.given(&wanted, whose, secrets);
            let (given, held) = timeout_at(tries.until, given).await.map_err(late)??;
            let given = traced(given, trace);
            let max_bytes = source.profile.limits.max_answer();
            let max_bytes = max_bytes.unwrap_or(Limits::default().max_bytes);
            let limits = Limits { deadline: tries.left(), max_bytes };
            let reply =
                http.tool.call(&client, limits, request, &given, http.origin.as_ref()).await;
            let refused = held.filter(|_| reply.outcome.upstream_status == Some(401));
            let is_stale = match refused {
                Some(held) => keyring.refused(&held).await,
                None => false,
            };
            Ok::<_, Failure>((reply, is_stale))
        };
        let spare = source.profile.auth.is_a_token().then(|| request.clone());
        let (reply, is_stale) = send(request).await?;
        let does_no_harm =
            |request: &Request| reply.refuses_token || Again::Twice.does_no_harm(request);
        match spare.filter(|request| is_stale && does_no_harm(request)) {
            Some(request) => Ok(send(request).await?.0),
            None => Ok(reply),
        }
    }

    /// Sends a request once without admission: a cancellation reduces load.
    pub(super) async fn send_now(
        &self,
        source: &Source,
        http: &HttpReady,
        traced_request: (Request, Option<&TraceContext>),
    ) -> Result<Reply, Failure> {
        let tries = Tries::new(self, source, http.tool.id(), Limits::default().deadline);
        self.send_once(source, http, traced_request, &tries).await
    }

    /// The deadline of something with this time limit, or of the client if that is sooner.
    pub(super) fn until(&self, time: Duration) -> Instant {
        Instant::now() + self.patience.map_or(time, |patience| patience.min(time))
    }

    /// The deadline of a request to the MCP server of a source.
    pub(in crate::view) fn until_of_server(&self, source: &Source) -> Instant {
        self.until(source.profile.limits.timeout().unwrap_or(bridge::DEADLINE))
    }

    /// Admits a request that is sent only once; `usual` is its time limit unless the source sets one.
    pub(in crate::view) async fn enter<'a>(
        &'a self,
        source: &'a Source,
        tool: &'a ToolId,
        usual: Duration,
    ) -> Result<Stay<'a>, Failure> {
        let time = source.profile.limits.timeout().unwrap_or(usual);
        let mut tries = Tries::new(self, source, tool, time);
        let pass = tries.first().await?;
        Ok(tries.stay(pass))
    }

    /// Sends a request to the MCP server of a source for this agent, with retries.
    pub(in crate::view) async fn ask_server(
        &self,
        source: &Source,
        tool: &ToolId,
        mut wanted: Wanted,
        call: &CallContext,
    ) -> Bridged {
        let time = source.profile.limits.timeout().unwrap_or(bridge::DEADLINE);
        let mut tries = Tries::new(self, source, tool, time);
        let mut stay = match tries.first().await {
            Ok(pass) => tries.stay(pass),
            Err(failure) => return failure.into(),
        };
        wanted.due = Some(tries.until);
        // Without a client timeout, the time in which the caller is asked for input does not count.
        wanted.until = tries.wish.is_hurried.then_some(tries.until);
        loop {
            let asked = self.ask_with_token(source, wanted.clone(), (tries.until, &mut stay), call);
            let mut bridged = asked.await.unwrap_or_else(|failed| failed);
            stay.end(tries.verdict(bridged.verdict(), bridged.failure()));
            if let Bridged::Failed(Failed { failure, retry: Retry::IfHarmless, .. }) = &mut bridged
            {
                failure.retryable |= wanted.is_repeatable;
                if wanted.is_repeatable
                    && let Some(next) = tries.next(failure.retry_after).await
                {
                    stay = tries.stay(next);
                    wanted.until = Some(tries.until);
                    continue;
                }
                tries.told(failure);
            }
            return bridged;
        }
    }
}

/// Failure for a credential that did not arrive in time. The request was not sent yet.
pub(super) fn late(auth: &Auth) -> Failure {
    let message = "there was no time left to get a credential for the source";
    let code = match auth.is_a_token() {
        true if auth.is_per_agent() => ErrorCode::TokenExchangeFailed,
        true => ErrorCode::ClientCredentialsFailed,
        false => ErrorCode::UpstreamTimeout,
    };
    Failure::new(code, message, true)
}

fn longest_rest(made: u32) -> Duration {
    let doubled = made.saturating_sub(1).min(16);
    (FIRST_REST * (1 << doubled)).min(LONGEST_REST)
}

/// Full jitter: callers that failed together do not retry together.
fn random_part(longest: Duration) -> Duration {
    let mut bytes = [0; 4];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system has random numbers");
    longest.mul_f64(f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_is_jittered() {
        let millis = |made| longest_rest(made).as_millis();
        assert_eq!([1, 2, 3, 6, 40].map(millis), [200, 400, 800, 5_000, 5_000]);
        let drawn: Vec<_> = (0..200).map(|_| random_part(FIRST_REST)).collect();
        assert!(drawn.iter().all(|rest| *rest <= FIRST_REST));
        let (short, long) = (FIRST_REST / 4, FIRST_REST * 3 / 4);
        assert!(drawn.iter().any(|rest| *rest < short) && drawn.iter().any(|rest| long < *rest));
    }
}
