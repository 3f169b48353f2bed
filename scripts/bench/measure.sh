# shellcheck shell=bash
# The timed runs, the folder of results, and the handling of interruptions.

child='' failures=0 output_open=no

# Runs a subject on a flow. Arguments: subject, flow, path of its files without extension, warm-up, duration. Sets
# `failure` to the reason of a failure or to nothing, and `words` to the command.
run_subject() {
  local limit status=0 prefix=()
  local -r files=$3
  fill_in "${commands[$1]}" "$2" "$files.json" "$files.hgrm" "$4" "$5"
  # The limit is twice the requested time and a minute.
  limit=$(awk -v s="$4" -v t="$5" 'BEGIN { printf "%d", 2 * (s + t) + 60 }')
  [ -z "$pin" ] || prefix=(taskset --cpu-list "$pin")
  failure=''
  # The command runs in the background, so that a signal ends the wait. timeout gives it a process group of its own, and
  # forwards signals to the whole group.
  child=starting
  timeout --kill-after=10 "$limit" "${prefix[@]}" "${words[@]}" > "$files.out" 2> "$files.err" < /dev/null &
  child=$!
  wait "$child" 2> /dev/null || status=$?
  child=''
  case $status in
    0) failure=$("$BENCH_REPORT" check "$files.json" 2>&1) || failure="invalid result: $(head -n 1 <<< "${failure//$'\t'/ }")" ;;
    124) failure="timed out after $limit s" ;;
    137) failure="killed (exit status 137)" ;;
    *) failure="failed with exit status $status" ;;
  esac
}

# Creates the folder of the results, or continues in that of an interrupted benchmark.
open_output() {
  local name
  if [ -n "$resume" ]; then
    check_programs "Build the programs that were measured, or start another benchmark."
    output_open=yes
    describe_state resumed
    return
  fi
  output=${output:-bench/out/$(date -u +%Y-%m-%d-%H%M%S)}
  [ ! -e "$output/runs.tsv" ] || refuse "$output already contains a benchmark" "Choose another folder with --output, or continue the benchmark with --resume."
  mkdir -p "$output/samples"
  print_settings > "$output/bench.conf"
  cp "$scratch/plan.tsv" "$output/plan.tsv"
  : > "$output/facts.tsv"
  fact setting baseline "$baseline"
  fact setting again "$again"
  for name in "${flow_names[@]}"; do fact flow "$name" "${flow_files[$name]}"; done
  for name in "${subject_names[@]}"; do
    fact subject "$name" "${commands[$name]}"
    fact binary "$name" "$(hash_of "$name")"
  done
  fact method command "$command_line"
  fact method rounds "$rounds"
  fact method 'warm-up' "$warmup s"
  fact method measured "$duration s"
  fact method seed "$seed"
  fact method pinned "${pin:-to no processor}"
  describe_machine
  describe_state before
  for name in "${notices[@]}"; do fact notice '' "$name"; done
  # This file is written last, and at once, because the benchmark can be resumed if it exists.
  printf 'number\tround\tflow\tsubject\tstatus\tname\tstarted\tseconds\tload\tmhz\tcelsius\treason\n' > "$output/runs.tsv"
  output_open=yes
}

hash_of() { sha256sum "${programs[$1]}" | cut -c1-16; }

# Checks that the programs have not changed since the benchmark began. Argument: the remedy.
check_programs() {
  local name before
  for name in "${subject_names[@]}"; do
    before=$(awk -F'\t' -v name="$name" '$1 == "binary" && $2 == name { print $3 }' "$output/facts.tsv")
    [ "$before" = "$(hash_of "$name")" ] || refuse "the program of $name has changed since the benchmark began" "$1"
  done
}

# Runs all subjects on all flows, except for runs that are already done.
measure_all() {
  local number round flow name file started start load mhz celsius status
  failures=$(awk -F'\t' '$5 == "failed"' "$output/runs.tsv" | wc -l)
  while IFS=$'\t' read -r number round flow name <&3; do
    [ "$number" -gt "$done_runs" ] || continue
    file=$(printf '%04d-%s-%s' "$number" "$flow" "$name")
    started=$(date -u +%Y-%m-%dT%H:%M:%SZ) load=$(load_average) mhz=$(clock_mhz) celsius=$(temperature)
    say "run $number of $total, round $round: $name on $flow"
    rm -f "$output/samples/$file".*
    start=$(now_ms)
    run_subject "$name" "$flow" "$output/samples/$file" "$warmup" "$duration"
    start=$(($(now_ms) - start))
    status=ok
    if [ -n "$failure" ]; then
      status=failed
      failures=$((failures + 1))
      say "FAILED: $name on $flow: $failure; see $output/samples/$file.err"
    else
      rm -f "$output/samples/$file.out" "$output/samples/$file.err"
    fi
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$number" "$round" "$flow" "$name" "$status" "$file" \
      "$started" "$((start / 1000)).$(printf %03d $((start % 1000)))" "$load" "$mhz" "$celsius" \
      "$(tr '\t\n' '  ' <<< "$failure" | sed 's/ *$//')" >> "$output/runs.tsv"
  done 3< "$output/plan.tsv"
}

close_output() {
  describe_state after
  local name
  for name in "${subject_names[@]}"; do
    grep -qxF "binary"$'\t'"$name"$'\t'"$(hash_of "$name")" "$output/facts.tsv" || {
      fact notice '' "The program of $name changed during the benchmark: its figures mix two programs."
      failures=$((failures + 1))
    }
  done
}

write_report() {
  "$BENCH_REPORT" report "$output" || {
    say "error: cannot write the report of the samples in $output; repeat \`$BENCH_REPORT report $output\`"
    exit 1
  }
}

# Ends the current run. Results of finished runs are kept, and the benchmark can be resumed.
interrupted() {
  trap '' INT TERM HUP
  stop_child
  if [ "$output_open" = yes ]; then
    say "interrupted; finished runs are kept. To continue: scripts/bench.sh --resume $output"
    "$BENCH_REPORT" report "$output" 2> /dev/null || true
  else
    say "interrupted before the first run"
  fi
  case $1 in INT) exit 130 ;; HUP) exit 129 ;; *) exit 143 ;; esac
}

# Ends the current command. timeout forwards the signal, and kills the command after ten seconds.
stop_child() {
  [ -n "$child" ] || return 0
  # A signal may arrive after the command began, and before its process ID was stored.
  [ "$child" != starting ] || child=${!:-}
  kill -TERM "$child" 2> /dev/null || true
  wait "$child" 2> /dev/null || true
  # Before coreutils 9.5, timeout ends without its command if the signal comes before it knows the command's process ID.
  kill -TERM -- "-$child" 2> /dev/null || true
  child=''
}

on_exit() {
  stop_child
  rm -rf "$scratch"
}
