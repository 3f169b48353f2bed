//! What came of the checks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// The component does what the contract says.
    Passed,
    /// It does not.
    Failed(Fault),
    /// The check could not be made.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// A component does not do what the contract says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What was seen.
    pub seen: String,
    /// What the contract says, with the method that it says it of.
    pub contract: String,
    /// What to do.
    pub help: String,
}

/// A check, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The name of the check.
    pub check: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of all checks of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The checks, in the order in which they were made.
    pub checks: Vec<Checked>,
}

impl Report {
    /// The checks that failed, with what was found.
    pub fn faults(&self) -> impl Iterator<Item = (&str, &Fault)> {
        self.checks.iter().filter_map(|checked| match &checked.outcome {
            Outcome::Failed(fault) => Some((&*checked.check, fault)),
            _ => None,
        })
    }

    /// The checks that could not be made, with the reason.
    pub fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.checks.iter().filter_map(|checked| match &checked.outcome {
            Outcome::Skipped { reason } => Some((&*checked.check, &**reason)),
            _ => None,
        })
    }

    /// For a test. Checks that were skipped, for want of a peer say, do not fail the test:
    /// [`expect_all_but`](Self::expect_all_but) does that.
    ///
    /// # Panics
    /// Where a check failed, with the whole report.
    pub fn expect_no_faults(&self) {
        assert!(self.faults().next().is_none(), "the component breaks its contract:\n{self}");
    }

    /// For a test that every check is made and passes, except those that are named in `skipped`: they are skipped.
    ///
    /// ```should_panic
    /// # use tremor_pdk::testing::conformance::Report;
    /// # let report = Report::default();
    /// // A source has no sink, and other tests run in this process.
    /// report.expect_all_but(&[
    ///     "stays_inside", "leaves_nothing", "delivers", "takes_several", "flushes", "answers_ticks", "drains",
    ///     "sinks_share_nothing",
    /// ]);
    /// ```
    ///
    /// # Panics
    /// If a check failed, if one was skipped that is not named, or if a named one was not skipped; with the whole
    /// report.
    pub fn expect_all_but(&self, skipped: &[&str]) {
        self.expect_no_faults();
        let found: Vec<&str> = self.skipped().map(|(check, _)| check).collect();
        let unexpected: Vec<_> = found.iter().filter(|check| !skipped.contains(check)).collect();
        let made: Vec<_> = skipped.iter().filter(|check| !found.contains(check)).collect();
        assert!(
            unexpected.is_empty() && made.is_empty(),
            "checks were skipped that are not named: {unexpected:?}; checks are named that were not skipped: \
             {made:?}\n{self}"
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.checks.iter().try_for_each(|checked| write!(f, "{checked}"))
    }
}

/// A line, and where the check failed what was found.
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

/// Why a check came to its end before its end.
pub(super) enum Finding {
    /// The component is at fault.
    Fault {
        seen: String,
        /// In place of the check's own.
        contract: Option<&'static str>,
        help: &'static str,
    },
    /// There is nothing to check, or no way to.
    Skip(String),
}

impl Finding {
    pub(super) fn skip(reason: impl fmt::Display) -> Self {
        Self::Skip(reason.to_string())
    }

    pub(super) fn of(self, contract: &'static str) -> Self {
        match self {
            Self::Fault { seen, help, .. } => Self::Fault { seen, contract: Some(contract), help },
            skip @ Self::Skip(_) => skip,
        }
    }
}

/// What was seen, and what to do.
pub(super) fn fault(seen: impl fmt::Display, help: &'static str) -> Finding {
    Finding::Fault { seen: seen.to_string(), contract: None, help }
}

/// What a check comes to.
pub(super) type Verdict<T = ()> = Result<T, Finding>;

/// A fault, unless.
pub(super) fn ensure(holds: bool, seen: impl FnOnce() -> String, help: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(fault(seen(), help)) }
}
