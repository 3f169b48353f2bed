#!/usr/bin/env bash
# Compares the throughput of programs, and says how far the comparison can be trusted.
#
#   scripts/bench.sh [--config FILE] [--flow F]... [--subject NAME=COMMAND]... [options]
#
#   --config FILE           settings, `key = value`; bench/bench.conf unless given
#   --flow FILE             a flow to run; replaces those of the configuration. Repeatable
#   --subject NAME=COMMAND  what to measure; replaces those of the configuration. Repeatable. The first
#                           one is the baseline. {flow}, {name}, {json}, {hgrm}, {warmup} and {duration}
#                           stand for the flow's file and name, where to write, and seconds
#   --baseline NAME         what the others are compared with, instead of the first
#   --check COMMAND         what says whether {flow} is good; empty for none
#   --rounds N              how often each subject runs each flow
#   --warmup S              seconds before events count
#   --duration S            seconds in which they count
#   --output DIR            where results go; a new folder in bench/out unless given
#   --pin CPUS              the processors to run on, as `taskset --cpu-list` takes them
#   --seed N                of the random order
#   --build                 builds what the configuration says before all else
#   --dry-run               validates, tries each subject for a second, prints the plan, and ends
#   --resume DIR            goes on with what was interrupted; takes no other option
#   --profile               profiles each subject on each flow after the timed runs
#
# Paths are relative to the repository. docs/benchmarks/harness.md says more.
# Exit status: 0 done, 1 a run failed, 2 refused before anything ran, 130 interrupted.
set -euo pipefail
[ "${BASH_VERSINFO[0]}" -ge 5 ] && [ -r /proc/loadavg ] || {
  echo "error: this needs Linux and bash 5; here are $(uname -s) and bash $BASH_VERSION" >&2
  exit 2
}
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
command_line=scripts/bench.sh
for argument in "$@"; do
  [[ $argument =~ ^[A-Za-z0-9_./=,:-]+$ ]] || argument=${argument@Q}
  command_line+=" $argument"
done

# shellcheck source=scripts/bench/settings.sh
source scripts/bench/settings.sh
# shellcheck source=scripts/bench/validate.sh
source scripts/bench/validate.sh
# shellcheck source=scripts/bench/machine.sh
source scripts/bench/machine.sh
# shellcheck source=scripts/bench/measure.sh
source scripts/bench/measure.sh
# shellcheck source=scripts/bench/profile.sh
source scripts/bench/profile.sh

say() { echo "$*" >&2; }

# Ends the benchmark before it began: what is wrong, and what to do.
refuse() {
  say "error: $1"
  [ $# -lt 2 ] || say "  $2"
  exit 2
}

notices=()
# Something is missing that the benchmark can do without; said now and in the report.
notice() {
  say "notice: $1"
  notices+=("$1")
}

# The program that makes figures of samples. Tests name one that is built already.
build_report_tool() {
  if [ -n "${BENCH_REPORT:-}" ]; then
    [ -x "$BENCH_REPORT" ] || refuse "BENCH_REPORT names $BENCH_REPORT, which is no program"
    return
  fi
  cargo build --quiet --release --package bench-report \
    || refuse "bench-report does not build" "The compiler says above what is wrong."
  BENCH_REPORT=${CARGO_TARGET_DIR:-target}/release/bench-report
}

build_subjects() {
  local line
  local -a words
  for line in "${builds[@]}"; do
    say "building: $line"
    split_words words "$line"
    "${words[@]}" >&2 || refuse "\`$line\` failed" "Repair it, or drop --build if all is built."
  done
}

main() {
  parse_arguments "$@"
  scratch=$(mktemp -d)
  trap on_exit EXIT
  trap 'interrupted INT' INT
  trap 'interrupted TERM' TERM
  trap 'interrupted HUP' HUP
  if [ -n "$resume" ]; then
    load_interrupted
  else
    load_settings
  fi
  check_settings
  build_report_tool
  [ "$build" = no ] || build_subjects
  validate
  schedule
  print_plan
  [ "$dry_run" = no ] || return 0
  open_output
  measure_all
  [ "$profile" = no ] || profile_all
  close_output
  write_report
  say "report: $output/report.md"
  if [ "$failures" -gt 0 ]; then
    say "error: $failures of $total runs failed; $output/report.md says which and why"
    exit 1
  fi
}

main "$@"
