//! Tests of a job, response by response, without network or clock.

use serde_json::json;

use super::*;

fn polling() -> StatusPolling {
    let polling = json!({
        "status_url_template": "https://api.test/jobs/{{ answer.id }}", "status_path": "job.state",
        "completed": ["done", "true"], "failed": ["broken"], "result_path": "job.result",
        "cancel": {"method": "DELETE", "url_template": "https://api.test/jobs/{{ answer.id }}"},
    });
    serde_json::from_value(polling).unwrap()
}

fn reply(status: u16, answer: Value) -> UpstreamReply {
    let hidden = [("token".to_owned(), "hunter2".into())].into();
    let failed = CallFailure::new(ErrorCode::UpstreamError, format!("status {status}"), false);
    let is_good = (200..300).contains(&status);
    let mut reply = UpstreamReply::unsent("s:a".parse().unwrap(), failed.clone());
    reply.outcome.upstream_status = Some(status);
    reply.outcome.error = (!is_good).then_some(failed);
    if is_good {
        reply.outcome.status = CallStatus::Completed;
        reply.outcome.result = Some(answer);
    }
    UpstreamReply { url: Some("https://api.test/jobs".parse().unwrap()), hidden, ..reply }
}

fn follow(method: &str, polling: &StatusPolling) -> JobPolling {
    JobPolling::compile(method, polling).ok().unwrap()
}

fn begin<'a>(follow: &'a JobPolling, answer: &Value) -> JobStart<'a> {
    follow.start_job(Instant::now(), &Map::new(), reply(202, answer.clone()))
}

fn going(follow: &JobPolling) -> Box<PolledJob<'_>> {
    match begin(follow, &json!({"id": 7})) {
        JobStart::Running(job) => job,
        JobStart::Finished(outcome, _) => panic!("{outcome:?}"),
    }
}

fn state(word: impl Into<Value>) -> UpstreamReply {
    reply(200, json!({"job": {"state": word.into(), "result": {"n": 1}}}))
}

fn over(looked: PollResult) -> Outcome {
    match looked {
        PollResult::Finished(outcome, _) | PollResult::Abandoned(outcome) => *outcome,
        PollResult::Running(word) => panic!("it goes on: {word}"),
        PollResult::Redirected => panic!("it is sent on"),
    }
}

fn failure(looked: PollResult) -> (ErrorCode, bool, String) {
    let failure = over(looked).error.unwrap();
    (failure.code, failure.retryable, failure.message)
}

fn goes_on(looked: PollResult) -> String {
    match looked {
        PollResult::Running(word) => word,
        PollResult::Redirected => panic!("it is sent on"),
        PollResult::Finished(outcome, _) | PollResult::Abandoned(outcome) => panic!("{outcome:?}"),
    }
}

#[test]
fn a_job_is_polled_until_it_is_done() {
    let follow = follow("POST", &polling());
    let mut job = going(&follow);
    let request = job.status_request();
    assert_eq!((request.method.as_str(), request.url.as_str()), ("GET", "https://api.test/jobs/7"));
    assert_eq!(goes_on(job.handle_reply(state("queued"))), "queued");
    assert_eq!(goes_on(job.handle_reply(state("a\u{1b}[2J"))), "a\\u{1b}[2J");
    let outcome = over(job.handle_reply(state("done")));
    assert_eq!((outcome.status, outcome.result), (CallStatus::Completed, Some(json!({"n": 1}))));
    assert_eq!(over(job.handle_reply(state(true))).status, CallStatus::Completed);
}

#[test]
fn the_field_name_of_a_status_may_contain_dots() {
    let (status_path, result_path) = (Some("/@odata.status".into()), Some("/rows/0".into()));
    let follow = follow("POST", &StatusPolling { status_path, result_path, ..polling() });
    let answer = json!({"@odata.status": "done", "rows": [5]});
    assert_eq!(over(going(&follow).handle_reply(reply(200, answer))).result, Some(json!(5)));
}

#[test]
fn a_job_that_is_done_at_once_is_not_polled() {
    let follow = follow("POST", &polling());
    let done = json!({"job": {"state": "done", "result": 5}});
    let JobStart::Finished(outcome, _) = begin(&follow, &done) else { panic!("it goes on") };
    assert_eq!(outcome.result, Some(json!(5)));
    let refused = follow.start_job(Instant::now(), &Map::new(), reply(400, Value::Null));
    assert!(
        matches!(refused, JobStart::Finished(outcome, _) if outcome.upstream_status == Some(400))
    );
}

#[test]
fn a_job_without_a_usable_status_url_fails_and_says_that_it_was_started() {
    let follow = follow("POST", &polling());
    for answer in [json!({}), json!({"id": ".."}), json!("x"), Value::Null] {
        let JobStart::Finished(outcome, _) = begin(&follow, &answer) else { panic!("it goes on") };
        let failure = outcome.error.unwrap();
        assert_eq!((failure.code, failure.retryable), (ErrorCode::PollFailed, false));
        assert!(failure.message.starts_with("the work was begun"), "{}", failure.message);
    }
}

#[test]
fn an_api_may_return_the_result_at_once() {
    let follow = follow("POST", &polling());
    for status in [200, 201, 204] {
        let first = reply(status, json!({"rows": 2}));
        let JobStart::Finished(outcome, _) = follow.start_job(Instant::now(), &Map::new(), first)
        else {
            panic!("it goes on")
        };
        assert_eq!((outcome.error, outcome.result), (None, Some(json!({"rows": 2}))));
    }
    // A missing argument does not mean that the response is the result.
    let url = "https://api.test/{{ args.shop }}/jobs/{{ answer.id }}";
    let of_shop = super::tests::follow(
        "POST",
        &StatusPolling { status_url_template: url.into(), ..polling() },
    );
    let JobStart::Finished(outcome, _) =
        of_shop.start_job(Instant::now(), &Map::new(), reply(200, json!({"id": 7})))
    else {
        panic!("it goes on")
    };
    assert!(outcome.error.unwrap().message.starts_with("the work was begun"));
    // With a status or a status URL in the response, the job continues.
    let begun = |answer| follow.start_job(Instant::now(), &Map::new(), reply(200, answer));
    assert!(matches!(begun(json!({"id": 7})), JobStart::Running(_)));
    let JobStart::Finished(outcome, _) = begun(json!({"job": {"state": "queued"}})) else {
        panic!("it goes on")
    };
    assert!(outcome.error.unwrap().message.starts_with("the work was begun"));
}

/// Polling by HTTP status instead of a status field.
fn by_status(url: &str) -> JobPolling {
    follow(
        "POST",
        &serde_json::from_value(json!({"status_url_template": url, "completed": [],
        "failed": []}))
        .unwrap(),
    )
}

#[test]
fn without_a_status_path_a_job_continues_while_the_response_is_202() {
    let follow = by_status("{{ location }}");
    let begin = || {
        let first = with("location", "/jobs/7", reply(202, Value::Null));
        match follow.start_job(Instant::now(), &Map::new(), first) {
            JobStart::Running(job) => job,
            JobStart::Finished(outcome, _) => panic!("{outcome:?}"),
        }
    };
    let mut job = begin();
    assert_eq!(goes_on(job.handle_reply(reply(202, json!({"status": "done"})))), "");
    assert_eq!(goes_on(job.handle_reply(reply(503, Value::Null))), "status 503");
    let outcome = over(job.handle_reply(reply(200, json!({"status": "running"}))));
    assert_eq!((outcome.error, outcome.result), (None, Some(json!({"status": "running"}))));
    assert_eq!(over(begin().handle_reply(reply(204, Value::Null))).status, CallStatus::Completed);
    let refused = failure(begin().handle_reply(reply(400, Value::Null)));
    assert_eq!((refused.0, refused.1), (ErrorCode::PollFailed, false));
    let out = begin().timeout_outcome().error.unwrap();
    assert!(out.message.contains("still answered with 202"), "{}", out.message);
    // A redirect without a body also starts a job, even with status 201.
    let created = with("location", "/jobs/7", reply(201, Value::Null));
    assert!(matches!(follow.start_job(Instant::now(), &Map::new(), created), JobStart::Running(_)));
}

#[test]
fn the_status_url_may_be_in_any_header() {
    let follow = by_status(r#"{{ headers["operation-location"] }}"#);
    let begin = |name, text| {
        let first = with(name, text, reply(202, Value::Null));
        match follow.start_job(Instant::now(), &Map::new(), first) {
            JobStart::Running(job) => Ok(job.status_request().url.to_string()),
            JobStart::Finished(outcome, _) => Err(outcome.error.unwrap().message),
        }
    };
    let told = begin("operation-location", "https://api.test/operations/7?v=1");
    assert_eq!(told.unwrap(), "https://api.test/operations/7?v=1");
    assert!(begin("operation-location", "https://evil.test/").unwrap_err().contains("another"));
    assert!(begin("location", "/jobs/7").unwrap_err().contains("not in the first answer"));
}

#[test]
fn a_failure_quotes_the_upstream_without_credentials() {
    let follow = follow("PUT", &polling());
    let answer = json!({"job": {"state": "broken", "why": "no hunter2"}});
    let (code, retryable, message) = failure(going(&follow).handle_reply(reply(200, answer)));
    assert_eq!((code, retryable), (ErrorCode::PollFailed, false));
    assert!(message.contains("no ***"), "{message}");
    let answer = json!({"job": {"state": "done"}});
    let (code, _, message) = failure(going(&follow).handle_reply(reply(200, answer)));
    assert_eq!(code, ErrorCode::PollFailed);
    assert!(message.ends_with("no result at `job.result`"), "{message}");
}

#[test]
fn waits_grow_and_the_number_of_polls_is_limited() {
    let follow = follow("POST", &polling());
    let mut job = going(&follow);
    let waits: Vec<Duration> = std::iter::from_fn(|| job.next_wait()).collect();
    let seconds: Vec<f64> = waits.iter().map(Duration::as_secs_f64).collect();
    assert_eq!(&seconds[..4], [1.0, 1.5, 2.25, 3.375]);
    assert_eq!((seconds.len(), seconds[59]), (60, 30.0));
    let failure = job.timeout_outcome().error.unwrap();
    assert_eq!((failure.code, failure.retryable), (ErrorCode::PollTimeout, false));
    assert!(failure.message.ends_with("there is no status at `job.state`"), "{}", failure.message);
    let wild =
        StatusPolling { interval_ms: 0, max_interval_ms: 0, attempts: u32::MAX, ..polling() };
    let wild = super::JobPolling::compile("PUT", &wild).ok().unwrap();
    let mut job = going(&wild);
    assert_eq!(std::iter::from_fn(|| job.next_wait()).min(), Some(Duration::from_millis(100)));
    assert_eq!(job.poll_count(), 1_000);
    assert!(job.timeout_outcome().error.unwrap().retryable);
}

#[test]
fn an_upstream_may_request_a_longer_wait_within_limits() {
    let follow = follow("POST", &polling());
    let mut job = going(&follow);
    let later = |seconds| UpstreamReply {
        retry_after: Some(Duration::from_secs(seconds)),
        ..state("queued")
    };
    goes_on(job.handle_reply(later(7)));
    assert_eq!(job.next_wait(), Some(Duration::from_secs(7)));
    assert_eq!(job.next_wait(), Some(Duration::from_millis(1_500)), "it was for one wait");
    goes_on(job.handle_reply(later(u64::MAX)));
    assert_eq!(job.next_wait(), Some(MAX_RETRY_AFTER));
    goes_on(job.handle_reply(later(0)));
    assert!(job.next_wait() > Some(Duration::from_secs(3)));
}

#[test]
fn polls_may_fail_but_not_repeatedly() {
    let follow = follow("PUT", &polling());
    let mut job = going(&follow);
    for _ in 0..3 {
        for status in [500, 503, 404, 429] {
            goes_on(job.handle_reply(reply(status, Value::Null)));
        }
        assert_eq!(goes_on(job.handle_reply(state("queued"))), "queued");
    }
    for _ in 1..MAX_FAILED_POLLS {
        goes_on(job.handle_reply(reply(502, Value::Null)));
    }
    let (code, retryable, message) = failure(job.handle_reply(reply(502, Value::Null)));
    assert_eq!((code, retryable), (ErrorCode::PollFailed, true));
    assert!(message.contains("status 502"), "{message}");
    let (code, retryable, _) = failure(going(&follow).handle_reply(reply(403, Value::Null)));
    assert_eq!((code, retryable), (ErrorCode::PollFailed, false));
    // Requests prevented by our own limits do not count as failures of the upstream.
    let limited = CallFailure::new(ErrorCode::RateLimited, "later".to_owned(), true);
    for _ in 0..20 {
        let limited = CallFailure { retry_after: Some(9), ..limited.clone() };
        goes_on(job.handle_reply(UpstreamReply::unsent("s:a".parse().unwrap(), limited)));
    }
    assert!(job.next_wait() >= Some(Duration::from_secs(9)));
}

#[test]
fn a_job_has_a_cancel_request_if_the_settings_define_one() {
    let follow_it = follow("POST", &polling());
    let request = going(&follow_it).cancel_request().unwrap();
    assert_eq!((request.method.as_str(), request.url.path()), ("DELETE", "/jobs/7"));
    let without = follow("POST", &StatusPolling { cancel: None, ..polling() });
    assert_eq!(going(&without).cancel_request(), None);
}

/// A redirect response.
fn see(status: u16, location: &str) -> UpstreamReply {
    with("location", location, reply(status, Value::Null))
}

fn with(name: &'static str, text: &str, mut reply: UpstreamReply) -> UpstreamReply {
    reply.headers.insert(name, text.parse().unwrap());
    reply
}

/// Handles a redirect and checks that it is followed without waiting.
fn sent_on(job: &mut PolledJob<'_>, reply: UpstreamReply) -> String {
    assert!(matches!(job.handle_reply(reply), PollResult::Redirected));
    assert_eq!(job.next_wait(), Some(Duration::ZERO));
    job.status_request().url.into()
}

#[test]
fn a_status_response_may_redirect_to_the_result() {
    let whole = follow("POST", &StatusPolling { result_path: None, ..polling() });
    for status in [302, 303] {
        let mut job = going(&whole);
        job.next_wait();
        assert_eq!(sent_on(&mut job, see(status, "/results/7#top")), "https://api.test/results/7");
        let outcome = over(job.handle_reply(reply(200, json!([1, 2]))));
        assert_eq!((outcome.status, outcome.result), (CallStatus::Completed, Some(json!([1, 2]))));
        assert_eq!(job.poll_count(), 1, "it is the same look");
    }
    // The result need not be JSON.
    let mut job = going(&whole);
    sent_on(&mut job, see(303, "/results/7"));
    let mut text = reply(200, Value::Null);
    text.outcome.result = None;
    text.outcome.content = vec![model::Content::Text { text: "a report".to_owned() }];
    assert_eq!(over(job.handle_reply(text)).content.len(), 1);
    // A result path also applies to the redirect target.
    let follow = follow("POST", &polling());
    let mut job = going(&follow);
    sent_on(&mut job, see(303, "/results/7"));
    let outcome = over(job.handle_reply(reply(200, json!({"job": {"result": 5}}))));
    assert_eq!(outcome.result, Some(json!(5)));
    let mut job = going(&follow);
    sent_on(&mut job, see(303, "/results/7"));
    assert!(
        failure(job.handle_reply(reply(200, json!([])))).2.contains("no result at `job.result`")
    );
}

#[test]
fn a_redirect_target_may_report_the_status_too() {
    let follow = follow("POST", &polling());
    let mut job = going(&follow);
    sent_on(&mut job, see(303, "/jobs/seven"));
    assert_eq!(goes_on(job.handle_reply(state("baking"))), "baking");
    assert_eq!(job.status_request().url.path(), "/jobs/7", "each look begins there");
    sent_on(&mut job, see(303, "/jobs/seven"));
    assert_eq!(failure(job.handle_reply(state("broken"))).0, ErrorCode::PollFailed);
    // The same resource at another URL is not the result.
    for status in [301, 307, 308] {
        sent_on(&mut job, see(status, "/elsewhere/7"));
        assert_eq!(goes_on(job.handle_reply(reply(200, json!({})))), "");
    }
    // A 202 response of the target means that the job continues.
    sent_on(&mut job, see(303, "/results/7"));
    assert_eq!(goes_on(job.handle_reply(reply(202, json!({})))), "");
    // A target that does not exist yet is polled again.
    sent_on(&mut job, see(303, "/results/7"));
    goes_on(job.handle_reply(reply(404, Value::Null)));
}

#[test]
fn redirects_to_another_origin_or_in_circles_are_not_followed() {
    let follow = follow("PUT", &polling());
    for elsewhere in
        ["https://other.test/", "http://api.test:8080/", "//other.test/", "https://u@api.test/"]
    {
        let (code, retryable, _) = failure(going(&follow).handle_reply(see(303, elsewhere)));
        assert_eq!((code, retryable), (ErrorCode::PollFailed, false), "{elsewhere}");
    }
    assert_eq!(
        failure(going(&follow).handle_reply(reply(303, Value::Null))).0,
        ErrorCode::PollFailed
    );
    let mut job = going(&follow);
    for _ in 0..3 {
        sent_on(&mut job, see(307, "/jobs/7"));
    }
    assert_eq!(failure(job.handle_reply(see(307, "/jobs/7"))).0, ErrorCode::PollFailed);
}

#[test]
fn the_first_response_may_be_only_a_redirect() {
    let begin = |url: &str, reply: UpstreamReply| {
        let follow = follow(
            "POST",
            &StatusPolling { status_url_template: url.into(), cancel: None, ..polling() },
        );
        match follow.start_job(Instant::now(), &Map::new(), reply) {
            JobStart::Running(job) => Ok(job.status_request().url.to_string()),
            JobStart::Finished(outcome, _) => Err(outcome.error.map(|failure| failure.code)),
        }
    };
    let location = "{{ location }}";
    assert_eq!(begin(location, see(303, "/jobs/8")), Ok("https://api.test/jobs/8".to_owned()));
    let elsewhere = begin(location, see(303, "https://other.test/"));
    assert_eq!(elsewhere, Err(Some(ErrorCode::PollFailed)));
    // These redirect another request, or the settings do not use the `Location` header.
    let fixed = "https://api.test/jobs/last";
    for failed in [begin(location, see(307, "/jobs/8")), begin(fixed, see(303, "/jobs/8"))] {
        assert_eq!(failed, Err(Some(ErrorCode::UpstreamError)));
    }
}
