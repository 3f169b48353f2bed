cd target/perf-gate  # what `cargo xtask perf-gate` leaves; linked plugins: cargo xtask build-static
# whole: cargo rustc --release --package operator-logging --lib --crate-type cdylib, connector-bench likewise, copied to target/whole

L=$(wc -l < logs.json)
for f in passthrough passthrough-json passthrough-msgpack passthrough-two-inputs throughput-logging-json throughput-logging-msgpack; do
for v in plugin whole static; do
for n in 2 42; do
  sed -E "s/iterations: [0-9]+/iterations: $n/" $f.yaml > ic-$f.yaml
  B=../release/tremor
  if [ $v = static ]; then sed -i 's#^plugins:.*##' ic-$f.yaml; B=../static/release/tremor; fi
  if [ $v = whole ]; then sed -i 's#^plugins:.*#plugins: [../whole]#' ic-$f.yaml; fi
  c=$(ASYNC_STD_THREAD_COUNT=1 valgrind --tool=callgrind --callgrind-out-file=/dev/null $B run ic-$f.yaml 2>&1 | awk '/Collected/{print $NF}')
  eval c$n=$c
done
s=1; [ $f = passthrough-two-inputs ] && s=2
echo "$f $v $(( (c42 - c2) / (40 * L * s) ))"
done; done
