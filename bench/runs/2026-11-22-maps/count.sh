# Instructions of a call: what callgrind counts for a function with what it calls, by the number of its calls.
# Build first: cargo bench --no-run -p microbench --bench streams --bench simd_values
count() { # BENCH FILTER FUNCTION
  bench=$(ls -t target/release/deps/"$1"-* | grep -v '\.d$' | head -n 1)
  valgrind --tool=callgrind --callgrind-out-file=callgrind.out "$bench" --bench --profile-time 1 "$2\$" >/dev/null 2>&1
  awk -v what="$2" -v wanted="::$3\$" '
    function named(line) {
      id = line; sub(/^[^(]*\(/, "", id); sub(/\).*/, "", id)
      if (line ~ /\) /) { sub(/^[^)]*\) /, "", line); names[id] = line }
      return id
    }
    /^fn=/ { named($0) }
    /^cfn=/ { callee = named($0) }
    /^calls=/ { split($1, count, "="); getline; calls[callee] += count[2]; cost[callee] += $2 }
    END { for (id in calls) if (names[id] ~ wanted) { n += calls[id]; c += cost[id] }
          if (n > 0) printf "%s %.0f\n", what, c / n; else print what, "was not called" }
  ' callgrind.out
  rm callgrind.out
}
for streams in 1 4 8 64 1000; do
  count streams "a fragment, by streams/std/$streams" std_map
  count streams "a fragment, by streams/hashbrown/$streams" hashbrown_map
  count streams "a fragment, by streams/halfbrown, up to 32/$streams" halfbrown_32
  count streams "a fragment, by streams/halfbrown, up to 8/$streams" halfbrown_8
done
for function in from_owned from_owned_by_serde; do
  count simd_values "simd-json's values/$function" "$function"
done
