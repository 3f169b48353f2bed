#!/bin/sh
# Builds the documentation of a crate where `cargo test --doc` would run its examples (RUSTDOC of `cargo xtask ci vrl`
# and `brokers`). The artefacts of tests are then enough, and `cargo doc` need not compile all dependencies once more.
for argument do
  shift
  [ "$argument" = --test ] || set -- "$@" "$argument"
done
exec rustdoc "$@"
