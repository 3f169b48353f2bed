# shellcheck shell=bash
# The timed runs, the folder of their results, and how they end.

child='' failures=0 output_open=no

# Runs a subject on a flow: subject, flow, path of its files without ending, warm-up, duration. Says in
# `failure` what went wrong, if anything did; `words` is the command.
run_subject() {
  local limit status=0 prefix=()
  local -r files=$3
  fill_in "${commands[$1]}" "$2" "$files.json" "$files.hgrm" "$4" "$5"
  # Twice the time that was asked for, and a minute.
  limit=$(awk -v s="$4" -v t="$5" 'BEGIN { printf "%d", 2 * (s + t) + 60 }')
  [ -z "$pin" ] || prefix=(taskset --cpu-list "$pin")
  failure=''
  # In the background, so that a signal ends the wait; timeout makes it a process group of its own and
  # hands a signal on to all of it.
  timeout --kill-after=10 "$limit" "${prefix[@]}" "${words[@]}" > "$files.out" 2> "$files.err" < /dev/null &
  child=$!
  wait "$child" 2> /dev/null || status=$?
  child=''
  case $status in
    0) failure=$("$BENCH_REPORT" check "$files.json" 2>&1) || failure="it wrote nonsense: $(head -n 1 <<< "${failure//$'\t'/ }")" ;;
    124) failure="it did not end within $limit s" ;;
    137) failure="it was killed (exit status 137)" ;;
    *) failure="it ended with exit status $status" ;;
  esac
}

# Makes the folder of the results, or goes on in the one that was interrupted.
open_output() {
  local name
  if [ -n "$resume" ]; then
    check_programs "Build what was measured, or start anew."
    output_open=yes
    describe_state resumed
    return
  fi
  output=${output:-bench/out/$(date -u +%Y-%m-%d-%H%M%S)}
  [ ! -e "$output/runs.tsv" ] || refuse "$output holds a benchmark already" "--output names another folder; --resume goes on with one."
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
  # Last, and at once: with it, the folder can be resumed.
  printf 'number\tround\tflow\tsubject\tstatus\tname\tstarted\tseconds\tload\tmhz\tcelsius\treason\n' > "$output/runs.tsv"
  output_open=yes
}

hash_of() { sha256sum "${programs[$1]}" | cut -c1-16; }

# The programs are those that the benchmark began with.
check_programs() {
  local name before
  for name in "${subject_names[@]}"; do
    before=$(awk -F'\t' -v name="$name" '$1 == "binary" && $2 == name { print $3 }' "$output/facts.tsv")
    [ "$before" = "$(hash_of "$name")" ] || refuse "the program of $name is not the one that was measured" "$1"
  done
}

# All runs that are not done yet.
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
      fact notice '' "The program of $name changed while the benchmark ran: its figures are of two programs."
      failures=$((failures + 1))
    }
  done
}

write_report() {
  "$BENCH_REPORT" report "$output" || {
    say "error: no report; the samples are in $output. \`$BENCH_REPORT report $output\` tries again."
    exit 1
  }
}

# Ends what runs; what is done stays, and can be gone on with.
interrupted() {
  trap '' INT TERM HUP
  stop_child
  if [ "$output_open" = yes ]; then
    say "interrupted. What is done is kept; to go on: scripts/bench.sh --resume $output"
    "$BENCH_REPORT" report "$output" 2> /dev/null || true
  else
    say "interrupted before anything was measured."
  fi
  case $1 in INT) exit 130 ;; HUP) exit 129 ;; *) exit 143 ;; esac
}

# timeout passes the signal on, and kills after ten seconds.
stop_child() {
  [ -n "$child" ] || return 0
  kill -TERM "$child" 2> /dev/null || true
  wait "$child" 2> /dev/null || true
  child=''
}

on_exit() {
  stop_child
  rm -rf "$scratch"
}
