#!/usr/bin/env bash
# Passes a million log events as JSON through the dynamically loaded `file` plugin, in turn with a single-threaded loop
# of simd-json over the same file. Keeps the raw samples: elapsed time and processor time of each round, and the
# resident memory over time.
#
#   scripts/million.sh FOLDER [ROUNDS]
#
# FOLDER gets the samples. The data (1.3 GB) is in a temporary folder.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: scripts/million.sh FOLDER [ROUNDS]" >&2; exit 2; }
mkdir -p "$1"
results=$(cd "$1" && pwd)
rounds=${2:-5}
cd "$(dirname "$0")/.."

cargo build --release --package tremor-runtime --package connector-file
cargo build --release --package floor --bin simd_json_loop
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo xtask generate-logs --lines 1000000 --seed 7 --output "$work/in.json"
cat > "$work/flow.yaml" <<FLOW
plugins: ["$PWD/target/release"]
connectors:
  input: { type: file, preprocessors: [lines], codec: json, config: { path: in.json, mode: read } }
  output: { type: file, codec: json, postprocessors: [lines], config: { path: out.json, mode: truncate } }
links:
  - input -> output
FLOW

{
  echo "command: scripts/million.sh FOLDER $rounds"
  echo "commit:  $(git rev-parse HEAD)"
  echo "rustc:   $(rustc --version)"
  echo "kernel:  $(uname -sr)"
  echo "cpu:     $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  echo "load:    $(cat /proc/loadavg)"
} > "$results/machine.txt"

echo "round,subject,wall_s,user_s,system_s,peak_kib" > "$results/rounds.csv"
echo "round,ms,resident_kib" > "$results/memory.csv"

# Measures a command, and writes a row. For tremor, also writes the memory every 50 ms. Arguments: round, subject,
# command.
measure() {
  local round=$1 subject=$2 pid
  shift 2
  # GNU time measures one process, while bash's `times` sums all child processes.
  command -v /usr/bin/time > /dev/null || { echo "error: GNU time is missing" >&2; exit 2; }
  /usr/bin/time -a -o "$results/rounds.csv" -f "$round,$subject,%e,%U,%S,%M" "$@" 2>> "$results/log.txt" &
  pid=$!
  if [ "$subject" = tremor ]; then
    local started child resident
    started=$(date +%s%3N)
    while kill -0 "$pid" 2> /dev/null; do
      child=$(cat "/proc/$pid/task/$pid/children" 2> /dev/null || true)
      resident=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/${child%% *}/status" 2> /dev/null || true)
      [ -z "$resident" ] || echo "$round,$(($(date +%s%3N) - started)),$resident" >> "$results/memory.csv"
      sleep 0.05
    done
  fi
  wait "$pid"
}

for round in $(seq "$rounds"); do
  measure "$round" tremor target/release/tremor run "$work/flow.yaml"
  cmp "$work/in.json" "$work/out.json"
  measure "$round" simd_json_loop target/release/simd_json_loop "$work/in.json" "$work/out.json"
done
cat "$results/rounds.csv"
