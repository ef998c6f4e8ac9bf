//! The gates of sources, without a source behind them.

use serde_json::json;
use tokio::task::JoinHandle;

use super::*;

fn id(name: &str) -> SourceId {
    name.parse().unwrap()
}

async fn enter(gates: &SourceGates, name: &str, agent: u64) -> Result<AdmittedCall, CallFailure> {
    gates.admit(wish(&id(name), &SourceLimits::default(), None, agent)).await
}

fn wish<'a>(
    source: &'a SourceId,
    limits: &'a SourceLimits,
    tool: Option<&'a ToolId>,
    agent: u64,
) -> AdmissionRequest<'a> {
    let (of_tool, subject, until) = (None, agent, None);
    let (is_a_look, is_hurried) = (false, false);
    AdmissionRequest {
        source,
        limits,
        tool,
        tool_limit: of_tool,
        agent,
        subject,
        deadline: until,
        is_status_poll: is_a_look,
        has_short_deadline: is_hurried,
    }
}

/// Lets an agent take all it can: running calls and waiting calls.
async fn taken(
    gates: &Arc<SourceGates>,
    agent: u64,
) -> (Vec<AdmittedCall>, Vec<JoinHandle<Result<(), CallFailure>>>) {
    let mut passes = Vec::new();
    for _ in 0..MAX_RUNNING_CALLS / 2 {
        passes.push(enter(gates, "a", agent).await.unwrap());
    }
    let before = gates.gate_state(&id("a")).unwrap().waiting_calls;
    let waiting = (0..MAX_WAITING_CALLS / 2).map(|_| {
        let gates = Arc::clone(gates);
        tokio::spawn(async move { enter(&gates, "a", agent).await.map(drop) })
    });
    let waiting = waiting.collect();
    while gates.gate_state(&id("a")).unwrap().waiting_calls < before + MAX_WAITING_CALLS / 2 {
        tokio::task::yield_now().await;
    }
    (passes, waiting)
}

#[tokio::test(start_paused = true)]
async fn running_and_waiting_calls_are_limited() {
    let gates = Arc::new(SourceGates::new(Arc::default(), CallLimit::default()));
    let (mut passes, mut waiting) = taken(&gates, 1).await;
    let (others, more) = taken(&gates, 2).await;
    waiting.extend(more);
    let state = gates.gate_state(&id("a")).unwrap();
    assert_eq!((state.running_calls, state.waiting_calls), (MAX_RUNNING_CALLS, MAX_WAITING_CALLS));
    let start = Instant::now();
    for agent in [1, 3] {
        let refused = enter(&gates, "a", agent).await.err().unwrap();
        assert_eq!((refused.code, start.elapsed()), (ErrorCode::RateLimited, Duration::ZERO));
    }
    assert!(enter(&gates, "b", 1).await.is_ok(), "others are no concern of it");
    passes.pop();
    drop(others);
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    let state = gates.gate_state(&id("a")).unwrap();
    assert_eq!((state.running_calls, state.waiting_calls), (MAX_RUNNING_CALLS / 2 - 1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_agent_leaves_permits_for_the_others() {
    let gates = Arc::new(SourceGates::new(Arc::default(), CallLimit::default()));
    let (_passes, _waiting) = taken(&gates, 1).await;
    let start = Instant::now();
    let refused = enter(&gates, "a", 1).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    let others: Vec<_> =
        futures_util::future::join_all((2..34).map(|agent| enter(&gates, "a", agent))).await;
    assert!(others.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), Duration::ZERO, "each of them at once");
}

#[tokio::test(start_paused = true)]
async fn a_limit_per_agent_replaces_the_default_half() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let (source, mut passes) = (id("a"), Vec::new());
    let limits = json!({"all": {"concurrent": 4}, "per_agent": {"concurrent": 4}});
    let limits = serde_json::from_value(limits).unwrap();
    for _ in 0..4 {
        passes.push(gates.admit(wish(&source, &limits, None, 1)).await.unwrap());
    }
    assert!(gates.admit(wish(&source, &limits, None, 1)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_people_holds_no_permit_and_counts_as_a_job() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let limits = json!({"all": {"concurrent": 1}, "per_agent": {"per_minute": 1, "burst": 1}});
    let (source, limits) = (id("a"), serde_json::from_value(limits).unwrap());
    let running = || gates.gate_state(&source).unwrap().running_calls;
    let first = wish(&source, &limits, None, 1);
    let mut stay = CallPermit::new(&gates, first, gates.admit(first).await.unwrap());
    stay.release().unwrap();
    assert_eq!(running(), 0);
    let other = gates.admit(wish(&source, &limits, None, 2)).await.unwrap();
    // No permit is free to reacquire, and a running call continues nevertheless.
    stay.reacquire().await;
    assert!(stay.job.is_some());
    drop(other);
    // It does not count as a second call of this minute.
    stay.reacquire().await;
    assert_eq!((running(), stay.job.is_none()), (1, true));
    let jobs: Vec<_> = (0..100).map(|_| gates.begin_job(&source, 1).ok().unwrap()).collect();
    assert_eq!(stay.release().err().unwrap().code, ErrorCode::RateLimited);
    assert_eq!(running(), 1);
    drop(jobs);
    stay.finish(SourceVerdict::Works);
    assert_eq!(running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_has_no_verdict_and_a_reset_closes_the_breaker() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    for _ in 0..circuit_breaker::FAILURE_THRESHOLD {
        drop(enter(&gates, "a", 1).await.unwrap());
    }
    for _ in 0..circuit_breaker::FAILURE_THRESHOLD {
        enter(&gates, "a", 1).await.unwrap().finish(SourceVerdict::Fails);
    }
    let refused = enter(&gates, "a", 1).await.err().unwrap();
    assert_eq!((refused.code, refused.retryable), (ErrorCode::CircuitOpen, true));
    let state = gates.gate_state(&id("a")).unwrap();
    assert_eq!((state.breaker, state.blocked_agents), ("open", 1));
    gates.reset_breaker(&id("a"));
    assert!(enter(&gates, "a", 2).await.is_ok());
    for _ in 0..circuit_breaker::FAILURE_THRESHOLD {
        enter(&gates, "a", 1).await.unwrap().finish(SourceVerdict::Fails);
    }
    tokio::time::sleep(circuit_breaker::COOLDOWN).await;
    enter(&gates, "a", 1).await.unwrap().finish(SourceVerdict::Works);
    assert_eq!(gates.gate_state(&id("a")).unwrap().blocked_agents, 0);
}

#[tokio::test(start_paused = true)]
async fn two_clients_of_one_subject_do_not_open_the_breaker_for_others() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let (source, limits) = (id("a"), SourceLimits::default());
    for client in 0..u64::from(circuit_breaker::FAILURE_THRESHOLD) {
        let wish = AdmissionRequest { subject: 1, ..wish(&source, &limits, None, client) };
        gates.admit(wish).await.unwrap().finish(SourceVerdict::Fails);
    }
    let other = AdmissionRequest { subject: 1, ..wish(&source, &limits, None, 7) };
    assert_eq!(gates.admit(other).await.err().unwrap().code, ErrorCode::CircuitOpen);
    assert!(enter(&gates, "a", 2).await.is_ok());
}

#[test]
fn an_upstream_that_answers_too_much_is_not_broken() {
    let told = |code, status| http_verdict(Some(&CallFailure::new(code, "", false)), status);
    assert_eq!(told(ErrorCode::UpstreamError, None), SourceVerdict::OnlyAnswers);
    assert_eq!(told(ErrorCode::UpstreamError, Some(503)), SourceVerdict::Fails);
    assert_eq!(told(ErrorCode::UpstreamTimeout, None), SourceVerdict::Fails);
}

#[tokio::test(start_paused = true)]
async fn callers_with_a_short_deadline_do_not_keep_others_from_probing() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    for agent in 0..u64::from(circuit_breaker::FAILURE_THRESHOLD) {
        enter(&gates, "a", agent).await.unwrap().finish(SourceVerdict::Fails);
    }
    tokio::time::sleep(circuit_breaker::COOLDOWN).await;
    let (source, limits) = (id("a"), SourceLimits::default());
    let hurried = |agent| {
        gates.admit(AdmissionRequest {
            has_short_deadline: true,
            ..wish(&source, &limits, None, agent)
        })
    };
    drop(hurried(1).await.unwrap());
    assert_eq!(hurried(2).await.err().unwrap().code, ErrorCode::CircuitOpen);
    enter(&gates, "a", 3).await.unwrap().finish(SourceVerdict::Works);
    assert!(hurried(2).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn agents_and_tools_have_their_own_limits_and_the_source_has_one_for_all() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let limits = json!({"per_agent": {"per_minute": 60, "burst": 2},
        "per_tool": {"concurrent": 1}, "all": {"per_minute": 600, "burst": 4}});
    let limits = serde_json::from_value(limits).unwrap();
    let (source, tool) = (id("a"), "a:t".parse().unwrap());
    let code = async |agent| {
        let entered = gates.admit(wish(&source, &limits, None, agent)).await;
        entered.err().map(|failure| (failure.code, failure.message))
    };
    assert_eq!((code(1).await, code(1).await), (None, None));
    let refused = "there are too many of this agent's calls: try again in 2 s".to_owned();
    assert_eq!(code(1).await, Some((ErrorCode::RateLimited, refused)));
    assert_eq!((code(2).await, code(3).await), (None, None));
    assert!(code(4).await.unwrap().1.contains("the calls to this source"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(code(1).await, None);
    let first = gates.admit(wish(&source, &limits, Some(&tool), 5)).await.unwrap();
    let second = gates.admit(wish(&source, &limits, Some(&tool), 6)).await.err().unwrap();
    assert!(second.message.contains("calls of this tool are under way"), "{}", second.message);
    drop(first);
    assert!(gates.admit(wish(&source, &limits, Some(&tool), 7)).await.is_ok());
    // The tool's own limit replaces the source's limit per tool.
    let said = serde_json::from_value(json!({"per_minute": 60, "burst": 2})).unwrap();
    let enter = |agent| {
        gates.admit(AdmissionRequest {
            tool_limit: Some(said),
            ..wish(&source, &limits, Some(&tool), agent)
        })
    };
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _both = (enter(8).await.unwrap(), enter(9).await.unwrap());
    assert!(enter(10).await.err().unwrap().message.contains("the calls of this tool"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_a_limit_over_all_sources() {
    let per_agent = json!({"per_minute": 60, "burst": 3, "concurrent": 2});
    let gates = SourceGates::new(Arc::default(), serde_json::from_value(per_agent).unwrap());
    let (_first, second) = (gates.charge_agent(1).unwrap(), gates.charge_agent(1).unwrap());
    let refused = gates.charge_agent(1).err().unwrap();
    assert!(refused.message.contains("are under way"), "{}", refused.message);
    drop((second, gates.charge_agent(2).unwrap()));
    assert!(gates.charge_agent(1).is_ok());
    let refused = gates.charge_agent(1).err().unwrap();
    assert_eq!((refused.code, refused.retry_after), (ErrorCode::RateLimited, Some(2)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(gates.charge_agent(1).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_rejected_for_one_reason_uses_up_nothing_else() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let limits = json!({"all": {"per_minute": 60, "burst": 5, "concurrent": 1},
        "per_agent": {"per_minute": 60, "burst": 5}, "per_tool": {"concurrent": 1}});
    let (source, tool) = (id("a"), "a:t".parse().unwrap());
    let limits = serde_json::from_value(limits).unwrap();
    let enter = |agent, tool| gates.admit(wish(&source, &limits, tool, agent));
    for _ in 0..circuit_breaker::FAILURE_THRESHOLD {
        enter(1, None).await.unwrap().finish(SourceVerdict::Fails);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..100 {
        assert_eq!(enter(1, None).await.err().unwrap().code, ErrorCode::CircuitOpen);
    }
    let first = enter(2, Some(&tool)).await.unwrap();
    for _ in 0..100 {
        let refused = enter(2, Some(&tool)).await.err().unwrap();
        assert!(refused.message.contains("calls of this tool"), "{}", refused.message);
    }
    let start = Instant::now();
    let left_out = enter(1, None).await.err().unwrap();
    assert_eq!((left_out.code, start.elapsed()), (ErrorCode::CircuitOpen, Duration::ZERO));
    drop(first);
    for _ in 0..4 {
        enter(2, None).await.unwrap().finish(SourceVerdict::Works);
    }
    assert_eq!(enter(2, None).await.err().unwrap().code, ErrorCode::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn status_polls_have_their_own_permits() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let limits: SourceLimits =
        serde_json::from_value(json!({"per_agent": {"concurrent": 1}})).unwrap();
    let (source, start) = (id("a"), Instant::now());
    let call = wish(&source, &limits, None, 1);
    let look = AdmissionRequest { is_status_poll: true, ..call };
    let _call = gates.admit(call).await.unwrap();
    let mut looks = Vec::new();
    for _ in 0..MAX_RUNNING_CALLS / 4 {
        looks.push(gates.admit(look).await.unwrap());
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    // One agent cannot take the permits that other agents need.
    assert!(gates.admit(look).await.is_err());
    drop(gates.admit(wish(&source, &limits, None, 2)).await.unwrap());
}

#[tokio::test]
async fn an_agent_cannot_spend_retries_that_others_earned() {
    let gates = SourceGates::new(Arc::default(), CallLimit::default());
    let (source, limits) = (id("a"), SourceLimits::default());
    let [one, other] = [1, 2].map(|agent| wish(&source, &limits, None, agent));
    for _ in 0..100 {
        drop(gates.admit(other).await.unwrap());
    }
    let again = |wish| (0..100).filter(|_| gates.may_retry(wish)).count();
    assert_eq!((again(one), again(other)), (3, 17));
}

#[tokio::test(start_paused = true)]
async fn more_calls_wait_while_the_machine_is_overloaded() {
    let gates = Arc::new(SourceGates::new(Arc::default(), CallLimit::default()));
    let (passes, mut waiting) = taken(&gates, 1).await;
    let refused = enter(&gates, "a", 1).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    gates.overload_flag().store(true, Relaxed);
    let more = (0..MAX_WAITING_CALLS).map(|_| {
        let gates = Arc::clone(&gates);
        tokio::spawn(async move { enter(&gates, "a", 1).await.map(drop) })
    });
    waiting.extend(more);
    tokio::task::yield_now().await;
    drop(passes);
    for one in waiting {
        one.await.unwrap().unwrap();
    }
}
