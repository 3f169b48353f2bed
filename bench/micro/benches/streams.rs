//! Maps of what is kept of a stream, as preprocessors have them: a fragment comes, what has begun of its
//! stream is taken out, goes on, and is put back. A source mostly has one stream or few, and sometimes one for
//! each of thousands of connections.
//!
//! Times differ less than a busy machine does; `count.sh` of a run counts instructions instead, and finds
//! each subject by its function.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

/// As large as the state of a preprocessor.
type State = [u64; 8];

macro_rules! subjects {
    ($group:ident, $streams:ident: $($function:ident, $name:literal: $map:ty;)*) => {$({
        #[inline(never)]
        fn $function(map: &mut $map, stream: u64) {
            let mut state = map.remove(&stream).unwrap_or_default();
            black_box(&mut state);
            map.insert(stream, state);
        }
        let mut map = <$map>::default();
        (0..$streams).for_each(|stream| $function(&mut map, stream));
        let mut fragment = 0_u64;
        $group.bench_function(BenchmarkId::new($name, $streams), |bencher| {
            bencher.iter(|| {
                // Streams take turns, in no order.
                fragment = fragment.wrapping_add(7_919);
                $function(&mut map, fragment % $streams);
            });
        });
    })*};
}

fn fragments(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a fragment, by streams");
    for streams in [1, 4, 8, 64, 1_000] {
        subjects! { group, streams:
            std_map, "std": std::collections::HashMap<u64, State>;
            hashbrown_map, "hashbrown": hashbrown::HashMap<u64, State>;
            halfbrown_32, "halfbrown, up to 32": halfbrown::HashMap<u64, State>;
            halfbrown_8, "halfbrown, up to 8":
                halfbrown::SizedHashMap<u64, State, halfbrown::DefaultHashBuilder, 8>;
        }
    }
    group.finish();
}

criterion_group!(benches, fragments);
criterion_main!(benches);
