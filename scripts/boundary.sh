#!/usr/bin/env bash
# Repeats the measurements of the boundary (docs/benchmarks/boundary.md, loading.md and peers.md) in
# rounds, so that no subject has a quiet minute of the machine to itself. Keeps the raw samples.
#
#   scripts/boundary.sh FOLDER [ROUNDS]
#
# FOLDER gets the samples, the machine they come from, and tables of them. ROUNDS is 3 unless it is
# given; a round takes four minutes once all is built.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: scripts/boundary.sh FOLDER [ROUNDS]" >&2; exit 2; }
mkdir -p "$1"
results=$(cd "$1" && pwd)
rounds=${2:-3}
cd "$(dirname "$0")/.."
if [ -n "${CARGO_TARGET_DIR:-}" ]; then
  CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
  export CARGO_TARGET_DIR
fi
# Before anything is built: cargo may bring the lock file of the peers up to date.
commit=$(git describe --always --dirty --abbrev=40)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Short ones, and many: the rounds tell the noise, not criterion.
criterion=(--bench --noplot --quiet --warm-up-time 0.2 --measurement-time 0.8 --sample-size 20 --nresamples 1000)

# The path of a bench that is built now, from what cargo says. With arguments for cargo.
built() {
  cargo bench --no-run --message-format=json-render-diagnostics "$@" \
    | sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

cargo build --release --package bench-report --bin criterion_samples
boundary=$(built --package microbench --bench boundary)
loading=$(built --package microbench --bench loading)
peers=$(cd bench/peers && built --bench boundary)
samples=${CARGO_TARGET_DIR:-target}/release/criterion_samples
# What is called, which the benches build where it is not there: not while one of them measures.
"$loading" --test > "$work/log"
"$peers" --test > "$work/log"

{
  echo "command: scripts/boundary.sh FOLDER $rounds"
  echo "commit:  $commit"
  echo "rustc:   $(rustc --version)"
  echo "kernel:  $(uname -sr)"
  echo "cpu:     $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  echo "load:    $(cat /proc/loadavg) at the start"
} > "$results/machine.txt"
: > "$results/samples.jsonl"

# Runs a bench and keeps its samples: round, the experiment's name, the bench.
run() {
  rm -rf "$work/criterion"
  CRITERION_HOME="$work/criterion" "$3" "${criterion[@]}" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  "$samples" collect "$work/criterion" "$2" "$1" >> "$results/samples.jsonl"
}

for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  run "$round" boundary "$boundary"
  run "$round" "peers of the boundary" "$peers"
  "$loading" --round "$round" >> "$results/samples.jsonl"
done
echo "         $(cat /proc/loadavg) at the end" >> "$results/machine.txt"
"$samples" tables "$results/samples.jsonl" > "$results/tables.md"
cat "$results/tables.md"
