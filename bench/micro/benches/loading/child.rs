//! A process that loads plugins in one way, and reports the duration of each step.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use abi_stable::{
    StableAbi, abi_stability::abi_checking::check_layout_compatibility,
    library::lib_header_from_path, std_types::RSlice,
};
use serde_json::json;
use tremor_abi::module::PluginModuleRef;
use tremor_pdk::{Batch, Output};
use tremor_runtime::plugin::{ComponentFactory, HostContext, Library, Policy};

use crate::{Result, Samples, calls::Calls, echo::Payloads, identical::identical};

/// Ways to load plugins.
pub(crate) const WAYS: [&str; 4] = ["libloading", "runtime", "steps", "older"];

/// Number of calls after the first two, whose mean is a sample of the steady state.
const STEADY: u32 = 10_000;

pub(crate) fn run(way: &str, files: &[PathBuf]) -> Result<Samples> {
    let mut record = Record { samples: Samples::new(), count: files.len() };
    match way {
        "libloading" => files.iter().for_each(|file| libloading(file, &mut record)),
        "runtime" => files.iter().try_for_each(|file| runtime(file, &mut record))?,
        "steps" => files.iter().try_for_each(|file| steps(file, &mut record))?,
        "older" => files.iter().try_for_each(|file| older(file, &mut record))?,
        other => return Err(format!("expected one of {WAYS:?}, not {other}").into()),
    }
    Ok(record.samples)
}

struct Record {
    samples: Samples,
    count: usize,
}

impl Record {
    /// Measures a step of loading.
    fn step<T>(&mut self, step: &str, work: impl FnOnce() -> T) -> T {
        let group = match self.count {
            1 => "loading a plugin".to_owned(),
            count => format!("loading {count} plugins"),
        };
        self.timed(&format!("{group}/{step}"), work)
    }

    fn timed<T>(&mut self, id: &str, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        self.add(id, took.as_secs_f64() * 1e9);
        result
    }

    fn add(&mut self, id: &str, ns: f64) {
        // The result is rounded to 1 ps, which is finer than the resolution of any clock.
        let ns = (ns * 1000.0).round() / 1000.0;
        self.samples.entry(id.to_owned()).or_default().push(ns);
    }

    /// Measures the first, the second and many more calls of a function that was just loaded.
    fn calls(&mut self, name: &str, mut call: impl FnMut()) {
        for when in ["first", "second"] {
            self.timed(&format!("calls/{name}, {when}"), &mut call);
        }
        let start = Instant::now();
        (0..STEADY).for_each(|_| call());
        let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(STEADY);
        self.add(&format!("calls/{name}, steady"), ns);
    }
}

fn libloading(file: &Path, record: &mut Record) {
    let (library, mut raw) = record.step("libloading: open, find, make", || {
        let library = Calls::open(file);
        (library, library.raw_with_capacity(64))
    });
    let payloads = Payloads { bytes: RSlice::EMPTY, size: 0, events: 1 };
    let (call, state) = (library.call(), library.state());
    record.calls("nothing: the clock alone", || ());
    record.calls("C function", || {
        black_box(black_box(call)(state, black_box(&payloads)));
    });
    record.calls("sabi_trait, guarded", || {
        black_box(raw.guarded(black_box(&payloads)).is_ok());
    });
}

fn runtime(file: &Path, record: &mut Record) -> Result<()> {
    let context = HostContext::new("loading", ".", ());
    let mut operator = record.step("runtime: check, open, compare, make", || {
        let library = Library::inspect(file)?;
        let factory = ComponentFactory::load(&library, "operator", "count", Policy::default())?;
        let made = factory.operator(&json!({}), &context);
        made.map_err(Box::<dyn std::error::Error>::from)
    })?;
    let (mut batch, mut output) = (Batch::new(), Output::new());
    batch.push_message(b"");
    record.calls("operator of the runtime", || {
        black_box(operator.process(black_box(&mut batch), &mut output).is_ok());
    });
    Ok(())
}

/// Performs the steps of `tremor_runtime::plugin::load` one at a time.
fn steps(file: &Path, record: &mut Record) -> Result<()> {
    let library = record.step("step 1: read, hash, check the file", || {
        Library::inspect(file).inspect(|library| {
            black_box(library.hash());
        })
    })?;
    library.check(Policy::default())?;
    let header = record.step("step 2: open", || lib_header_from_path(file))?;
    let layout = header.layout().ok_or("the plugin does not describe the layout of its types")?;
    let identical =
        record.step("step 3: compare layouts", || identical(layout, PluginModuleRef::LAYOUT));
    if !identical {
        return Err("the plugin was built with other types than the benchmark".into());
    }
    let artefacts = record.step("step 4: root module and artefacts", || {
        // SAFETY: the layouts are identical.
        let module = unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() };
        module.map(|module| module.artefacts()().len())
    })?;
    black_box(artefacts);
    Ok(())
}

/// Compares layouts as for a plugin that was built with an earlier minor version of the ABI.
fn older(file: &Path, record: &mut Record) -> Result<()> {
    let header = lib_header_from_path(file)?;
    let layout = header.layout().ok_or("the plugin does not describe the layout of its types")?;
    let compare = || check_layout_compatibility(layout, PluginModuleRef::LAYOUT);
    let compared = record.step("of an earlier minor: compare layouts", compare);
    Ok(compared.map_err(|errors| errors.to_string())?)
}
