# Instructions an event: the difference of a long and a short run under callgrind, as `cargo xtask perf-gate` counts.
# Build first: cargo build --release -p tremor-runtime -p connector-bench
mkdir -p target/count
head -500 bench/data/logs.json > target/count/logs.json
run() { # FLOW PULL REPLAYS SED
  sed -e "s/warmup_s: 2, duration_s: 10/iterations: $3/" -e "s/type: bench/type: bench\n    pull: { max_events: $2 }/" \
      -e "s#\.\./data/##" -e "s#../../target/release#../release#" -e "$4" "bench/flows/$1.yaml" > target/count/flow.yaml
  ASYNC_STD_THREAD_COUNT=1 valgrind --tool=callgrind --callgrind-out-file=target/count/out \
    target/release/tremor run target/count/flow.yaml >/dev/null 2>&1
  awk '/^(summary|totals):/ { print $2; exit }' target/count/out
}
count() { # FLOW PULL REPLAYS SED NAME
  few=$(run "$1" "$2" 2 "$4"); many=$(run "$1" "$2" "$3" "$4")
  echo "$5 $(( (many - few) / (500 * ($3 - 2)) ))"
}
count passthrough-json 50 22 '' "passthrough-json, 50 a pull"
count passthrough-json-acknowledged 50 22 '' "passthrough-json-acknowledged, 50 a pull"
count batched 10 42 '/    batch:/d' "passthrough, 10 a pull, a delivery each"
count batched 10 42 '' "batched, 10 a pull, 1,000 a delivery"
