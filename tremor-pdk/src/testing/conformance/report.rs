//! Results of the checks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// First words of the reason for skipping a check because the connector does not connect.
pub const UNCONNECTED: &str = "it does not connect with this configuration";

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// The component keeps the contract.
    Passed,
    /// The component breaks the contract.
    Failed(Fault),
    /// The check could not be run.
    Skipped {
        /// Reason for skipping the check.
        reason: String,
    },
}

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Observed behaviour.
    pub seen: String,
    /// The contract, beginning with the method that it concerns.
    pub contract: String,
    /// The remedy.
    pub help: String,
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Name of the check.
    pub check: String,
    /// Result of the check.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Results of all checks of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The checks, in the order in which they were run.
    pub checks: Vec<Checked>,
}

impl Report {
    /// Returns the checks that failed, with their faults.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &Fault)> {
        self.checks.iter().filter_map(|checked| match &checked.outcome {
            Outcome::Failed(fault) => Some((&*checked.check, fault)),
            _ => None,
        })
    }

    /// Returns the checks that were skipped, with the reasons.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|checked| match &checked.outcome {
            Outcome::Skipped { reason } => Some((&*checked.check, &**reason)),
            _ => None,
        })
    }

    /// Asserts that no check failed, for a test.
    ///
    /// Checks that are skipped, for example because there is no peer, do not fail the test. To assert which checks are
    /// skipped, use [`expect_all_but`](Self::expect_all_but).
    ///
    /// # Panics
    /// Panics with the whole report if a check failed.
    pub fn expect_no_faults(&self) {
        assert!(self.faults().next().is_none(), "the component breaks its contract:\n{self}");
    }

    /// Asserts that every check passed, except those named in `skipped`, which must have been skipped.
    ///
    /// ```should_panic
    /// # use tremor_pdk::testing::conformance::Report;
    /// # let report = Report::default();
    /// // These checks are skipped for a source, because it has no sink, and because other tests run in this process.
    /// report.expect_all_but(&[
    ///     "stays_inside", "leaves_nothing", "delivers", "takes_several", "flushes", "answers_ticks", "drains",
    ///     "sinks_share_nothing",
    /// ]);
    /// ```
    ///
    /// # Panics
    /// Panics with the whole report if a check failed, if a check was skipped that is not named, or if a named check
    /// was not skipped.
    pub fn expect_all_but(&self, skipped: &[&str]) {
        self.expect_no_faults();
        let found: Vec<&str> = self.skipped().map(|(check, _)| check).collect();
        let unexpected: Vec<_> = found.iter().filter(|check| !skipped.contains(check)).collect();
        let not_skipped: Vec<_> = skipped.iter().filter(|check| !found.contains(check)).collect();
        assert!(
            unexpected.is_empty() && not_skipped.is_empty(),
            "skipped, but not named as skipped: {unexpected:?}; named as skipped, but not skipped: \
             {not_skipped:?}\n{self}"
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checks.iter().try_for_each(|checked| write!(f, "{checked}"))
    }
}

/// Formats one line, or three lines for a fault.
impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, outcome } = self;
        match outcome {
            Outcome::Passed => writeln!(f, "  passed   {check}"),
            Outcome::Skipped { reason } => writeln!(f, "  SKIPPED  {check}: {reason}"),
            Outcome::Failed(Fault { seen, contract, help }) => writeln!(
                f,
                "  FAILED   {check}: {seen}\n           contract: {contract}\n           help: {help}"
            ),
        }
    }
}

/// Reason for which a check ended early.
pub(super) enum Finding {
    /// The component breaks the contract.
    Fault {
        seen: String,
        /// Contract that the message names instead of the contract of the check.
        contract: Option<&'static str>,
        help: &'static str,
    },
    /// The check cannot be run.
    Skip(String),
}

impl Finding {
    pub(super) fn skip(reason: impl fmt::Display) -> Self {
        Self::Skip(reason.to_string())
    }

    /// Replaces the reason [`UNCONNECTED`] if `others` other instances of the connector are connected. For example,
    /// only one instance can listen on an address, so the configuration is not at fault.
    pub(super) fn beside(self, others: usize) -> Self {
        let refused = match &self {
            Self::Skip(reason) if others > 0 => reason.strip_prefix(UNCONNECTED),
            _ => None,
        };
        match refused {
            Some(error) => {
                let position = others + 1;
                Self::skip(format_args!(
                    "instance {position} does not connect while the others are connected{error}"
                ))
            }
            None => self,
        }
    }

    pub(super) fn of(self, contract: &'static str) -> Self {
        match self {
            Self::Fault { seen, help, .. } => Self::Fault { seen, contract: Some(contract), help },
            skip @ Self::Skip(_) => skip,
        }
    }
}

/// Creates a fault from the observed behaviour and the remedy.
pub(super) fn fault(seen: impl fmt::Display, help: &'static str) -> Finding {
    Finding::Fault { seen: seen.to_string(), contract: None, help }
}

/// Result of a check or of a part of it.
pub(super) type Verdict<T = ()> = Result<T, Finding>;

/// Returns a fault unless `condition` is `true`.
pub(super) fn ensure(
    condition: bool,
    seen: impl FnOnce() -> String,
    help: &'static str,
) -> Verdict {
    if condition { Ok(()) } else { Err(fault(seen(), help)) }
}
