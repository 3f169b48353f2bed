//! Makes modules that the model checker can run of the files that hold the protocols: the product's own
//! text, with doubles where it names `std` and other parts of the product. A variant has all of them,
//! and one fault planted.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Where the protocols are, below the project's folder.
const SOURCES: [&str; 11] = [
    "runtime/src/engine/account/token.rs",
    "runtime/src/engine/sync/wakers.rs",
    "runtime/src/engine/sync/watch.rs",
    "runtime/src/engine/queue/mailbox.rs",
    "runtime/src/engine/route/in_order.rs",
    "runtime/src/engine/source/shared_intake.rs",
    "runtime/src/executor/ready.rs",
    "tremor-pdk/abi/src/batch/storage.rs",
    "tremor-pdk/src/driver/call.rs",
    "tremor-pdk/src/driver/slot.rs",
    "tremor-pdk/src/oneshot.rs",
];

/// What a name at the start of a path means in a model.
const NAMES: [(&str, &str); 5] = [
    ("crate::", "crate::VARIANT::"),
    ("abi_stable::", "crate::doubles::layout::"),
    ("std::", "crate::doubles::std::"),
    ("tremor_abi::", "crate::doubles::abi::"),
    ("tremor_pdk::", "crate::doubles::pdk::"),
];

/// A fault: the variant that has it, the file, and what stands in it instead of what.
struct Planted {
    variant: &'static str,
    file: &'static str,
    instead_of: &'static str,
    stands: &'static str,
}

const PLANTED: &[Planted] = &[
    Planted {
        variant: "section_wakes_no_task",
        file: "in_order.rs",
        instead_of: "waker.wake();",
        stands: "drop(waker);",
    },
    Planted {
        variant: "section_looks_and_waits_apart",
        file: "in_order.rs",
        instead_of: "            return Poll::Ready(value);\n        }\n",
        stands: "            return Poll::Ready(value);\n        }\n        \
                 drop(state);\n        let mut state = self.lock();\n",
    },
    Planted {
        variant: "section_forgets_what_passed",
        file: "in_order.rs",
        instead_of: "state.passed.push(number);",
        stands: "",
    },
    Planted {
        variant: "watch_wakes_before_it_changes",
        file: "watch.rs",
        instead_of: "            change(&mut inner.value)\n",
        stands: "            drop(inner);\n            wakers::wake(&mut waiting);\n            \
                 change(&mut self.lock().value)\n",
    },
    Planted {
        variant: "watch_keeps_old_places",
        file: "wakers.rs",
        instead_of: "if round == self.round {",
        stands: "if round <= self.round {",
    },
    Planted {
        variant: "single_keeps_the_first_waker",
        file: "watch.rs",
        instead_of: "Some(waiting) => waiting.clone_from(context.waker()),",
        stands: "Some(_) => {}",
    },
    Planted {
        variant: "ledger_tells_before_it_writes",
        file: "token.rs",
        instead_of: "        self.ended.update(|all| all.push(ended));\n        \
                     self.has_ended.store(true, Ordering::Release);\n",
        stands: "        self.has_ended.store(true, Ordering::Release);\n        \
                 self.ended.update(|all| all.push(ended));\n",
    },
    Planted {
        variant: "ledger_takes_before_it_looks",
        file: "token.rs",
        instead_of: "        self.has_ended.swap(false, Ordering::AcqRel);\n        \
                     self.ended.update(std::mem::take)",
        stands: "        let ended = self.ended.update(std::mem::take);\n        \
                 self.has_ended.swap(false, Ordering::AcqRel);\n        ended",
    },
    Planted {
        variant: "answer_looks_and_waits_apart",
        file: "oneshot.rs",
        instead_of: "\n        state.waker = Some",
        stands: "\n        drop(state);\n        let mut state = lock(&self.0);\n        state.waker = Some",
    },
    Planted {
        variant: "answer_keeps_the_first_waker",
        file: "oneshot.rs",
        instead_of: "\n        state.waker = Some(context.waker().clone());",
        stands: "\n        state.waker.get_or_insert_with(|| context.waker().clone());",
    },
    Planted {
        variant: "call_keeps_the_batch",
        file: "call.rs",
        instead_of: "            // SAFETY: invariants 1 and 2: the slot is empty.\n            \
                     std::mem::swap(",
        stands: "            let _ = (",
    },
    Planted {
        variant: "mailbox_forgets_that_it_is_wanted",
        file: "mailbox.rs",
        instead_of: "Task::Lent { left, wanted: true }",
        stands: "Task::Lent { left, wanted: false }",
    },
    Planted {
        variant: "mailbox_stops_and_wakes_no_task",
        file: "mailbox.rs",
        instead_of: "                *wanted = true;\n",
        stands: "",
    },
    Planted {
        variant: "mailbox_ends_and_wakes_no_task",
        file: "mailbox.rs",
        instead_of: "if wanted || has_ended {",
        stands: "if wanted {",
    },
    Planted {
        variant: "mailbox_has_room_and_wakes_no_sender",
        file: "mailbox.rs",
        instead_of: "        let item = state.pop();\n        state.waiting.take(woken);\n",
        stands: "        let item = state.pop();\n",
    },
    Planted {
        variant: "mailbox_wakes_the_task_before",
        file: "mailbox.rs",
        instead_of: "        state.parked = None;\n",
        stands: "",
    },
    Planted {
        variant: "mailbox_keeps_what_was_dropped",
        file: "mailbox.rs",
        instead_of: "let Task::Lent { wanted, .. } = state.task else { return };",
        stands: "let wanted = matches!(state.task, Task::Lent { wanted: true, .. });",
    },
    Planted {
        variant: "intake_waits_without_a_fence",
        file: "shared_intake.rs",
        instead_of: "        fence(Ordering::SeqCst);\n        self.try_lock()",
        stands: "        self.try_lock()",
    },
    Planted {
        variant: "intake_is_let_go_of_without_a_fence",
        file: "shared_intake.rs",
        instead_of: "        fence(Ordering::SeqCst);\n        if self.of",
        stands: "        if self.of",
    },
    Planted {
        variant: "intake_waits_after_one_look",
        file: "shared_intake.rs",
        instead_of: "        self.try_lock().map_or(Poll::Pending, Poll::Ready)",
        stands: "        Poll::Pending",
    },
    Planted {
        variant: "intake_ends_and_tells_no_helper",
        file: "shared_intake.rs",
        instead_of: "Offers { place: None, ended: true }",
        stands: "Offers { place: None, ended: false }",
    },
    Planted {
        variant: "ready_looks_and_leads_apart",
        file: "executor/ready.rs",
        instead_of: "                state.has_leader = true;\n",
        stands: "                drop(state);\n                self.lock().has_leader = true;\n",
    },
    Planted {
        variant: "ready_keeps_its_signal",
        file: "executor/ready.rs",
        instead_of: "        self.has_signal();\n",
        stands: "",
    },
    Planted {
        variant: "ready_ends_and_wakes_no_thread",
        file: "executor/ready.rs",
        instead_of: "(!state.has_leader || !state.tasks.is_empty()) && self.wakes(&mut state)",
        stands: "!state.has_leader && self.wakes(&mut state)",
    },
    Planted {
        variant: "ready_leaves_the_rest",
        file: "executor/ready.rs",
        instead_of: "!state.tasks.is_empty() && self.wakes(&mut state)",
        stands: "false",
    },
    Planted {
        variant: "storage_is_let_go_of_relaxed",
        file: "storage.rs",
        instead_of: "fetch_sub(1, Ordering::Release)",
        stands: "fetch_sub(1, Ordering::Relaxed)",
    },
    Planted {
        variant: "storage_is_released_without_a_fence",
        file: "storage.rs",
        instead_of: "fence(Ordering::Acquire);",
        stands: "",
    },
    Planted {
        variant: "storage_is_written_after_a_relaxed_look",
        file: "storage.rs",
        instead_of: "references.load(Ordering::Acquire) == 1",
        stands: "references.load(Ordering::Relaxed) == 1",
    },
];

fn main() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&manifest).parent().expect("the project's folder");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed=src");
    let mut modules = String::new();
    let none = Planted { variant: "as_it_is", file: "", instead_of: "", stands: "" };
    for planted in [&none].into_iter().chain(PLANTED) {
        let folder = out.join(planted.variant);
        let mut is_planted = planted.file.is_empty();
        for source in SOURCES {
            let path = root.join(source);
            println!("cargo::rerun-if-changed={}", path.display());
            let mut text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{source}: {error}; list it where it lies now"));
            if source.ends_with(planted.file) && !is_planted {
                let found = text.matches(planted.instead_of).count();
                assert_eq!(found, 1, "{source}: {}: {:?}", planted.variant, planted.instead_of);
                text = text.replace(planted.instead_of, planted.stands);
                is_planted = true;
            }
            let (_, module) = source.split_once("/src/").expect("a file of a crate");
            write(&folder.join(module), &modelled(&text, planted.variant));
        }
        assert!(is_planted, "{}: no file {}", planted.variant, planted.file);
        let tree = folder.join("mod.rs");
        write(&tree, include_str!("src/tree.rs"));
        modules += &format!("#[path = {tree:?}]\npub mod {};\n", planted.variant);
    }
    write(&out.join("variants.rs"), &modules);
}

/// The text without its tests, and with the names of the model.
fn modelled(text: &str, variant: &str) -> String {
    let mut text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(text).to_owned();
    for (name, meant) in NAMES {
        let meant = meant.replace("VARIANT", variant);
        text = replace_path(&text, name, &meant);
    }
    for name in ["weak", "try_lock"] {
        if text.to_lowercase().contains(name) {
            text = text.replace("doubles::std::", &format!("doubles::std_with_{name}::"));
        }
    }
    text.replace("pub(super)", "pub").replace("pub(crate)", "pub")
}

/// Replaces a name where a path starts with it.
fn replace_path(text: &str, name: &str, meant: &str) -> String {
    let mut parts = text.split(name);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = replaced.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        replaced += if goes_on { name } else { meant };
        replaced += part;
    }
    replaced
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).expect("cargo's folder can be written to");
    fs::write(path, text).expect("cargo's folder can be written to");
}
