#!/usr/bin/env bash
# Tests of scripts/bench.sh with subjects that measure nothing (fake.sh). The tests neither wait for time to pass nor
# depend on measured times. BENCH_REPORT is the program that writes the report.
#
#   BENCH_REPORT=target/debug/bench-report scripts/tests/bench.sh [NAME]...
# Messages contain backticks.
# shellcheck disable=SC2016
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${BENCH_REPORT:?is the path of bench-report, which has to be built before}"
BENCH_REPORT=$(realpath "$BENCH_REPORT")
export BENCH_REPORT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fake=$PWD/scripts/tests/fake.sh

# Prints a subject. Arguments: name, kind of fake.
subject() { echo "$1=$fake $2 {json} {hgrm}"; }

# Runs the harness, and sets `printed` to its output and `status` to its exit status.
bench() {
  status=0
  scripts/bench.sh "$@" > "$work/out" 2> "$work/err" || status=$?
  printed=$(cat "$work/out" "$work/err")
}

fail() {
  echo "FAILED: $*"
  echo "--- exit status ${status:-none}, output:"
  echo "${printed:-}"
  return 1
}

exits() { [ "$status" -eq "$1" ] || fail "expected exit status $1"; }
prints() { [[ $printed == *"$1"* ]] || fail "expected in the output: $1"; }
reports() { grep -qF -- "$1" "$folder/report.md" || fail "expected in the report: $1"; }
reports_no() { ! grep -qF -- "$1" "$folder/report.md" || fail "not expected in the report: $1"; }
done_runs() { echo $(($(wc -l < "$folder/runs.tsv") - 1)); }

# Writes a configuration with a flow file that no subject reads. Arguments: name of the test, further lines.
configure() {
  folder=$work/$1
  mkdir -p "$folder"
  echo "any" > "$folder/flow.yaml"
  conf=$folder/bench.conf
  printf 'flow = %s\nseed = 1\nrounds = 10\nwarmup = 0\nduration = 0.1\n' "$folder/flow.yaml" > "$conf"
  shift
  local line
  for line in "$@"; do echo "$line" >> "$conf"; done
  folder=$folder/results
}

run() { bench --config "$conf" --output "$folder" "$@"; }

three_per_cent_slower_is_reported() {
  configure slower "subject = $(subject usual quick)" "subject = $(subject other slower)"
  run
  exits 0
  grep -qE '\*\*slower by (2\.[5-9]|3\.[0-5]) % \[' "$folder/report.md" || fail "not reported: $(cat "$folder/report.md")"
  [ "$(find "$folder/samples" -name '*.json' | wc -l)" -eq 30 ] || fail "expected 30 samples"
  [ "$(wc -l < "$folder/samples.csv")" -eq 31 ] || fail "expected a heading and 30 rows"
  reports '| subject | rounds | events/s | MB/s | CPU, ns/event | p50 |'
}

same_program_with_two_names_has_no_difference() {
  configure same "subject = $(subject usual quick)" "subject = $(subject other quick)"
  local seed
  for seed in 1 2 3; do
    folder=$work/same/results-$seed
    run --seed $seed
    exits 0
    reports 'no difference'
    reports_no 'slower by'
    reports_no 'faster by'
  done
}

crash_of_a_subject_does_not_affect_others() {
  configure crash "subject = $(subject usual quick)" "subject = $(subject dies crash)" "subject = $(subject other slower)"
  run --rounds 5
  exits 1
  prints '5 of 20 runs failed'
  reports '5 of 20 runs failed; they are not included in any figure.'
  reports '- `dies` on `flow`'
  reports 'exit status 139; last line of run'
  reports ': `fake: assertion failed`'
  reports '**slower by'
  grep -q 'assertion failed' "$folder"/samples/*-dies.err || fail "the standard error of the subject is missing"
}

invalid_result_of_a_subject_does_not_affect_others() {
  configure nonsense "subject = $(subject usual quick)" "subject = $(subject mad nonsense)" "subject = $(subject other slower)"
  run --rounds 5
  exits 1
  prints 'invalid result'
  reports '- `mad` on `flow`'
  reports '**slower by'
}

interrupted_benchmark_is_resumed() {
  configure resume "subject = $(subject usual quick)" "subject = $(subject other waits)"
  export FAKE_LOG=$work/resume/log FAKE_FIFO=$work/resume/fifo FAKE_NEVER=$work/resume/never FAKE_WAITED=$work/resume/waited
  mkfifo "$FAKE_FIFO" "$FAKE_NEVER"
  # With this seed, the fourth run is one of `other`, whose fake waits in the fourth run.
  local seed=1
  until [ $seed -gt 100 ] || [ "$("$BENCH_REPORT" schedule --seed $seed --rounds 5 --flows flow --subjects usual other usual-again | awk 'NR == 4 { print $4 }')" = other ]; do seed=$((seed + 1)); done
  env --default-signal=INT scripts/bench.sh --config "$conf" --output "$folder" --rounds 5 --seed $seed > "$work/out" 2> "$work/err" &
  local harness=$! fake _
  # The pipe is also opened for writing, so that the read times out if the fake never writes.
  exec 9<> "$FAKE_FIFO"
  read -r -t 60 _ <&9 || fail "the fourth run did not begin: $(cat "$work/err")"
  kill -INT $harness
  status=0
  wait $harness || status=$?
  printed=$(cat "$work/out" "$work/err")
  exits 130
  prints "--resume $folder"
  read -r fake < "$FAKE_WAITED"
  # An ended process remains a zombie until init has collected its status.
  local state='' attempts
  for ((attempts = 0; attempts < 300; attempts++)); do
    state=$(awk '$1 == "State:" { print $2 }' "/proc/$fake/status" 2> /dev/null) || true
    case $state in '' | Z | X) break ;; esac
    read -r -t 0.1 _ <&9 || true
  done
  case $state in '' | Z | X) ;; *) fail "the subject still runs: $state" ;; esac
  [ "$(done_runs)" -eq 3 ] || fail "expected 3 finished runs"
  cp "$folder/runs.tsv" "$work/resume/before.tsv"

  bench --resume "$folder"
  exits 0
  [ "$(done_runs)" -eq 15 ] || fail "expected 15 finished runs"
  cmp -s <(head -n 4 "$folder/runs.tsv") "$work/resume/before.tsv" || fail "finished runs were not kept"
  [ "$(cut -f1-4 "$folder/runs.tsv" | tail -n +2)" = "$(cat "$folder/plan.tsv")" ] || fail "the order differs from the plan"
  # Only the interrupted run was repeated.
  [ "$(grep -vc try "$FAKE_LOG")" -eq 16 ] || fail "expected 16 calls of subjects"
  reports_no 'runs failed'
  unset FAKE_LOG FAKE_FIFO FAKE_NEVER FAKE_WAITED
}

resume_with_another_program_is_refused() {
  cp "$fake" "$work/other-fake"
  configure changed "subject = usual=$work/other-fake quick {json} {hgrm}"
  run --rounds 1
  exits 0
  sed -i '$d' "$folder/runs.tsv"
  echo '# changed' >> "$work/other-fake"
  bench --resume "$folder"
  exits 2
  prints 'the program of usual has changed since the benchmark began'
}

dry_run_measures_nothing() {
  configure dry "subject = $(subject usual quick)" "subject = $(subject other slower)"
  export FAKE_LOG=$work/dry/log
  run --dry-run
  exits 0
  prints 'runs: 30 in 10 rounds'
  prints 'usual (baseline)'
  prints 'time: about 0:00:'
  [ ! -e "$folder" ] || fail "the folder $folder exists"
  [ "$(grep -vc 'try.json' "$FAKE_LOG")" -eq 0 ] || fail "subjects ran more than their trials"
  unset FAKE_LOG
}

arguments_override_the_file() {
  configure flags "subject = $(subject usual quick)" "subject = $(subject other slower)"
  run --dry-run --rounds 7 --subject "$(subject one quick)" --subject "$(subject 'two' quick)" --baseline two
  exits 0
  prints 'runs: 21 in 7 rounds'
  prints 'two (baseline)'
  [[ $printed != *usual* ]] || fail "the subjects of the file were not replaced"
}

command_is_split_but_not_run_by_a_shell() {
  configure quotes "subject = usual='$fake' \"quick\" {json} {hgrm} 'two words' \$(touch $work/run-by-a-shell)"
  run --dry-run
  exits 0
  [ ! -e "$work/run-by-a-shell" ] || fail "a shell ran the command"
}

# Checks that a benchmark is refused. Arguments: the fault, a part of the message, the arguments of the harness.
refuses() {
  local what=$1 message=$2
  shift 2
  rm -f "$FAKE_LOG"
  run "$@"
  [ "$status" -eq 2 ] || fail "$what: expected exit status 2"
  prints "$message"
  [ ! -e "$folder" ] || fail "$what: the folder $folder exists"
  [ ! -e "$FAKE_LOG" ] || ! grep -qv try.json "$FAKE_LOG" || fail "$what: a subject was measured"
}

invalid_settings_are_refused_before_any_run() {
  local good
  good=$(subject usual quick)
  export FAKE_LOG=$work/wrong/log
  configure wrong "subject = $good" "check = true"
  refuses 'an unknown flag' 'unknown option --round' --round 3
  refuses 'a flag without its value' '--rounds needs a value' --rounds
  refuses 'no rounds' 'invalid rounds `0`' --rounds 0
  refuses 'no duration' 'invalid duration `0`' --duration 0
  refuses 'a warm-up of words' 'invalid warmup `long`' --warmup long
  refuses 'a missing flow' 'cannot read the flow none.yaml' --flow none.yaml
  refuses 'an invalid flow' 'failed the check `false`' --check 'false'
  refuses 'a subject without a name' 'invalid subject' --subject "$fake"
  refuses 'a repeated name' 'two subjects have the name usual' --subject "$good" --subject "$good"
  refuses 'the name of the second run' 'the name usual-again is reserved' --subject "$good" --subject "$(subject usual-again quick)"
  refuses 'an unknown baseline' 'the baseline plugin is not a subject' --baseline plugin
  refuses 'a missing program' 'the subject new runs ./none' --subject 'new=./none {json}'
  refuses 'a subject that writes nothing' 'the command of new has no {json}' --subject "new=$fake quick"
  refuses 'an unclosed quote' 'has an unclosed quote' --subject "new=$fake 'quick {json}"
  refuses 'a subject that fails' 'the subject new does not run on flow: failed with exit status 3' --subject "$(subject new broken)"
  refuses 'a missing configuration' 'cannot read the configuration none.conf' --config none.conf
  refuses 'a missing processor' 'cannot run on the processors 4096' --pin 4096
  refuses 'nothing to resume' '--resume takes no other option' --resume "$work"
  configure typo "subject = $good" 'round = 3'
  refuses 'an unknown setting' 'bench.conf:7: unknown setting `round`'
  configure prose "subject = $good" 'ten rounds, please'
  refuses 'an invalid line' 'bench.conf:7: invalid setting `ten rounds, please`'
  unset FAKE_LOG
  bench --resume "$work"
  exits 2
  prints 'has no benchmark that can be resumed'
}

# Writes a program to the folder `stubs`, which tests prepend to PATH. Arguments: name, lines of the script.
stub() {
  mkdir -p "$work/stubs"
  printf '#!/usr/bin/env bash\n%s\n' "$2" > "$work/stubs/$1"
  chmod +x "$work/stubs/$1"
}

unavailable_profilers_are_disabled_with_a_notice() {
  configure unprofiled "subject = $(subject usual quick)"
  stub perf 'exit 127'
  stub valgrind 'exit 127'
  PATH=$work/stubs:$PATH run --rounds 1 --profile
  exits 0
  reports '> **perf record does not work on this machine'
  reports '> **perf stat cannot count instructions on this machine'
  reports '> **valgrind is missing'
  [ ! -e "$folder/profile.tsv" ] || fail "something was profiled"
}

profiles_are_from_separate_runs() {
  configure profiled "subject = $(subject usual quick)"
  export FAKE_LOG=$work/profiled/log
  # This stub works in the check of profilers, and fails later.
  stub perf '[ "$1" = record ] && [[ $* == *" -- true" ]]'
  # This stub runs the program, and then writes the files of callgrind and DHAT.
  stub valgrind '[ "$1" != --version ] || exit 0
    "${@:3}"
    echo "summary: 2000000000" > "${2#*=}"
    echo "==1== At t-gmax: 2,000 bytes in 3 blocks" >&2'
  PATH=$work/stubs:$PATH run --rounds 1 --profile
  exits 0
  # The calls are a trial, two runs of the subject, callgrind and DHAT.
  [ "$(wc -l < "$FAKE_LOG")" -eq 5 ] || fail "expected 5 calls: $(cat "$FAKE_LOG")"
  grep -qE '\| instructions \| [0-9]+ per event, start included \| \[callgrind.out\]' "$folder/report.md" || fail "no instructions"
  reports '| heap | 2,000 bytes in 3 blocks at its largest |'
  reports 'The profile perf-record of usual on flow failed with exit status 1.'
  reports '| perf-record | failed | [perf-record.err](profile/flow-usual/perf-record.err) |'
  unset FAKE_LOG
}

results_are_not_overwritten() {
  configure over "subject = $(subject usual quick)"
  run --rounds 1
  exits 0
  run --rounds 1
  exits 2
  prints 'already contains a benchmark'
}

tests=("$@")
[ $# -gt 0 ] || tests=(
  three_per_cent_slower_is_reported
  same_program_with_two_names_has_no_difference
  crash_of_a_subject_does_not_affect_others
  invalid_result_of_a_subject_does_not_affect_others
  interrupted_benchmark_is_resumed
  resume_with_another_program_is_refused
  dry_run_measures_nothing
  arguments_override_the_file
  command_is_split_but_not_run_by_a_shell
  invalid_settings_are_refused_before_any_run
  unavailable_profilers_are_disabled_with_a_notice
  profiles_are_from_separate_runs
  results_are_not_overwritten
)
failed=0
for test in "${tests[@]}"; do
  # `set -e` has no effect in a condition. The test therefore runs as a background job, for which the condition waits.
  (set -e; "$test") > "$work/log" 2>&1 &
  if wait $!; then
    echo "test $test ... ok"
  else
    failed=$((failed + 1))
    echo "test $test ... FAILED"
    sed 's/^/    /' "$work/log"
  fi
done
echo "${#tests[@]} tests, $failed failed"
[ "$failed" -eq 0 ]
