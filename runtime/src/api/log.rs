//! Requests about the levels of the log.

use hyper::StatusCode;

use super::{
    problem::{Answer, Problem},
    text::{self, decoded},
};
use crate::{
    flow::{did_you_mean, list, quote},
    log::levels::{self, LEVELS, LogLevel},
    run::RunHandle,
};

/// Returns the levels that are in force.
pub(super) fn levels() -> Answer {
    answer(levels::in_force())
}

/// Changes the level that the query of a request names, and returns the levels that are in force.
///
/// # Errors
/// A parameter is unknown, missing or invalid.
pub(super) fn change(run: &RunHandle, query: &str) -> Answer {
    let invalid = |detail: String| Problem::new(StatusCode::BAD_REQUEST, detail);
    let (mut level, mut component) = (None, None);
    for parameter in query.split('&').filter(|it| !it.is_empty()) {
        match parameter.split_once('=') {
            Some(("level", word)) => level = Some(decoded(word)),
            Some(("component", name)) => component = Some(decoded(name)),
            _ => {
                let given = quote(parameter);
                let expected = "expected `level=LEVEL` and `component=FLOW/COMPONENT`";
                return Err(invalid(format!("invalid parameter {given}: {expected}")));
            }
        }
    }
    let level =
        level.ok_or_else(|| invalid(format!("missing parameter `level`: {}", expected())))?;
    let level = LogLevel::of(&level.to_lowercase())
        .ok_or_else(|| invalid(format!("invalid level {}: {}", quote(&level), expected())))?;
    let component = component.map(|name| named(run, &name)).transpose()?;
    let component = component.as_ref().map(|(flow, component)| (&**flow, &**component));
    answer(levels::set(level, component))
}

fn answer(levels: Option<levels::InForce>) -> Answer {
    let levels = levels.ok_or_else(|| {
        let detail = "the log of this process has no levels that can be changed";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    })?;
    Ok(text::json(StatusCode::OK, &levels))
}

/// Returns the description of the levels that can be set.
fn expected() -> String {
    let levels = LEVELS.map(|level| format!("`{level}`")).join(", ");
    format!("expected {levels}, or `{}` for the filter of the start", LogLevel::DEFAULT)
}

/// Returns the flow and the component that a text names.
fn named(run: &RunHandle, text: &str) -> Result<(String, String), Problem> {
    let mut names = Vec::new();
    for flow in run.flows() {
        for component in flow.components {
            if text.split_once('/') == Some((&flow.name, &component.name)) {
                return Ok((flow.name, component.name));
            }
            names.push(format!("{}/{}", flow.name, component.name));
        }
    }
    names.dedup();
    let meant = did_you_mean(text, names.iter().map(String::as_str));
    let advice = meant.unwrap_or_else(|| format!("available: {}", list(&names)));
    let detail = format!("there is no component {}; {advice}", quote(text));
    Err(Problem::new(StatusCode::BAD_REQUEST, detail))
}

#[cfg(test)]
mod tests {
    use super::change;
    use crate::run::RunHandle;

    #[test]
    fn invalid_query_is_rejected_with_what_is_expected() {
        for (query, part) in [
            ("", "missing parameter `level`: expected `off`, `error`, `warn`, `info`"),
            ("level=wran", "invalid level `wran`: expected `off`"),
            ("level=info&componnt=a", "invalid parameter `componnt=a`: expected `level=LEVEL`"),
            ("level=info&component=f%2Fc", "there is no component `f/c`; available: "),
        ] {
            let problem = format!("{:?}", change(&RunHandle::default(), query).err().unwrap());
            assert!(problem.contains(part) && problem.contains("400"), "{query}: {problem}");
        }
    }
}
