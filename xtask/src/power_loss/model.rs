//! Promises of a log, from what the example `append` of the log prints.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

/// Promises that were made to the processes of a run.
#[derive(Default)]
pub(super) struct Model {
    /// Identities of the records that were acknowledged or found, by their numbers.
    promised: BTreeMap<u64, u64>,
    /// Numbers of the records that were settled.
    settled: BTreeSet<u64>,
    pub(super) acknowledged: u64,
    /// Number of times that a record was found.
    pub(super) found: u64,
}

/// Records that a process has found.
#[derive(Default)]
struct Listed {
    numbers: BTreeSet<u64>,
    identities: BTreeSet<u64>,
    /// Newest identity of each thread of each process.
    newest: BTreeMap<u64, u64>,
}

impl Model {
    /// Compares what a process has printed with the promises, and adds the promises that it has made. Returns whether
    /// the process has opened the log.
    ///
    /// # Errors
    /// A promise is broken.
    pub(super) fn add(&mut self, printed: &str) -> Result<bool> {
        let (mut listed, mut is_ready) = (Listed::default(), false);
        for line in printed.lines() {
            let mut words = line.split(' ');
            let word = words.next().unwrap_or_default();
            let mut number = || {
                let number = words.next().and_then(|it| it.parse::<u64>().ok());
                number.with_context(|| format!("the program has printed `{line}`"))
            };
            match word {
                "found" => self.find(&mut listed, number()?, number()?)?,
                "acknowledged" => {
                    self.acknowledged += 1;
                    self.promise(number()?, number()?)?;
                }
                "settled" => _ = self.settled.insert(number()?),
                "ready" => {
                    is_ready = true;
                    self.compare(&listed)?;
                }
                // After an error of the file system, which the scenario causes.
                "error:" => {}
                _ => bail!("the program has printed `{line}`"),
            }
        }
        Ok(is_ready)
    }

    fn promise(&mut self, number: u64, identity: u64) -> Result<()> {
        let before = self.promised.insert(number, identity);
        let is_used = before.is_some_and(|it| it != identity);
        ensure!(!is_used, "the number {number} was used for two records");
        Ok(())
    }

    fn find(&mut self, listed: &mut Listed, number: u64, identity: u64) -> Result<()> {
        self.found += 1;
        let last = listed.numbers.last().copied();
        ensure!(last.is_none_or(|it| it < number), "the record {number} was found after {last:?}");
        ensure!(listed.identities.insert(identity), "the record {number} was found twice");
        // The lower half of an identity counts the records of a thread.
        let (thread, sequence) = (identity >> 32, identity & u64::from(u32::MAX));
        let newest = listed.newest.insert(thread, sequence);
        ensure!(newest.is_none_or(|it| it < sequence), "the record {number} is not in order");
        listed.numbers.insert(number);
        // A record that was delivered has to stay, as one that was acknowledged.
        self.promise(number, identity)
    }

    fn compare(&mut self, listed: &Listed) -> Result<()> {
        let is_lost = |it: &&u64| !listed.numbers.contains(it) && !self.settled.contains(it);
        let lost: Vec<_> = self.promised.keys().filter(is_lost).collect();
        ensure!(lost.is_empty(), "the records {lost:?} were acknowledged or found, and are lost");
        // Records whose settlement was not durable are back.
        self.settled.retain(|it| !listed.numbers.contains(it));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the message about the promise that the second process breaks, if it breaks one.
    fn broken(first: &str, second: &str) -> Option<String> {
        let mut model = Model::default();
        assert!(model.add(first).expect("nothing was promised before"));
        model.add(second).err().map(|it| it.to_string())
    }

    #[test]
    fn settled_records_may_be_found_and_others_have_to_be() {
        let first = "ready\nacknowledged 1 10\nacknowledged 2 11\nsettled 1\nerror: no disk\n";
        assert_eq!(broken(first, "found 2 11\nready\n"), None);
        assert_eq!(broken(first, "found 1 10\nfound 2 11\nfound 3 12\nready\n"), None);
        let lost = "the records [2] were acknowledged or found, and are lost";
        assert_eq!(broken(first, "found 1 10\nready\n").as_deref(), Some(lost));
        assert_eq!(broken(first, "found 1 10\n"), None, "the process was killed while it read");
    }

    #[test]
    fn each_broken_promise_has_its_message() {
        let first = "ready\nacknowledged 1 10\n";
        for (second, expected) in [
            ("found 1 11\n", "the number 1 was used for two records"),
            ("acknowledged 1 11\n", "the number 1 was used for two records"),
            ("found 1 10\nfound 1 12\n", "the record 1 was found after Some(1)"),
            ("found 1 10\nfound 2 10\n", "the record 2 was found twice"),
            ("found 1 10\nfound 2 9\n", "the record 2 is not in order"),
            ("invalid 1\n", "the program has printed `invalid 1`"),
            ("acknowledged 1\n", "the program has printed `acknowledged 1`"),
        ] {
            assert_eq!(broken(first, second).as_deref(), Some(expected), "{second}");
        }
    }
}
