//! simd-json's values from ours and back: by `try_from`, and through serde, as without it.
//!
//! ns for one log event.

mod events;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use simd_json::{BorrowedValue, OwnedValue};
use tremor_abi::{
    document::{Document, ValueRef},
    value::{Value, from_ref, to_value},
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

#[inline(never)]
fn into_owned(view: ValueRef<'_>) -> OwnedValue {
    view.try_into().expect("an event of JSON")
}

#[inline(never)]
fn into_owned_by_serde(view: ValueRef<'_>) -> OwnedValue {
    from_ref(view).expect("an event of JSON")
}

#[inline(never)]
fn into_borrowed(view: ValueRef<'_>) -> BorrowedValue<'_> {
    view.try_into().expect("an event of JSON")
}

#[inline(never)]
fn into_borrowed_by_serde(view: ValueRef<'_>) -> BorrowedValue<'_> {
    from_ref(view).expect("an event of JSON")
}

fn conversions(criterion: &mut Criterion) {
    let mut flat = Flat::new("json");
    flat.decode(&messages());
    let view = Document::new(&flat.bytes, &flat.nodes).root(flat.roots[0]);
    let owned = into_owned(view);
    let mut group = criterion.benchmark_group("simd-json's values");
    macro_rules! from {
        ($($function:ident)*) => {$(
            group.bench_function(stringify!($function), |bencher| {
                bencher.iter_batched(|| owned.clone(), $function, BatchSize::SmallInput);
            });
        )*};
    }
    macro_rules! into {
        ($($function:ident)*) => {$(
            group.bench_function(stringify!($function), |bencher| bencher.iter(|| $function(view)));
        )*};
    }
    from!(from_owned from_owned_by_serde);
    into!(into_owned into_owned_by_serde into_borrowed into_borrowed_by_serde);
    group.finish();
}

criterion_group!(benches, conversions);
criterion_main!(benches);
