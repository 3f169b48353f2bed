# shellcheck shell=bash
# Profiles of time, instructions and memory, from separate runs that are not included in any figure.

# Duration of a profiled run. It is short, because programs are some fifty times slower under valgrind.
readonly PROFILE_SECONDS=5
profilers=()

# Finds the profilers that work on this machine. The other profilers are disabled with a notice.
check_profilers() {
  local missing='this part of --profile is disabled'
  if perf record -o "$scratch/perf.data" -- true > /dev/null 2>&1; then
    profilers+=(perf_record)
    has_inferno || notice "Profiles have no flame graphs, because inferno is missing (\`cargo install inferno\`)."
  else
    notice "perf record does not work on this machine (is it installed, and is kernel.perf_event_paranoid at most 1?): $missing."
  fi
  if perf stat -x, -e instructions,cycles -- true 2>&1 | grep -qE '^[0-9]+,'; then
    profilers+=(perf_stat)
  else
    notice "perf stat cannot count instructions on this machine (not installed, or a virtual machine without counters): $missing."
  fi
  if valgrind --version > /dev/null 2>&1; then
    profilers+=(callgrind dhat)
  else
    notice "valgrind is missing, which counts instructions and profiles the heap: $missing."
  fi
}

has_inferno() { has inferno-collapse-perf && has inferno-flamegraph; }

profile_all() {
  local flow name profiler
  [ ! -e "$output/profile.tsv" ] || return 0
  for flow in "${flow_names[@]}"; do
    for name in "${subject_names[@]}"; do
      mkdir -p "$output/profile/$flow-$name"
      for profiler in "${profilers[@]}"; do
        say "profile: $profiler of $name on $flow"
        "$profiler" "$flow" "$name" "profile/$flow-$name"
      done
    done
  done
  [ ! -e "$scratch/profile.tsv" ] || cp "$scratch/profile.tsv" "$output/profile.tsv"
}

# Adds a line to profile.tsv: flow, subject, name of the finding, value, file.
found() { printf '%s\t%s\t%s\t%s\t%s\n' "$@" >> "$scratch/profile.tsv"; }

# Runs a subject with a profiler, and returns whether both succeeded. Arguments: flow, subject, folder, name of the
# profile, the profiler with its arguments.
under() {
  local flow=$1 name=$2 files=$output/$3/$4 profile=$4
  shift 4
  fill_in "${commands[$name]}" "$flow" "$files.json" "$files.hgrm" 0 "$PROFILE_SECONDS"
  child=starting
  timeout --kill-after=10 600 "$@" "${words[@]}" > "$files.out" 2> "$files.err" < /dev/null &
  child=$!
  local status=0
  wait "$child" 2> /dev/null || status=$?
  child=''
  [ "$status" -eq 0 ] && "$BENCH_REPORT" check "$files.json" 2>> "$files.err" && return
  say "FAILED: $profile of $name on $flow (exit status $status); see $files.err"
  fact notice '' "The profile $profile of $name on $flow failed with exit status $status."
  found "$flow" "$name" "$profile" failed "profile/$flow-$name/$profile.err"
  return 1
}

perf_record() {
  local folder=$output/$3
  under "$1" "$2" "$3" perf-record perf record --call-graph fp -F 999 -o "$folder/perf.data" -- || return 0
  found "$1" "$2" 'samples of the processor' '' "$3/perf.data"
  perf report --stdio --no-children -g none --percent-limit 0.5 -i "$folder/perf.data" > "$folder/perf-report.txt" 2> /dev/null \
    && found "$1" "$2" 'time by function' '' "$3/perf-report.txt"
  has_inferno || return 0
  if perf script -i "$folder/perf.data" 2> /dev/null | inferno-collapse-perf 2> /dev/null \
    | inferno-flamegraph --title "$2 on $1" > "$folder/flamegraph.svg" 2> "$folder/flamegraph.err"; then
    found "$1" "$2" 'flame graph' '' "$3/flamegraph.svg"
    rm -f "$folder/flamegraph.err"
  else
    fact notice '' "Cannot draw the flame graph of $2 on $1: $(head -n 1 "$folder/flamegraph.err")"
  fi
}

perf_stat() {
  local events=task-clock,context-switches,page-faults,instructions,cycles,branches,branch-misses,cache-references,cache-misses
  under "$1" "$2" "$3" perf-stat perf stat -o "$output/$3/perf-stat.txt" -e "$events" -- || return 0
  found "$1" "$2" 'counters' '' "$3/perf-stat.txt"
}

# Instructions are counted for the whole process, including its start. They are divided by all events that the process
# took in.
callgrind() {
  local folder=$output/$3 instructions events each=''
  under "$1" "$2" "$3" callgrind valgrind --tool=callgrind --callgrind-out-file="$folder/callgrind.out" || return 0
  instructions=$(sed -n 's/^\(summary\|totals\): //p' "$folder/callgrind.out" | head -n 1)
  events=$(sed -n 's/.*"events_in": *\([0-9]*\).*/\1/p' "$folder/callgrind.json" | head -n 1)
  [ -z "$events" ] || [ "$events" = 0 ] || each="$((instructions / events)) per event, start included"
  found "$1" "$2" 'instructions' "${each:-$instructions}" "$3/callgrind.out"
}

dhat() {
  local folder=$output/$3
  under "$1" "$2" "$3" dhat valgrind --tool=dhat --dhat-out-file="$folder/dhat.out.json" || return 0
  found "$1" "$2" 'heap' "$(sed -n 's/^==[0-9]*== At t-gmax: *//p' "$folder/dhat.err") at its largest" "$3/dhat.out.json"
}
