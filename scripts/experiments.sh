#!/usr/bin/env bash
# Repeats the experiments that decided how events are represented (docs/benchmarks/experiments.md),
# in rounds, so that no subject has a quiet minute of the machine to itself. Keeps the raw samples.
#
#   scripts/experiments.sh FOLDER [ROUNDS]
#
# FOLDER gets the samples, the machine they come from, and tables of them. ROUNDS is 3 unless it is
# given; a round takes two minutes once all is built. EXPERIMENT_DATA may name a file of JSON lines
# to use instead of the generated log events.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: scripts/experiments.sh FOLDER [ROUNDS]" >&2; exit 2; }
mkdir -p "$1"
results=$(cd "$1" && pwd)
rounds=${2:-3}
data="100 events of the project's generator, seed 42"
if [ -n "${EXPERIMENT_DATA:-}" ]; then
  EXPERIMENT_DATA=$(realpath "$EXPERIMENT_DATA")
  export EXPERIMENT_DATA
  data=$(basename "$EXPERIMENT_DATA")
fi
cd "$(dirname "$0")/.."
if [ -n "${CARGO_TARGET_DIR:-}" ]; then
  CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
  export CARGO_TARGET_DIR
fi
# Before anything is built: cargo may bring the lock files of the experiments up to date.
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
conversion=$(built --package microbench --bench conversion)
tree_or_flat=$(built --package microbench --bench tree_or_flat)
peers=$(cd bench/peers && built)
# The same for exactly this processor, which some peers ask for: sonic-rs picks its instructions
# when it is compiled, the others when they run.
peers_native=$(cd bench/peers && RUSTFLAGS="-C target-cpu=native" built)
samples=${CARGO_TARGET_DIR:-target}/release/criterion_samples

# Keeps the host and the plugin of the allocators under the names of their variants: host, plugin,
# arguments for cargo.
variant() {
  local folder=${CARGO_TARGET_DIR:-target/allocators}/release
  (cd bench/allocators && cargo build --release "${@:3}")
  cp "$folder/allocators-host" "$work/host-$1"
  find "$folder" -maxdepth 1 -name '*allocators_plugin.*' ! -name '*.d' -exec cp {} "$work/plugin-$2" \;
}
variant system system
variant mimalloc forwarded --features mimalloc,forwarded

{
  echo "command: scripts/experiments.sh FOLDER $rounds"
  echo "data:    $data"
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

# The same of the allocators: round, host, plugin, what the pair is called.
allocate() {
  "$work/host-$2" "$work/plugin-$3" "$4" "$1" >> "$results/samples.jsonl"
}

for round in $(seq "$rounds"); do
  echo "round $round of $rounds" >&2
  run "$round" peers "$peers"
  run "$round" "peers, for this processor" "$peers_native"
  run "$round" conversion "$conversion"
  run "$round" "tree or flat" "$tree_or_flat"
  allocate "$round" system system "system's on both sides"
  allocate "$round" mimalloc system "mimalloc in the host, system's in the plugin"
  allocate "$round" mimalloc forwarded "mimalloc in the host, forwarded from the plugin"
  allocate "$round" system forwarded "system's in the host, forwarded from the plugin"
done
echo "         $(cat /proc/loadavg) at the end" >> "$results/machine.txt"
"$samples" tables "$results/samples.jsonl" > "$results/tables.md"
cat "$results/tables.md"
