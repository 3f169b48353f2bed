#!/usr/bin/env bash
# Measures the build time and the size of the plugin that `tremor plugin new` creates. Run this script in the
# project's folder, after `cargo xtask new-plugin`, which creates the packages of the kit.
set -euo pipefail

root=$PWD
scene=$(mktemp -d)
trap 'rm -rf "$scene"' EXIT
TIMEFORMAT='%R s elapsed, %U s user, %S s system'

timed() {
    echo "$ $*"
    time "$@" >"$scene/log" 2>&1
}

mkdir "$scene/.cargo"
{
    echo '[net]'
    echo 'offline = true'
    echo '[patch.crates-io]'
    for package in "$root"/target/new-plugin/packages/package/*.crate; do
        folder=${package%.crate}
        name=$(basename "${folder%-*}")
        echo "$name = { path = \"$folder\" }"
    done
} >"$scene/.cargo/config.toml"

cd "$scene"
"$root/target/debug/tremor" plugin new countdown --kind source >/dev/null
cd countdown
cp "$root/Cargo.lock" .

uptime
timed cargo test
timed cargo build
sed -i 's/from: u64,/from: u64, \/\/ changed/' src/lib.rs
timed cargo build
timed cargo test
timed cargo build --release
sed -i 's/ \/\/ changed//' src/lib.rs
timed cargo build --release
stat -c '%s bytes' target/release/libcountdown.so
uptime

cd "$root"
echo '$ cargo tree -p tremor-pdk -e normal,build --prefix none --no-dedupe | sort -u | wc -l'
cargo tree -p tremor-pdk -e normal,build --prefix none --no-dedupe | sort -u | wc -l
