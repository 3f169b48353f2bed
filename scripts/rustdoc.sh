#!/bin/sh
# Builds the documentation of a crate where `cargo test --doc` would run its examples (RUSTDOC of `cargo xtask ci vrl`
# and `brokers`). The artefacts of tests are then enough, and `cargo doc` need not compile all dependencies once more.
# Only the warnings count, so the pages are removed.
pages=$(mktemp -d) || exit
for argument do
  shift
  [ "$argument" = --test ] || set -- "$@" "$argument"
done
rustdoc "$@" --out-dir "$pages"
status=$?
rm -r "$pages"
exit "$status"
