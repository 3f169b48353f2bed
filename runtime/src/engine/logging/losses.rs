//! What the log says of events that fail and have no way out: a line a second for each component.
//!
//! A line has the first cause since the last one, and how many events have failed. What is left to be said
//! is said when the second is over, and at the end of the flow.

use std::time::{Duration, Instant};

use tremor_pdk::Error;

use crate::{engine::sync::watch::Watch, executor};

/// The time between two lines of a component, at least.
const APART: Duration = Duration::from_secs(1);

/// The events of a flow that have failed, and that the log has no line of yet.
#[derive(Debug, Default)]
pub(crate) struct Losses(Watch<Vec<Loss>>);

/// Those of one component.
#[derive(Debug)]
struct Loss {
    component: Box<str>,
    /// When there was a line last.
    told: Instant,
    /// What there is to say since then.
    left: Option<Line>,
}

/// What a line says.
#[derive(Clone, Debug)]
struct Line {
    events: usize,
    first: Error,
}

impl Losses {
    /// So many events of a component have failed, the first for this reason, which is asked for where it is
    /// to be told.
    pub(crate) fn add(&self, component: &str, events: usize, first: impl FnOnce() -> Error) {
        if let Some(line) = self.add_at(component, events, first, Instant::now()) {
            line.log(component);
        }
    }

    /// The same at this moment: the line that there is to be now.
    fn add_at(
        &self,
        component: &str,
        events: usize,
        first: impl FnOnce() -> Error,
        now: Instant,
    ) -> Option<Line> {
        self.0.update(|losses| {
            let Some(loss) = losses.iter_mut().find(|it| *it.component == *component) else {
                losses.push(Loss { component: component.into(), told: now, left: None });
                return Some(Line { events, first: first() });
            };
            match &mut loss.left {
                Some(line) => line.events += events,
                left => *left = Some(Line { events, first: first() }),
            }
            loss.take(now)
        })
    }

    /// Does the work of the flow, and meanwhile says in time what there is to say. At the end it says the
    /// rest.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let telling = async {
            loop {
                let due = self.0.wait(|losses| losses.iter().filter_map(Loss::due).min()).await;
                executor::sleep(due.saturating_duration_since(Instant::now())).await;
                self.tell(Some(Instant::now()));
            }
        };
        let result = executor::first(work, telling).await;
        self.tell(None);
        result
    }

    /// Says what it is time to say; all there is where no time is given.
    fn tell(&self, now: Option<Instant>) {
        let lines: Vec<_> = self.0.update(|losses| {
            let line = |loss: &mut Loss| {
                let line = match now {
                    Some(now) => loss.take(now),
                    None => loss.left.take(),
                };
                Some((loss.component.clone(), line?))
            };
            losses.iter_mut().filter_map(line).collect()
        });
        lines.into_iter().for_each(|(component, line)| line.log(&component));
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        self.tell(None);
    }
}

impl Loss {
    /// When there is to be a line, if there is something to say.
    fn due(&self) -> Option<Instant> {
        self.left.as_ref().map(|_| self.told + APART)
    }

    /// What there is to say, if it is time to.
    fn take(&mut self, now: Instant) -> Option<Line> {
        self.due().filter(|due| *due <= now)?;
        self.told = now;
        self.left.take()
    }
}

impl Line {
    fn log(&self, component: &str) {
        let Self { events, first } = self;
        tracing::error!(%component, events, %first, "events failed");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tremor_pdk::Error;

    use super::{APART, Losses};

    #[test]
    fn a_component_has_a_line_a_second_with_the_first_cause_and_the_number_since_the_last() {
        let (losses, start) = (Losses::default(), Instant::now());
        let add = |component, events, cause, at| {
            let line = losses.add_at(component, events, || Error::bad_data(cause), at)?;
            Some((line.events, line.first.to_string()))
        };
        assert_eq!(add("one", 3, "first", start), Some((3, "first".to_owned())));
        assert_eq!(add("other", 1, "its own", start), Some((1, "its own".to_owned())));
        assert_eq!(add("one", 2, "second", start), None);
        assert_eq!(add("one", 2, "third", start + APART / 2), None);
        let line = add("one", 1, "fourth", start + APART);
        assert_eq!(line, Some((5, "second".to_owned())));
        assert_eq!(add("one", 1, "fifth", start + APART), None, "the second begins again");
    }

    #[test]
    fn what_is_left_is_said_at_the_end() {
        let losses = Losses::default();
        let add = || losses.add("one", 1, || Error::bad_data("no"));
        crate::executor::block_on(losses.during(async { (0..10).for_each(|_| add()) }));
        losses.0.read(|losses| assert!(losses[0].left.is_none()));
    }
}
