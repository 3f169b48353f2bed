//! What an object should be made of: every candidate built, asked, iterated, cloned and dropped at
//! the sizes where their answers differ.

mod candidates;

use std::{collections::HashMap, hash::RandomState, hint::black_box, time::Duration};

use abi_stable::std_types::{RBox, RHashMap, RString, RVec, Tuple2};
use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main,
    measurement::WallTime,
};
use tremor_abi::value::{Object, Str, Value};

use self::candidates::{Candidate, KnownKey, OpaqueBox};

const SIZES: [usize; 7] = [1, 4, 13, 32, 33, 128, 1_024];

/// Some that are there, and as many that are not.
struct Keys {
    present: Vec<String>,
    absent: Vec<String>,
}

impl Keys {
    fn new(count: usize) -> Self {
        let stems = ["host", "message", "id", "syslog_facility", "user.name", "doc-type", "time"];
        let key = |prefix: &str, n: usize| format!("{prefix}{}{n}", stems[n % stems.len()]);
        Self {
            present: (0..count).map(|n| key("", n)).collect(),
            absent: (0..count).map(|n| key("x", n)).collect(),
        }
    }
}

fn measure<C: Candidate>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, keys: &Keys) {
    let object = C::of(&keys.present);
    let id = |what: &str| BenchmarkId::new(format!("{what}/{name}"), keys.present.len());
    let hits = |keys: &[String]| keys.iter().filter(|key| object.find(key).is_some()).count();
    assert_eq!((hits(&keys.present), hits(&keys.absent)), (keys.present.len(), 0));

    group.bench_function(id("build"), |b| {
        b.iter_batched(|| (), |()| C::of(black_box(&keys.present)), BatchSize::SmallInput);
    });
    group.bench_function(id("hit"), |b| b.iter(|| hits(black_box(&keys.present))));
    group.bench_function(id("miss"), |b| b.iter(|| hits(black_box(&keys.absent))));
    group.bench_function(id("iterate"), |b| b.iter(|| black_box(&object).visit()));
    group.bench_function(id("clone"), |b| {
        b.iter_batched(|| (), |()| black_box(&object).copy(), BatchSize::SmallInput);
    });
    group.bench_function(id("drop"), |b| {
        b.iter_batched(|| C::of(&keys.present), drop, BatchSize::SmallInput);
    });
}

fn measure_known_key(group: &mut BenchmarkGroup<'_, WallTime>, keys: &Keys) {
    let object = KnownKey::of(&keys.present);
    let id =
        |what: &str| BenchmarkId::new(format!("{what}/halfbrown, known key"), keys.present.len());
    for (what, keys) in [("hit", &keys.present), ("miss", &keys.absent)] {
        let hashed: Vec<_> = keys.iter().map(|key| (object.hash(key), key.as_str())).collect();
        group.bench_function(id(what), |b| {
            b.iter(|| {
                let found = |(hash, key): &&(u64, &str)| object.find(*hash, key).is_some();
                black_box(&hashed).iter().filter(found).count()
            });
        });
    }
}

fn objects(c: &mut Criterion) {
    let mut group = c.benchmark_group("object");
    group.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(300));
    group.sample_size(20);
    for size in SIZES {
        let keys = Keys::new(size);
        measure::<Object<'static>>(&mut group, "ours", &keys);
        measure::<RVec<Tuple2<Str<'static>, Value<'static>>>>(&mut group, "RVec of pairs", &keys);
        measure::<RHashMap<RString, Value<'static>>>(&mut group, "RHashMap", &keys);
        measure::<RBox<RHashMap<RString, Value<'static>>>>(&mut group, "RBox of RHashMap", &keys);
        measure::<OpaqueBox>(&mut group, "halfbrown, opaque", &keys);
        measure::<halfbrown::HashMap<String, Value<'static>>>(&mut group, "halfbrown", &keys);
        measure_known_key(&mut group, &keys);
        measure::<HashMap<String, Value<'static>>>(&mut group, "std", &keys);
        measure::<hashbrown::HashMap<String, Value<'static>>>(&mut group, "hashbrown", &keys);
        measure::<hashbrown::HashMap<String, Value<'static>, RandomState>>(
            &mut group,
            "hashbrown, SipHash",
            &keys,
        );
    }
    group.finish();
}

criterion_group!(benches, objects);
criterion_main!(benches);
