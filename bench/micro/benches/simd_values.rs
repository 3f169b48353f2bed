//! Values made of simd-json's: by `try_from`, and through serde.
//!
//! ns for one log event.

mod events;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use simd_json::OwnedValue;
use tremor_abi::{
    document::Document,
    value::{Value, to_value},
};

use self::events::{Flat, messages};

#[inline(never)]
fn from_owned(value: OwnedValue) -> Value<'static> {
    value.try_into().expect("it is not deep")
}

#[inline(never)]
#[expect(clippy::needless_pass_by_value, reason = "its drop counts, as that of what is moved does")]
fn from_owned_by_serde(value: OwnedValue) -> Value<'static> {
    to_value(&value).expect("it is not deep")
}

fn conversions(criterion: &mut Criterion) {
    let mut flat = Flat::new("json");
    flat.decode(&messages());
    let view = Document::new(&flat.bytes, &flat.nodes).root(flat.roots[0]);
    let owned = OwnedValue::try_from(view).expect("an event of JSON");
    let mut group = criterion.benchmark_group("simd-json's values");
    for (name, convert) in [
        ("from_owned", from_owned as fn(OwnedValue) -> Value<'static>),
        ("from_owned_by_serde", from_owned_by_serde),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| owned.clone(), convert, BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group!(benches, conversions);
criterion_main!(benches);
