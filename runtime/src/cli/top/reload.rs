//! The reloads of the process that `tremor top` shows.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::cli::terminal::{Line, Style};

/// The reloads of a run.
#[derive(Deserialize)]
pub(super) struct Reload {
    generation: u64,
    last: Option<Last>,
    #[serde(default)]
    last_seconds: f64,
    in_progress: Option<Progress>,
    confirm_seconds: Option<f64>,
    #[serde(default)]
    waiting: u64,
}

/// Outcome of the last reload.
#[derive(Deserialize)]
struct Last {
    result: String,
    #[serde(default)]
    errors: Vec<String>,
}

#[derive(Deserialize)]
struct Progress {
    seconds: f64,
    step: String,
    flow: Option<String>,
    step_seconds: f64,
}

impl Reload {
    /// Returns the part of the title that shows the generation of the flows.
    pub(super) fn title(&self) -> String {
        format!(", generation {}", self.generation)
    }

    /// Returns the lines about the last reload, and about the one that is in progress.
    pub(super) fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(last) = &self.last {
            let style = if last.is_as_expected() { Style::Plain } else { Style::Failed };
            let ago = ago(self.last_seconds);
            let mut text = format!("last reload {ago}: {}", last.result);
            // Writing to a string cannot fail.
            if let Some(error) = last.errors.first().and_then(|it| it.lines().next()) {
                _ = write!(text, ": {error}");
            }
            lines.push(Line { style, text });
        }
        if let Some(Progress { seconds, step, flow, step_seconds }) = &self.in_progress {
            let step = flow.as_ref().map_or_else(|| step.clone(), |it| format!("{step} `{it}`"));
            let waiting = match self.waiting {
                0 => String::new(),
                waiting => format!("; requests that wait: {waiting}"),
            };
            let text =
                format!("reload for {seconds:.0} s: {step} for {step_seconds:.0} s{waiting}");
            lines.push(Line { style: Style::Waiting, text });
        }
        if let Some(seconds) = self.confirm_seconds {
            let text = format!(
                "the flows of before return in {seconds:.0} s, unless `tremor reload --keep` follows"
            );
            lines.push(Line { style: Style::Waiting, text });
        }
        lines
    }

    /// Returns a line for output that is not a terminal, if there was a reload or one is in progress.
    pub(super) fn plain(&self) -> Option<String> {
        if self.last.is_none() && self.in_progress.is_none() {
            return None;
        }
        let mut text = format!("reload generation={}", self.generation);
        // Writing to a string cannot fail.
        if let Some(last) = &self.last {
            _ = write!(text, " last={} last_seconds={:.0}", last.result, self.last_seconds);
        }
        if let Some(Progress { seconds, step, flow, step_seconds }) = &self.in_progress {
            _ = write!(text, " in_progress={step} seconds={seconds:.0}");
            if let Some(flow) = flow {
                _ = write!(text, " flow={flow}");
            }
            _ = write!(text, " step_seconds={step_seconds:.0} waiting={}", self.waiting);
        }
        if let Some(seconds) = self.confirm_seconds {
            _ = write!(text, " confirm_seconds={seconds:.0}");
        }
        Some(text)
    }
}

impl Last {
    /// Returns whether the flows are those of the files.
    fn is_as_expected(&self) -> bool {
        ["applied", "unchanged"].contains(&&*self.result)
    }
}

/// Returns a duration as a time before now.
fn ago(seconds: f64) -> String {
    let (minute, hour) = (60.0, 3_600.0);
    match seconds {
        s if s < 2.0 * minute => format!("{s:.0} s ago"),
        s if s < 2.0 * hour => format!("{:.0} min ago", (s / minute).floor()),
        s => format!("{:.0} h ago", (s / hour).floor()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Reload;
    use crate::cli::terminal::Style;

    fn shown(reload: Value) -> (Vec<String>, Vec<bool>, Option<String>) {
        let reload: Reload = serde_json::from_value(reload).unwrap();
        let lines = reload.lines();
        let failed = lines.iter().map(|it| matches!(it.style, Style::Failed)).collect();
        (lines.into_iter().map(|it| it.text).collect(), failed, reload.plain())
    }

    #[test]
    fn run_without_reloads_has_no_line() {
        assert_eq!(shown(json!({ "generation": 0, "failed": 0 })), (vec![], vec![], None));
    }

    #[test]
    fn last_reload_is_shown_with_its_age() {
        let last = json!({ "result": "applied", "flows": [] });
        for (seconds, ago) in [(0.4, "0 s"), (119.0, "119 s"), (7_199.0, "119 min"), (9e4, "25 h")]
        {
            let (lines, failed, _) =
                shown(json!({ "generation": 1, "last": last, "last_seconds": seconds }));
            assert_eq!(
                (lines[0].clone(), failed),
                (format!("last reload {ago} ago: applied"), vec![false])
            );
        }
    }

    #[test]
    fn failed_or_returned_reload_is_marked() {
        let last = json!({ "result": "refused", "errors": ["error: one\n  help", "error: two"] });
        let (lines, failed, plain) =
            shown(json!({ "generation": 2, "last": last, "last_seconds": 3.2 }));
        let text = "last reload 3 s ago: refused: error: one".to_owned();
        assert_eq!((lines, failed), (vec![text], vec![true]));
        assert_eq!(plain.unwrap(), "reload generation=2 last=refused last_seconds=3");
        let last = json!({ "result": "returned" });
        assert_eq!(shown(json!({ "generation": 2, "last": last })).1, [true]);
    }

    #[test]
    fn reload_in_progress_shows_what_it_waits_for() {
        let progress =
            json!({ "seconds": 13.1, "step": "draining", "flow": "x", "step_seconds": 12.3 });
        let (lines, _, plain) = shown(json!({
            "generation": 1, "in_progress": progress, "waiting": 2, "confirm_seconds": 42.0,
        }));
        let expected = [
            "reload for 13 s: draining `x` for 12 s; requests that wait: 2",
            "the flows of before return in 42 s, unless `tremor reload --keep` follows",
        ];
        assert_eq!(lines, expected);
        let expected = "reload generation=1 in_progress=draining seconds=13 flow=x step_seconds=12 waiting=2 \
                        confirm_seconds=42";
        assert_eq!(plain.unwrap(), expected);
    }
}
