#!/usr/bin/env bash
# Compares other values of the constants in runtime/src/engine/tuning.rs with those that are there.
#
#   scripts/tuning.sh NAME=VALUE... [-- OPTION...]
#
#   NAME=VALUE  a constant and another value, as Rust has it: SPIN='Duration::from_micros(50)'
#   OPTION      of scripts/bench.sh: --flow, --rounds and so on
#
# Each value is a build of the committed state with one line changed: optimised, but not as a whole and
# incrementally, since that takes half a minute and not two. What was built is kept in target/tuning for the
# next call on the same commit. `-- --dry-run` builds and measures nothing.
# TUNING_ARGUMENTS has arguments of `tremor bench`, for instance `--rate 550000`.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
file=runtime/src/engine/tuning.rs
folder=target/tuning
source=$folder/source
built=$folder/$(git rev-parse --short HEAD)

variants=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  variants+=("$1")
  shift
done
[ $# -eq 0 ] || shift
[ ${#variants[@]} -gt 0 ] || {
  echo "usage: scripts/tuning.sh NAME=VALUE... [-- OPTION...]" >&2
  exit 2
}

# Makes target/tuning/COMMIT/LABEL of the committed state, with the constant NAME as VALUE.
build() {
  local label=$1 name=$2 value=$3
  [ ! -e "$built/$label" ] || return 0
  git show "HEAD:$file" |
    awk -v name="$name" -v value="$value" '
      $0 ~ "const " name ":" { sub(/ =.*/, " = " value ";"); found = 1 }
      { print }
      END { exit name != "" && !found }' >"$source/$file" || {
    echo "error: $file has no constant $name" >&2
    exit 2
  }
  CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_INCREMENTAL=true \
    cargo build --quiet --release --package=tremor-runtime --bin=tremor \
      --manifest-path="$source/Cargo.toml" --target-dir="$folder/build"
  cp "$folder/build/release/tremor" "$built/$label"
}

command_of() {
  echo "$1=$built/$1 bench {flow} ${TUNING_ARGUMENTS:-} --warmup {warmup} --duration {duration} --json {json} --hgrm {hgrm}"
}

rm -rf "$source"
mkdir -p "$source" "$built"
git archive HEAD | tar -x -C "$source"
build as-it-is "" ""
subjects=(--subject "$(command_of as-it-is)")
for variant in "${variants[@]}"; do
  label=$(sed -E 's/[^A-Za-z0-9_.]+/-/g; s/-$//' <<<"$variant")
  build "$label" "${variant%%=*}" "${variant#*=}"
  subjects+=(--subject "$(command_of "$label")")
done
exec scripts/bench.sh "${subjects[@]}" --check "$built/as-it-is check {flow}" "$@"
