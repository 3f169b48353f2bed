#!/usr/bin/env bash
# Repeats the measurements of the boundary (docs/benchmarks/boundary.md, loading.md and peers.md) in
# rounds, so that changes of the machine's load affect all subjects. Keeps the raw samples.
#
#   scripts/boundary.sh FOLDER [ROUNDS]
#
# FOLDER gets the samples, a description of the machine, and tables. The default of ROUNDS is 3. A round takes four
# minutes, without the builds.
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
# The commit is read before the builds, because cargo may update the lock file of the peers.
commit=$(git describe --always --dirty --abbrev=40)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Measurements are short, because the noise is determined by rounds and not by criterion.
criterion=(--bench --noplot --quiet --warm-up-time 0.2 --measurement-time 0.8 --sample-size 20 --nresamples 1000)

# Builds a benchmark with these arguments of cargo, and prints its path.
built() {
  cargo bench --no-run --message-format=json-render-diagnostics "$@" \
    | sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

cargo build --release --package bench-report --bin criterion_samples
boundary=$(built --package microbench --bench boundary)
loading=$(built --package microbench --bench loading)
peers=$(cd bench/peers && built --bench boundary)
samples=${CARGO_TARGET_DIR:-target}/release/criterion_samples
# The benchmarks build the plugins that they call. A test run does this before any measurement.
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

# Runs a benchmark and keeps its samples. Arguments: round, name of the experiment, benchmark.
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
