#!/usr/bin/env bash
# Stores a plugin that is built with this version of the ABI, and the list of its layouts, for the tests of later
# versions.
#
# Run this script once for each minor version, when its ABI is final, and commit the files. Needs strip and zstd.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n 's/^version = "\([0-9]*\.[0-9]*\)\..*/\1/p' tremor-pdk/abi/Cargo.toml)
kept="tests/fixtures/kept/$version-$(uname -m)-linux.so.zst"
if [ -e "$kept" ]; then
  echo "$kept exists already, and must not change" >&2
  exit 1
fi

cargo test --package tremor-abi --lib -- --ignored frozen::write_list

target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
# The committed library must not contain paths of this machine.
sysroot=$(rustc --print sysroot)
flags="--remap-path-prefix=$PWD=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
RUSTFLAGS="$flags --remap-path-prefix=$sysroot=rust" cargo build --release --target-dir "$target" --package fixture-every-kind --example fixture-every-kind
strip -o "$target/kept.so" "$target/release/examples/libfixture_every_kind.so"
zstd -q -19 -o "$kept" "$target/kept.so"
echo "$kept: $(stat -c %s "$kept") bytes"
