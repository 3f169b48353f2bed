//! `unsafe` is confined: these files have it, no other does, and none is listed without need.

use crate::tidy::Violation;
use crate::tidy::repository::{File, Repository};

/// A file or, with a slash at its end, a folder, and why it cannot do without.
struct Allowed {
    path: &'static str,
    #[expect(dead_code, reason = "for who reads the list")]
    why: &'static str,
}

const ALLOWED: &[Allowed] = &[
    Allowed { path: "fuzz/checks/document.rs", why: "nodes that nobody would make" },
    Allowed {
        path: "brokers/kafka/src/consumer/client.rs",
        why: "functions of librdkafka that its crate does not wrap: a queue of the records of all partitions",
    },
    Allowed {
        path: "bench/micro/benches/boundary/",
        why: "functions of a library that are called without the runtime",
    },
    Allowed {
        path: "bench/micro/benches/loading/",
        why: "a library that is loaded without the runtime, step by step",
    },
    Allowed {
        path: "bench/boundary-plugin/src/",
        why: "symbols that are found by their names, and a call's future in a slot",
    },
    Allowed {
        path: "bench/peers/benches/",
        why: "buffers that another crate gives without bounds",
    },
    Allowed {
        path: "connectors-plugins/exec/src/limit.rs",
        why: "a limit that a process gets between `fork` and `exec`",
    },
    Allowed {
        path: "runtime/src/cli/memory.rs",
        why: "what the C library is told of its allocator, which no crate wraps",
    },
    Allowed {
        path: "runtime/src/codec/json/",
        why: "strings in blocks of the widest registers, and the tape's text as offsets",
    },
    Allowed {
        path: "runtime/src/codec/output.rs",
        why: "room that is checked once an event and not once a byte",
    },
    Allowed {
        path: "runtime/src/plugin/host.rs",
        why: "the functions that plugins call, with the context they were given",
    },
    Allowed {
        path: "runtime/src/plugin/layout/",
        why: "a promise to checks of abi_stable's own of which types are alike, and a pointer to such code",
    },
    Allowed {
        path: "runtime/src/plugin/load.rs",
        why: "a library's header, and its root module once its layout is checked",
    },
    Allowed {
        path: "bench/soak/src/heap.rs",
        why: "what the C library says of its allocator, which no crate wraps",
    },
    Allowed {
        path: "brokers/kafka/src/producer/native.rs",
        why: "records without a copy of their payload, and events that a descriptor tells of, which no crate wraps",
    },
    Allowed {
        path: "brokers/kafka/src/producer/ledger.rs",
        why: "the promise that a payload stays until its record was reported of",
    },
    Allowed { path: "runtime/tests/codec_allocations.rs", why: "an allocator that counts" },
    Allowed {
        path: "tests/fixtures/plugins/counting/src/allocator.rs",
        why: "an allocator that counts",
    },
    Allowed {
        path: "tests/fixtures/plugins/hostile/src/forge.rs",
        why: "a forged batch cannot be made without",
    },
    Allowed {
        path: "tremor-pdk/abi/src/batch/spare.rs",
        why: "memory that is filled without being written twice",
    },
    Allowed {
        path: "tremor-pdk/abi/src/batch/storage.rs",
        why: "buffers that are shared, counted and given back across the boundary",
    },
    Allowed {
        path: "tremor-pdk/abi/src/document/subtree.rs",
        why: "text that was checked once is not checked again",
    },
    Allowed {
        path: "tremor-pdk/abi/src/host.rs",
        why: "the host's functions take a context that only their maker knows",
    },
    Allowed {
        path: "tremor-pdk/abi/src/value/buffer.rs",
        why: "bytes that are freed by the side that allocated them",
    },
    Allowed {
        path: "tremor-pdk/abi/src/value/text.rs",
        why: "text that was checked once is not checked again",
    },
    Allowed {
        path: "tremor-pdk/src/driver/call.rs",
        why: "a call's future borrows the component that lies beside it",
    },
    Allowed {
        path: "tremor-pdk/src/driver/slot.rs",
        why: "memory that is used again for one future after another",
    },
    Allowed {
        path: "tremor-pdk/src/export.rs",
        why: "symbols that the runtime finds by their names",
    },
    Allowed {
        path: "tremor-pdk/src/ffi/",
        why: "the boundary itself: adapters and guards against panics",
    },
    Allowed {
        path: "tremor-pdk/src/testing/descriptors.rs",
        why: "descriptors that plugins keep open while they wait for them",
    },
    Allowed {
        path: "tremor-pdk/src/testing/functions.rs",
        why: "the test host's functions, which take a context as those of every host do",
    },
];

pub(super) fn unsafe_is_confined(repository: &Repository) -> Vec<Violation> {
    confined_to(ALLOWED, repository)
}

fn confined_to(allowed: &[Allowed], repository: &Repository) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in repository.rust() {
        let is_allowed = allowed.iter().any(|entry| entry.covers(&file.path));
        if let Some(line) = first_unsafe(file).filter(|_| !is_allowed) {
            let message = "unsafe code in a file that is not on the list in unsafe_files.rs";
            violations.push(Violation::at(&file.path, line, message));
        }
    }
    let unused = allowed.iter().filter(|entry| {
        !repository.rust().any(|file| entry.covers(&file.path) && first_unsafe(file).is_some())
    });
    violations.extend(unused.map(|entry| {
        Violation::in_file(entry.path, "is on the list in unsafe_files.rs and has no unsafe code")
    }));
    violations
}

fn first_unsafe(file: &File) -> Option<usize> {
    file.tokens.iter().find(|token| token.is("unsafe")).map(|token| token.line)
}

impl Allowed {
    fn covers(&self, path: &str) -> bool {
        if self.path.ends_with('/') { path.starts_with(self.path) } else { path == self.path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FFI: [Allowed; 1] = [Allowed { path: "src/ffi/", why: "calls across the boundary" }];

    #[test]
    fn unsafe_code_elsewhere_is_found() {
        let repository = Repository::of(&[
            ("src/ffi/call.rs", "unsafe fn a() {}"),
            ("src/lib.rs", "//! No unsafe here.\nunsafe fn b() {}"),
        ]);
        let violations = confined_to(&FFI, &repository);
        assert_eq!(violations.len(), 1);
        assert_eq!((violations[0].path.as_str(), violations[0].line), ("src/lib.rs", Some(2)));
    }

    #[test]
    fn an_entry_without_need_is_found() {
        let violations = confined_to(&FFI, &Repository::of(&[("src/ffi/call.rs", "fn a() {}")]));
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].path, "src/ffi/");
    }
}
