#!/usr/bin/env bash
# What scripts/bench.sh promises, with subjects that measure nothing (fake.sh): no second is waited for
# and no time is looked at. BENCH_REPORT names the program that makes the report.
#
#   BENCH_REPORT=target/debug/bench-report scripts/tests/bench.sh [NAME]...
# Messages have backticks in them.
# shellcheck disable=SC2016
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${BENCH_REPORT:?names the program bench-report, built before}"
BENCH_REPORT=$(realpath "$BENCH_REPORT")
export BENCH_REPORT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fake=$PWD/scripts/tests/fake.sh

# A subject: its name, and the kind of fake that it is.
subject() { echo "$1=$fake $2 {json} {hgrm}"; }

# Runs the harness; what it says goes to `said`, its exit status to `status`.
bench() {
  status=0
  scripts/bench.sh "$@" > "$work/out" 2> "$work/err" || status=$?
  said=$(cat "$work/out" "$work/err")
}

fail() {
  echo "FAILED: $*"
  echo "--- exit status ${status:-none}, and it said:"
  echo "${said:-}"
  return 1
}

exits() { [ "$status" -eq "$1" ] || fail "expected exit status $1"; }
says() { [[ $said == *"$1"* ]] || fail "expected it to say: $1"; }
reports() { grep -qF -- "$1" "$folder/report.md" || fail "expected in the report: $1"; }
reports_no() { ! grep -qF -- "$1" "$folder/report.md" || fail "not expected in the report: $1"; }
done_runs() { echo $(($(wc -l < "$folder/runs.tsv") - 1)); }

# A configuration of its own for each test, for a flow that is no flow.
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

three_per_cent_slower_is_caught() {
  configure slower "subject = $(subject usual quick)" "subject = $(subject other slower)"
  run
  exits 0
  grep -qE '\*\*slower by (2\.[5-9]|3\.[0-5]) % \[' "$folder/report.md" || fail "not caught: $(cat "$folder/report.md")"
  [ "$(find "$folder/samples" -name '*.json' | wc -l)" -eq 30 ] || fail "expected 30 samples"
  [ "$(wc -l < "$folder/samples.csv")" -eq 31 ] || fail "expected a heading and 30 rows"
  reports '| subject | rounds | events/s | MB/s | CPU, ns/event | p50 |'
}

the_same_program_under_two_names_is_not_called() {
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

a_subject_that_crashes_fails_alone() {
  configure crash "subject = $(subject usual quick)" "subject = $(subject dies crash)" "subject = $(subject other slower)"
  run --rounds 5
  exits 1
  says '5 of 20 runs failed'
  reports '5 of 20 runs failed; they are in no figure below.'
  reports '- `dies` on `flow`'
  reports 'exit status 139; run'
  reports 'last said: `fake: assertion failed`'
  reports '**slower by'
  grep -q 'assertion failed' "$folder"/samples/*-dies.err || fail "its stderr is lost"
}

a_subject_that_writes_nonsense_fails_alone() {
  configure nonsense "subject = $(subject usual quick)" "subject = $(subject mad nonsense)" "subject = $(subject other slower)"
  run --rounds 5
  exits 1
  says 'it wrote nonsense'
  reports '- `mad` on `flow`'
  reports '**slower by'
}

an_interrupted_benchmark_is_gone_on_with() {
  configure resume "subject = $(subject usual quick)" "subject = $(subject other waits)"
  export FAKE_LOG=$work/resume/log FAKE_FIFO=$work/resume/fifo FAKE_NEVER=$work/resume/never FAKE_WAITED=$work/resume/waited
  mkfifo "$FAKE_FIFO" "$FAKE_NEVER"
  # A seed with which the fourth run is one of `other`, whose fake waits in its fourth run.
  local seed=1
  until [ $seed -gt 100 ] || [ "$("$BENCH_REPORT" schedule --seed $seed --rounds 5 --flows flow --subjects usual other usual-again | awk 'NR == 4 { print $4 }')" = other ]; do seed=$((seed + 1)); done
  env --default-signal=INT scripts/bench.sh --config "$conf" --output "$folder" --rounds 5 --seed $seed > "$work/out" 2> "$work/err" &
  local harness=$! fake _
  # Opened for writing, too, so that a fake that never says so is no wait without an end.
  exec 9<> "$FAKE_FIFO"
  read -r -t 60 _ <&9 || fail "the fourth run did not begin: $(cat "$work/err")"
  kill -INT $harness
  status=0
  wait $harness || status=$?
  said=$(cat "$work/out" "$work/err")
  exits 130
  says "--resume $folder"
  read -r fake < "$FAKE_WAITED"
  # What has ended is a process until somebody has asked how, which init does in its own time.
  local state='' looks
  for ((looks = 0; looks < 300; looks++)); do
    state=$(awk '$1 == "State:" { print $2 }' "/proc/$fake/status" 2> /dev/null) || true
    case $state in '' | Z | X) break ;; esac
    read -r -t 0.1 _ <&9 || true
  done
  case $state in '' | Z | X) ;; *) fail "the subject still runs: $state" ;; esac
  [ "$(done_runs)" -eq 3 ] || fail "expected 3 runs that are done"
  cp "$folder/runs.tsv" "$work/resume/before.tsv"

  bench --resume "$folder"
  exits 0
  [ "$(done_runs)" -eq 15 ] || fail "expected 15 runs that are done"
  cmp -s <(head -n 4 "$folder/runs.tsv") "$work/resume/before.tsv" || fail "what was done is not what was kept"
  [ "$(cut -f1-4 "$folder/runs.tsv" | tail -n +2)" = "$(cat "$folder/plan.tsv")" ] || fail "the order is not that of the plan"
  # Of the runs that were done, none again; of the one that was interrupted, one.
  [ "$(grep -vc try "$FAKE_LOG")" -eq 16 ] || fail "expected 16 calls of subjects"
  reports_no 'runs failed'
  unset FAKE_LOG FAKE_FIFO FAKE_NEVER FAKE_WAITED
}

another_program_is_not_gone_on_with() {
  cp "$fake" "$work/other-fake"
  configure changed "subject = usual=$work/other-fake quick {json} {hgrm}"
  run --rounds 1
  exits 0
  sed -i '$d' "$folder/runs.tsv"
  echo '# changed' >> "$work/other-fake"
  bench --resume "$folder"
  exits 2
  says 'the program of usual is not the one that was measured'
}

a_dry_run_measures_nothing() {
  configure dry "subject = $(subject usual quick)" "subject = $(subject other slower)"
  export FAKE_LOG=$work/dry/log
  run --dry-run
  exits 0
  says 'runs: 30 in 10 rounds'
  says 'usual (baseline)'
  says 'time: about 0:00:'
  [ ! -e "$folder" ] || fail "it made $folder"
  [ "$(grep -vc 'try.json' "$FAKE_LOG")" -eq 0 ] || fail "it ran more than trials"
  unset FAKE_LOG
}

flags_go_before_the_file() {
  configure flags "subject = $(subject usual quick)" "subject = $(subject other slower)"
  run --dry-run --rounds 7 --subject "$(subject one quick)" --subject "$(subject 'two' quick)" --baseline two
  exits 0
  says 'runs: 21 in 7 rounds'
  says 'two (baseline)'
  [[ $said != *usual* ]] || fail "the subjects of the file are there still"
}

a_command_is_split_but_not_run_by_a_shell() {
  configure quotes "subject = usual='$fake' \"quick\" {json} {hgrm} 'two words' \$(touch $work/run-by-a-shell)"
  run --dry-run
  exits 0
  [ ! -e "$work/run-by-a-shell" ] || fail "a shell ran it"
}

# What is wrong, what the message names, and the arguments.
refuses() {
  local what=$1 message=$2
  shift 2
  rm -f "$FAKE_LOG"
  run "$@"
  [ "$status" -eq 2 ] || fail "$what: expected to be refused"
  says "$message"
  [ ! -e "$folder" ] || fail "$what: it made $folder"
  [ ! -e "$FAKE_LOG" ] || ! grep -qv try.json "$FAKE_LOG" || fail "$what: it measured something"
}

what_is_wrong_is_refused_before_anything_runs() {
  local good
  good=$(subject usual quick)
  export FAKE_LOG=$work/wrong/log
  configure wrong "subject = $good" "check = true"
  refuses 'an unknown flag' '--round is no option' --round 3
  refuses 'a flag without its value' '--rounds wants a value' --rounds
  refuses 'no rounds' 'rounds is `0`' --rounds 0
  refuses 'no duration' 'duration is `0`' --duration 0
  refuses 'a warm-up of words' 'warmup is `long`' --warmup long
  refuses 'a flow that is not there' 'cannot read the flow none.yaml' --flow none.yaml
  refuses 'a flow that is not good' 'does not pass `false`' --check 'false'
  refuses 'a subject without a name' 'is not NAME=COMMAND' --subject "$fake"
  refuses 'a name that twice is taken' 'two subjects are called usual' --subject "$good" --subject "$good"
  refuses 'the name of the second run' 'the name usual-again is taken' --subject "$good" --subject "$(subject usual-again quick)"
  refuses 'a baseline that is no subject' 'the baseline plugin is no subject' --baseline plugin
  refuses 'a program that is not there' 'the subject new runs ./none' --subject 'new=./none {json}'
  refuses 'a subject that writes nothing' 'the command of new has no {json}' --subject "new=$fake quick"
  refuses 'a quote that does not end' 'has a quote that does not end' --subject "new=$fake 'quick {json}"
  refuses 'a subject that does not work' 'the subject new does not run on flow: it ended with exit status 3' --subject "$(subject new broken)"
  refuses 'a configuration that is not there' 'cannot read the configuration none.conf' --config none.conf
  refuses 'a processor that is not there' 'cannot run on the processors 4096' --pin 4096
  refuses 'nothing to resume' '--resume takes no other option' --resume "$work"
  configure typo "subject = $good" 'round = 3'
  refuses 'a setting that is none' 'bench.conf:7: there is no setting `round`'
  configure prose "subject = $good" 'ten rounds, please'
  refuses 'a line that is no setting' 'bench.conf:7: `ten rounds, please` is no setting'
  unset FAKE_LOG
  bench --resume "$work"
  exits 2
  says 'holds no benchmark that can be resumed'
}

# A folder with a program of this name, which runs these lines; `PATH` begins with it.
stub() {
  mkdir -p "$work/stubs"
  printf '#!/usr/bin/env bash\n%s\n' "$2" > "$work/stubs/$1"
  chmod +x "$work/stubs/$1"
}

profilers_that_do_not_work_are_switched_off_with_a_notice() {
  configure unprofiled "subject = $(subject usual quick)"
  stub perf 'exit 127'
  stub valgrind 'exit 127'
  PATH=$work/stubs:$PATH run --rounds 1 --profile
  exits 0
  reports '> **perf record does not work here'
  reports '> **perf stat counts no instructions here'
  reports '> **valgrind is missing'
  [ ! -e "$folder/profile.tsv" ] || fail "something was profiled"
}

profiles_come_from_runs_of_their_own() {
  configure profiled "subject = $(subject usual quick)"
  export FAKE_LOG=$work/profiled/log
  # Works when it is tried, and not then.
  stub perf '[ "$1" = record ] && [[ $* == *" -- true" ]]'
  # Runs the program, and then writes what both tools write.
  stub valgrind '[ "$1" != --version ] || exit 0
    "${@:3}"
    echo "summary: 2000000000" > "${2#*=}"
    echo "==1== At t-gmax: 2,000 bytes in 3 blocks" >&2'
  PATH=$work/stubs:$PATH run --rounds 1 --profile
  exits 0
  # A trial, the subject twice, callgrind, DHAT.
  [ "$(wc -l < "$FAKE_LOG")" -eq 5 ] || fail "expected 5 calls: $(cat "$FAKE_LOG")"
  grep -qE '\| instructions \| [0-9]+ an event, start included \| \[callgrind.out\]' "$folder/report.md" || fail "no instructions"
  reports '| heap | 2,000 bytes in 3 blocks at its largest |'
  reports 'The profile perf-record of usual on flow failed with exit status 1.'
  reports '| perf-record | failed | [perf-record.err](profile/flow-usual/perf-record.err) |'
  unset FAKE_LOG
}

results_are_not_written_over() {
  configure over "subject = $(subject usual quick)"
  run --rounds 1
  exits 0
  run --rounds 1
  exits 2
  says 'holds a benchmark already'
}

tests=("$@")
[ $# -gt 0 ] || tests=(
  three_per_cent_slower_is_caught
  the_same_program_under_two_names_is_not_called
  a_subject_that_crashes_fails_alone
  a_subject_that_writes_nonsense_fails_alone
  an_interrupted_benchmark_is_gone_on_with
  another_program_is_not_gone_on_with
  a_dry_run_measures_nothing
  flags_go_before_the_file
  a_command_is_split_but_not_run_by_a_shell
  what_is_wrong_is_refused_before_anything_runs
  profilers_that_do_not_work_are_switched_off_with_a_notice
  profiles_come_from_runs_of_their_own
  results_are_not_written_over
)
failed=0
for test in "${tests[@]}"; do
  # `set -e` holds where nobody looks at the status: in a background job, whose status is asked later.
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
