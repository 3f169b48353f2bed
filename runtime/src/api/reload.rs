//! Requests to reload the flows, and the JSON form of the status of reloads.

use hyper::StatusCode;
use serde::Serialize;

use super::{
    problem::{Answer, Problem},
    text::{self, seconds},
};
use crate::{
    clock::Clock,
    flow::quote,
    parse_time, redact,
    reloads::{Action, CONFIRM_AT_MOST, Outcome, Progress, ReloadResult, ReloadStatus},
    run::RunHandle,
};

/// Status of the reloads of a run.
#[derive(Serialize)]
pub(super) struct ReloadJson {
    generation: u64,
    failed: u64,
    returned: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Outcome>,
    /// Time since the end of the last reload, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_progress: Option<ProgressJson>,
    /// Time until the last confirmed configuration returns, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm_seconds: Option<f64>,
    /// Number of requests that wait.
    waiting: usize,
}

/// A reload that is in progress.
#[derive(Serialize)]
struct ProgressJson {
    /// Time since the begin of the reload, in seconds.
    seconds: f64,
    step: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    /// Time since the begin of the step, in seconds.
    step_seconds: f64,
}

impl From<&ReloadStatus> for ReloadJson {
    fn from(status: &ReloadStatus) -> Self {
        let clock = Clock::default();
        let until = status.confirm_until.map(|it| it.saturating_duration_since(clock.now()));
        Self {
            generation: status.generation,
            failed: status.failed,
            returned: status.returned,
            last: status.last.as_ref().map(|(last, _)| redacted(last.clone())),
            last_seconds: status.last.as_ref().map(|(_, at)| seconds(clock.elapsed(*at))),
            in_progress: status.in_progress.as_ref().map(|it| ProgressJson::of(it, &clock)),
            confirm_seconds: until.map(seconds),
            waiting: status.waiting,
        }
    }
}

impl ProgressJson {
    fn of(progress: &Progress, clock: &Clock) -> Self {
        Self {
            seconds: seconds(clock.elapsed(progress.since)),
            step: progress.step.as_str(),
            flow: progress.flow.clone(),
            step_seconds: seconds(clock.elapsed(progress.step_since)),
        }
    }
}

fn redacted(outcome: Outcome) -> Outcome {
    let errors = outcome.errors.into_iter().map(redact::owned).collect();
    Outcome { errors, ..outcome }
}

/// Requests what the query of a request says, and returns the outcome.
pub(super) async fn answer(run: &RunHandle, query: &str) -> Answer {
    let conflict = |detail: &str| Problem::new(StatusCode::CONFLICT, detail);
    let cannot = || {
        conflict(
            "the run cannot reload: it is ending, its flows do not come from files, or too many requests \
             wait",
        )
    };
    let reply = run.reloads().request(action(query)?).ok_or_else(cannot)?;
    let reply = reply.recv().await.map_err(|_| cannot())?;
    let outcome = reply.map_err(|error| conflict(&error.to_string()))?;
    let what = match outcome.result {
        ReloadResult::Refused => "nothing has changed",
        ReloadResult::Restored => "the flows of before were restored",
        ReloadResult::Interrupted => "the run ends",
        _ => return Ok(text::json(StatusCode::OK, &outcome)),
    };
    let detail = format!("{what}:\n{}", outcome.errors.join("\n"));
    Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail))
}

/// Returns the action that a query requests.
///
/// # Errors
/// A parameter is unknown or invalid. It is not ignored, because without a misspelt `confirm` nothing would return.
fn action(query: &str) -> Result<Action, Problem> {
    let invalid = |detail: String| Err(Problem::new(StatusCode::BAD_REQUEST, detail));
    let mut requested = None;
    for parameter in query.split('&').filter(|it| !it.is_empty()) {
        let action = match parameter.split_once('=') {
            Some(("dry_run", "true")) => Action::Plan,
            Some(("keep", "true")) => Action::Keep,
            Some(("dry_run" | "keep", "false")) => continue,
            Some(("confirm", time)) => {
                let within = parse_time(time).filter(|it| !it.is_zero() && *it <= CONFIRM_AT_MOST);
                if within.is_none() {
                    return invalid(format!(
                        "invalid `confirm` {}: expected a time from `1ms` to `1h`, such as `60s`",
                        quote(time)
                    ));
                }
                Action::Reload { confirm: within }
            }
            _ => {
                return invalid(format!(
                    "invalid parameter {}: expected `dry_run=true`, `confirm=TIME` or `keep=true`",
                    quote(parameter)
                ));
            }
        };
        if requested.replace(action).is_some() {
            let detail = "`dry_run`, `confirm` and `keep` exclude each other, and are given once";
            return invalid(detail.to_owned());
        }
    }
    Ok(requested.unwrap_or(Action::Reload { confirm: None }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Action, action};

    #[test]
    fn query_selects_the_action() {
        let reload = |confirm| Action::Reload { confirm };
        for (query, expected) in [
            ("", reload(None)),
            ("dry_run=false", reload(None)),
            ("dry_run=true", Action::Plan),
            ("keep=true&dry_run=false", Action::Keep),
            ("confirm=1ms", reload(Some(Duration::from_millis(1)))),
            ("confirm=1h", reload(Some(Duration::from_hours(1)))),
        ] {
            assert_eq!(action(query).unwrap(), expected, "{query}");
        }
    }

    #[test]
    fn invalid_query_is_rejected() {
        for (query, part) in [
            ("confirm=0s", "from `1ms` to `1h`"),
            ("confirm=61m", "from `1ms` to `1h`"),
            ("confirm=60", "invalid `confirm` `60`"),
            ("confrim=60s", "invalid parameter `confrim=60s`"),
            ("dry_run", "invalid parameter `dry_run`"),
            ("keep=yes", "invalid parameter `keep=yes`"),
            ("confirm=60s&keep=true", "exclude each other"),
            ("confirm=60s&confirm=2s", "exclude each other"),
        ] {
            let problem = format!("{:?}", action(query).unwrap_err());
            assert!(problem.contains(part) && problem.contains("400"), "{query}: {problem}");
        }
    }
}
