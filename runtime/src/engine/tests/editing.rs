//! The size of batches whose events several operators edit.

use tremor_abi::batch::HostBatch;
use tremor_pdk::{Batch, Edits, Operator, Output, Part, Result, lock};

use super::{
    Setup,
    doubles::{Pulls, Shared, SinkScript},
};

/// An operator that sets the field `n` of each event, and records the sizes of the batches before each call.
struct Sets {
    value: u64,
    edits: Edits,
    sizes: Shared<Vec<usize>>,
}

impl Sets {
    fn boxed(value: u64, sizes: &Shared<Vec<usize>>) -> Box<dyn Operator> {
        let edits = Edits::new(&["n".parse().unwrap()], &[]).unwrap();
        Box::new(Self { value, edits, sizes: sizes.clone() })
    }
}

impl Operator for Sets {
    fn process(&mut self, batch: &mut Batch, _: &mut Output) -> Result<()> {
        lock(&self.sizes).push(batch.bytes().len() + size_of_val(batch.nodes()));
        for position in 0..batch.len() {
            let Some(mut event) = batch.get_mut(position) else { continue };
            event.edit(Part::Payload, &mut self.edits, |_, field| {
                field.write(|writer| writer.u64(self.value));
            })?;
        }
        Ok(())
    }
}

/// An operator that keeps a clone of each batch, and then discards all events of the batch but the first one.
struct Clones(Vec<Batch>);

impl Operator for Clones {
    fn process(&mut self, batch: &mut Batch, output: &mut Output) -> Result<()> {
        self.0.push(batch.clone());
        let mut is_first = true;
        output.retain(batch, |_| std::mem::take(&mut is_first));
        Ok(())
    }
}

/// Returns `pulls` pulls of `events` messages each, and their text.
fn pulls(pulls: usize, events: usize) -> (Pulls, String) {
    let text = "x".repeat(200);
    let message = format!(r#"{{"text":"{text}","n":0}}"#);
    let messages = vec![&message[..]; events];
    (Pulls::of(&vec![&messages[..]; pulls]), text)
}

#[test]
fn batch_that_many_operators_edit_does_not_double() {
    let sizes = Shared::<Vec<usize>>::default();
    let (source, text) = pulls(2, 12);
    let operators = (1..=20).map(|value| Sets::boxed(value, &sizes)).collect();
    let outcome = Setup::default().operators("main", operators).run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), vec![format!(r#"{{"text":"{text}","n":20}}"#); 24]);
    let sizes = lock(&sizes);
    let most = sizes.iter().max().unwrap();
    // The limit also includes the lists of events.
    assert!(*most < 2 * sizes[0] + 2 * 12 * 64, "{sizes:?}");
    assert_eq!(sizes.len(), 40);
}

/// The operator that edits is known to do so from the second batch on.
#[test]
fn edit_copies_only_own_events_of_shared_buffers() {
    let sizes = Shared::<Vec<usize>>::default();
    let (source, text) = pulls(3, 100);
    let operators = vec![Box::new(Clones(Vec::new())) as _, Sets::boxed(1, &sizes)];
    let outcome = Setup::default().operators("main", operators).run(source, &SinkScript::of([]));
    assert_eq!(outcome.messages(), vec![format!(r#"{{"text":"{text}","n":1}}"#); 3]);
    let sizes = lock(&sizes);
    let [first, second, third] = sizes[..] else { panic!("{sizes:?}") };
    assert!(first > 50 * second && second == third, "{sizes:?}");
}
