#!/usr/bin/env bash
# Measures the resident memory of an idle runtime with the ten smallest plugins of the project.
#
#   scripts/idle.sh [SECONDS]
#
# The flow uses each of the plugins, because otherwise they would not be loaded. The memory is read after SECONDS
# (default 10). PROFILE is the profile of cargo (default `release`).
set -euo pipefail
seconds=${1:-10}
profile=${PROFILE:-release}
cd "$(dirname "$0")/.."
plugins=(connector-bench connector-countdown connector-exit connector-file connector-metronome
  connector-null connector-stdio operator-logging plugin-keyvalue boundary-plugin)
cargo build --profile "$profile" --package tremor-runtime "${plugins[@]/#/--package=}"
folder=$(realpath "${CARGO_TARGET_DIR:-target}")/${profile/#dev/debug}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for plugin in "${plugins[@]}"; do
  ln -s "$folder/lib${plugin//-/_}.so" "$work"
done
cat > "$work/flow.yaml" <<'FLOW'
plugins: [.]
connectors:
  clock: { type: metronome, config: { interval_ms: 3600000 } }
  numbers: { type: countdown, config: { from: 1 } }
  terminal: { type: stdio, preprocessors: [lines], codec: keyvalue, postprocessors: [lines] }
  nothing: { type: 'null' }
  end: { type: exit, config: { after_events: 1000000 } }
  file: { type: file, codec: json, config: { path: out.json, mode: truncate } }
  measured: { type: bench, codec: json }
  taken: { type: take, codec: json }
pipelines:
  main:
    operators: [{ type: logging }]
links:
  - numbers -> nothing
  - clock -> main -> taken
  - terminal -> end
  - terminal -> file
  - terminal -> measured
FLOW

# Standard input is a pipe into which no process writes.
mkfifo "$work/silence"
"$folder/tremor" run "$work/flow.yaml" <> "$work/silence" > "$work/out" 2> "$work/log" &
tremor=$!
trap 'kill "$tremor" 2> "$work/log"; rm -rf "$work"' EXIT
sleep "$seconds"
kill -0 "$tremor" || { cat "$work/log" >&2; exit 1; }
for plugin in "${plugins[@]}"; do
  grep -q "lib${plugin//-/_}.so" "/proc/$tremor/maps" || { echo "$plugin is not loaded" >&2; exit 1; }
done
echo "commit: $(git describe --always --dirty --abbrev=40), ${#plugins[@]} plugins, idle for $seconds s"
awk '/^(VmRSS|RssAnon|RssFile|Threads):/ { sub(":", ""); print $1, $2 / ($3 ? 1024 : 1), $3 ? "MiB" : "" }' \
  "/proc/$tremor/status"
