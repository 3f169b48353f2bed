# shellcheck shell=bash
# Checks of programs, flows and the machine before any measurement.

# Disk space that is required for results. A run writes some 10 kB, profiles are larger.
readonly KB_PER_RUN=64 KB_PER_PROFILE=300000

validate() {
  check_tools
  check_subjects
  check_flows
  check_space
  try_all
}

has() { command -v "$1" > /dev/null 2>&1; }

check_tools() {
  has timeout || refuse "timeout is missing" "Install GNU coreutils."
  if [ -n "$pin" ]; then
    has taskset || refuse "--pin needs taskset" "Install util-linux, or omit --pin."
    taskset --cpu-list "$pin" true 2> "$scratch/error" || refuse "cannot run on the processors $pin: $(cat "$scratch/error")" \
      "This machine has the processors 0 to $(($(nproc --all) - 1))."
  fi
  [ "$profile" = no ] || check_profilers
  local load busy governor
  governor=$(first_line /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor)
  [ "${governor:-performance}" = performance ] \
    || notice "The governor is $governor: the clock depends on the load. \`cpupower frequency-set -g performance\` fixes it."
  [ "$(turbo)" != on ] || notice "Turbo is on: the clock depends on the temperature."
  load=$(load_average)
  busy=$(awk -v load="$load" -v cpus="$(nproc)" 'BEGIN { print (load > cpus / 4) }')
  [ "$busy" = 0 ] || notice "The machine was not idle: its load average was $load before the benchmark."
  [ "$rounds" -ge 5 ] || notice "$rounds rounds are too few for a verdict; 5 are required, and 10 are better."
}

check_subjects() {
  local name program
  local -a words
  for name in "${subject_names[@]}"; do
    split_words words "${commands[$name]}"
    program=$(command -v "${words[0]}") && [ -x "$program" ] \
      || refuse "the subject $name runs ${words[0]}, which is not a program" "Build the program (--build runs the builds of $config), or change the command."
    [[ ${commands[$name]} == *'{json}'* ]] || refuse "the command of $name has no {json}" "The subject has to write its result to this file."
    programs[$name]=$program
  done
  programs[$again]=${programs[$baseline]}
}
declare -A programs=()

check_flows() {
  local flow
  local -a words
  if [ -z "$check" ]; then
    notice "Flows were not checked before the benchmark, because the configuration has no command for it."
    return
  fi
  for flow in "${flow_names[@]}"; do
    fill_in "$check" "$flow" '' '' "$warmup" "$duration"
    "${words[@]}" > "$scratch/check" 2>&1 < /dev/null || {
      cat "$scratch/check" >&2
      refuse "the flow ${flow_files[$flow]} failed the check \`${words[*]}\`" "See the output of the check above."
    }
  done
}

check_space() {
  local folder=${output:-bench/out} needed available
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  [ -w "$folder" ] || refuse "cannot write to $folder" "Choose another folder with --output."
  needed=$((rounds * ${#flow_names[@]} * ${#all_names[@]} * KB_PER_RUN))
  [ "$profile" = no ] || needed=$((needed + ${#flow_names[@]} * ${#subject_names[@]} * KB_PER_PROFILE))
  available=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
  [ "$available" -ge "$needed" ] \
    || refuse "$folder has $((available / 1024)) MB of free space, but up to $((needed / 1024)) MB are needed" "Choose another folder with --output."
}

# Runs each subject on each flow for a second, to check that it works, and sets `overhead_ms` to the mean time of a run
# besides its warm-up and duration.
try_all() {
  local flow name start
  overhead_ms=0
  say "trying ${#subject_names[@]} subjects on ${#flow_names[@]} flows for a second each"
  for flow in "${flow_names[@]}"; do
    for name in "${subject_names[@]}"; do
      start=$(now_ms)
      rm -f "$scratch"/try.*
      run_subject "$name" "$flow" "$scratch/try" 0 1
      [ -z "$failure" ] || {
        tail -n 20 "$scratch/try.err" >&2
        refuse "the subject $name does not run on $flow: $failure" "The command was: ${words[*]}"
      }
      overhead_ms=$((overhead_ms + $(now_ms) - start))
    done
  done
  overhead_ms=$((overhead_ms / (${#flow_names[@]} * ${#subject_names[@]}) - 1000))
  [ "$overhead_ms" -gt 0 ] || overhead_ms=0
}

# Writes plan.tsv with all runs in random order.
schedule() {
  if [ -n "$resume" ]; then
    cp "$resume/plan.tsv" "$scratch/plan.tsv"
  else
    "$BENCH_REPORT" schedule --seed "$seed" --rounds "$rounds" --flows "${flow_names[@]}" \
      --subjects "${all_names[@]}" > "$scratch/plan.tsv"
  fi
  total=$(wc -l < "$scratch/plan.tsv")
  done_runs=0
  [ -z "$resume" ] || done_runs=$(($(wc -l < "$resume/runs.tsv") - 1))
}

print_plan() {
  local name seconds
  seconds=$(awk -v runs="$((total - done_runs))" -v warmup="$warmup" -v duration="$duration" -v ms="$overhead_ms" \
    'BEGIN { printf "%d", runs * (warmup + duration + ms / 1000) + 0.5 }')
  echo "subjects:"
  for name in "${all_names[@]}"; do
    case $name in
      "$baseline") echo "  $name (baseline): ${commands[$name]}" ;;
      "$again") echo "  $name: second run of the baseline, which shows the noise" ;;
      *) echo "  $name: ${commands[$name]}" ;;
    esac
  done
  echo "flows: ${flow_names[*]}"
  echo "runs: $total in $rounds rounds, $warmup s of warm-up and $duration s of measuring each, seed $seed"
  [ "$done_runs" -eq 0 ] || echo "finished already: $done_runs"
  echo "order of the first round:"
  awk -F'\t' '$2 == 1 { printf "  %s on %s\n", $4, $3 }' "$scratch/plan.tsv"
  printf 'time: about %d:%02d:%02d' $((seconds / 3600)) $((seconds / 60 % 60)) $((seconds % 60))
  [ "$profile" = no ] || printf ', and profiles'
  printf '\n'
}
