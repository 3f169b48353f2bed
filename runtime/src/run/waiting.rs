//! Log lines about reloads that wait for a long time.

use std::time::{Duration, Instant};

use crate::{
    clock::Clock,
    engine::waiting::LONG,
    reloads::{Progress, Reloads},
};

/// Time between two checks.
const PERIOD: Duration = Duration::from_secs(1);

/// Logs each step of a reload that takes long, once. Never completes.
pub(super) async fn report<T>(reloads: &Reloads, clock: &Clock) -> T {
    let mut logged = None;
    loop {
        clock.sleep(PERIOD).await;
        let Some(progress) = reloads.in_progress() else { continue };
        if is_due(&progress, &mut logged, clock.now()) {
            let (step, flow) = (progress.step.as_str(), progress.flow.as_deref());
            tracing::warn!(step, flow, "the reload waits");
        }
    }
}

/// Returns whether the step takes long and was not logged yet. `logged` is the begin of the step that was last logged.
fn is_due(progress: &Progress, logged: &mut Option<Instant>, now: Instant) -> bool {
    let begin = progress.step_since;
    now.saturating_duration_since(begin) >= LONG && logged.replace(begin) != Some(begin)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::is_due;
    use crate::reloads::{Progress, Step};

    #[test]
    fn each_long_step_is_logged_once() {
        let (since, mut logged) = (Instant::now(), None);
        let at = |s| since + Duration::from_secs(s);
        let step = |begin| Progress { since, step: Step::Draining, flow: None, step_since: begin };
        let mut due = |begin, now| is_due(&step(at(begin)), &mut logged, at(now));
        assert_eq!([4, 5, 6].map(|now| due(0, now)), [false, true, false]);
        assert_eq!([10, 11, 12].map(|now| due(6, now)), [false, true, false]);
    }
}
