#!/usr/bin/env bash
# Compares the throughput of programs, and reports how reliable the comparison is.
#
#   scripts/bench.sh [--config FILE] [--flow F]... [--subject NAME=COMMAND]... [options]
#
#   --config FILE           settings, `key = value`; bench/bench.conf unless given
#   --flow FILE             a flow to run; replaces those of the configuration. Repeatable
#   --subject NAME=COMMAND  a program to measure; replaces those of the configuration. Repeatable. The first
#                           one is the baseline. {flow}, {name}, {json}, {hgrm}, {warmup} and {duration}
#                           stand for the flow's file and name, the files to write, and seconds
#   --baseline NAME         the subject with which the others are compared, instead of the first one
#   --check COMMAND         a command that checks {flow}; empty for none
#   --rounds N              number of times that each subject runs each flow
#   --warmup S              seconds before events are counted
#   --duration S            seconds in which events are counted
#   --output DIR            folder of the results; a new folder in bench/out unless given
#   --pin CPUS              the processors to run on, as `taskset --cpu-list` takes them
#   --seed N                seed of the random order
#   --build                 first runs the builds of the configuration
#   --dry-run               validates, tries each subject for a second, prints the plan, and ends
#   --resume DIR            continues an interrupted benchmark; takes no other option
#   --profile               profiles each subject on each flow after the timed runs
#
# Paths are relative to the repository. For details, see docs/benchmarks/harness.md.
# Exit status: 0 success, 1 a run failed, 2 refused before any run, 130 interrupted.
set -euo pipefail
[ "${BASH_VERSINFO[0]}" -ge 5 ] && [ -r /proc/loadavg ] || {
  echo "error: this script needs Linux and bash 5, but found $(uname -s) and bash $BASH_VERSION" >&2
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

# Ends the script before any run, with an error message and a remedy.
refuse() {
  say "error: $1"
  [ $# -lt 2 ] || say "  $2"
  exit 2
}

notices=()
# Prints a notice about something optional, and adds it to the report.
notice() {
  say "notice: $1"
  notices+=("$1")
}

# Builds the program that computes figures from samples. Tests set BENCH_REPORT to a program that is already built.
build_report_tool() {
  if [ -n "${BENCH_REPORT:-}" ]; then
    [ -x "$BENCH_REPORT" ] || refuse "BENCH_REPORT is $BENCH_REPORT, which is not a program"
    return
  fi
  cargo build --quiet --release --package bench-report \
    || refuse "bench-report does not build" "See the messages of the compiler above."
  BENCH_REPORT=${CARGO_TARGET_DIR:-target}/release/bench-report
}

build_subjects() {
  local line
  local -a words
  for line in "${builds[@]}"; do
    say "building: $line"
    split_words words "$line"
    "${words[@]}" >&2 || refuse "\`$line\` failed" "Fix the build, or omit --build if everything is built."
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
    say "error: $failures of $total runs failed; see $output/report.md"
    exit 1
  fi
}

main "$@"
