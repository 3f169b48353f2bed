//! The host: decodes log events, has the plugin or itself edit them and the other side drop them,
//! and measures that.
//!
//! ```text
//! allocators-host PLUGIN VARIANT ROUND    lines of JSON to stdout, as `criterion_samples` has them
//! ```

mod boundary;

use std::{
    alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc},
    env,
    error::Error,
    hint::black_box,
    io::{Write, stdout},
    time::{Duration, Instant},
};

use libloading::Library;
use serde_json::json;
use tremor_abi::batch::{Batch, HostBatch, Pool};
use tremor_runtime::{
    codec::{Decoder, Encoder},
    components,
};

use self::boundary::HostAllocator;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EVENTS: u32 = 100;
const WARM_UP: Duration = Duration::from_millis(200);
const SAMPLE: Duration = Duration::from_millis(40);
const SAMPLES: usize = 20;

static HOST: HostAllocator = HostAllocator {
    allocate: allocate_here,
    allocate_zeroed: allocate_zeroed_here,
    deallocate: deallocate_here,
    reallocate: reallocate_here,
};

unsafe extern "C" fn allocate_here(size: usize, align: usize) -> *mut u8 {
    // SAFETY: size and alignment come from a layout, of which the caller says that it has a size.
    unsafe { alloc(Layout::from_size_align_unchecked(size, align)) }
}

unsafe extern "C" fn allocate_zeroed_here(size: usize, align: usize) -> *mut u8 {
    // SAFETY: as above.
    unsafe { alloc_zeroed(Layout::from_size_align_unchecked(size, align)) }
}

unsafe extern "C" fn deallocate_here(memory: *mut u8, size: usize, align: usize) {
    // SAFETY: as above; the memory was allocated here with that layout.
    unsafe { dealloc(memory, Layout::from_size_align_unchecked(size, align)) }
}

unsafe extern "C" fn reallocate_here(
    memory: *mut u8,
    size: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: as above.
    unsafe { realloc(memory, Layout::from_size_align_unchecked(size, align), new) }
}

/// Gives the plugin the host's allocator: its first call.
type Install = extern "C" fn(&'static HostAllocator);
/// Reads a batch, and leaves it alone.
type Read = extern "C" fn(&Batch) -> usize;
/// Gives a field of every event another text.
type Edit = extern "C" fn(&mut Batch);
/// Drops a batch with all that it owns.
type Finish = extern "C" fn(Batch);

/// The plugin's functions. Its library stays loaded.
struct Plugin {
    read: Read,
    edit: Edit,
    finish: Finish,
}

impl Plugin {
    fn load(path: &str) -> Result<Self, Box<dyn Error>> {
        // SAFETY: it is the library that `plugin.rs` makes, whose functions have the types of
        // `boundary.rs`, and which does nothing when it is loaded.
        unsafe {
            let library = Box::leak(Box::new(Library::new(path)?));
            library.get::<Install>(b"install")?(&HOST);
            Ok(Self {
                read: *library.get(b"read")?,
                edit: *library.get(b"edit")?,
                finish: *library.get(b"finish")?,
            })
        }
    }
}

/// What a flow keeps from batch to batch.
struct Flow {
    messages: Vec<Vec<u8>>,
    pool: Pool,
    decoder: Decoder,
    encoder: Encoder,
}

impl Flow {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut lines = Vec::new();
        sample_logs::write_lines(EVENTS.into(), 42, &mut lines)?;
        let messages = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let codec = components::codec("json", &serde_json::Value::Null)?;
        Ok(Self {
            messages: messages.map(<[u8]>::to_vec).collect(),
            pool: Pool::new(4),
            decoder: codec.decoder(),
            encoder: codec.encoder(),
        })
    }

    fn decoded(&mut self) -> Batch {
        let mut batch = Batch::from_pool(&self.pool);
        for message in &self.messages {
            batch.push_message(message);
        }
        assert!(self.decoder.decode_batch(&mut batch).rejected.is_empty(), "these are JSON");
        batch
    }

    fn encode(&mut self, batch: &mut Batch) {
        let (encoded, rejected) = self.encoder.encode_batch(batch, &self.pool, b"\n");
        assert!(rejected.is_empty(), "JSON has all of these");
        black_box(encoded);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [path, variant, round] = &arguments[..] else {
        return Err("expected PLUGIN VARIANT ROUND".into());
    };
    let round: u32 = round.parse()?;
    let plugin = Plugin::load(path)?;
    let mut flow = Flow::new()?;
    let report = |job: &str, step: &mut dyn FnMut() -> Duration| {
        let id = format!("{job}/{variant}");
        let ns = samples(step);
        let line = json!({"experiment": "allocators", "round": round, "id": id, "ns": ns});
        writeln!(stdout().lock(), "{line}")
    };
    report("plugin edits, host drops", &mut || {
        let mut batch = flow.decoded();
        timed(|| {
            (plugin.edit)(&mut batch);
            drop(batch);
        })
    })?;
    report("host edits, plugin drops", &mut || {
        let mut batch = flow.decoded();
        timed(|| {
            boundary::edit(&mut batch);
            (plugin.finish)(batch);
        })
    })?;
    report("plugin edits and drops", &mut || {
        let mut batch = flow.decoded();
        timed(|| {
            (plugin.edit)(&mut batch);
            (plugin.finish)(batch);
        })
    })?;
    report("host edits and drops", &mut || {
        let mut batch = flow.decoded();
        timed(|| {
            boundary::edit(&mut batch);
            drop(batch);
        })
    })?;
    report("flow: plugin edits each event", &mut || {
        timed(|| {
            let mut batch = flow.decoded();
            (plugin.edit)(&mut batch);
            flow.encode(&mut batch);
        })
    })?;
    report("flow: plugin reads", &mut || {
        timed(|| {
            let mut batch = flow.decoded();
            black_box((plugin.read)(&batch));
            flow.encode(&mut batch);
        })
    })?;
    Ok(())
}

fn timed(step: impl FnOnce()) -> Duration {
    let start = Instant::now();
    step();
    start.elapsed()
}

/// Samples of a step that handles one batch, in ns an event.
fn samples(step: &mut dyn FnMut() -> Duration) -> Vec<f64> {
    gather(WARM_UP, step);
    (0..SAMPLES).map(|_| gather(SAMPLE, step)).collect()
}

/// Repeats a step for so long; the mean in ns an event.
fn gather(time: Duration, step: &mut dyn FnMut() -> Duration) -> f64 {
    let start = Instant::now();
    let (mut total, mut batches) = (Duration::ZERO, 0_u32);
    while start.elapsed() < time {
        total += step();
        batches += 1;
    }
    let ns = total.as_secs_f64() * 1e9 / f64::from(batches) / f64::from(EVENTS);
    (ns * 100.0).round() / 100.0
}
