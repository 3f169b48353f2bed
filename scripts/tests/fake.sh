#!/usr/bin/env bash
# A subject that measures nothing and ends immediately: fake.sh KIND JSON HGRM. Its noise is below half a per cent, and
# depends only on the name of the file, so that tests are deterministic.
set -euo pipefail
kind=$1 json=$2 hgrm=$3
name=${json##*/}
[ -z "${FAKE_LOG:-}" ] || echo "$kind $name" >> "$FAKE_LOG"

# The name begins with the number of the run, with which the speed slowly increases.
number=${name%%-*}
[[ $number =~ ^[0-9]+$ ]] || number=0
speed=$((1000000 + 2000 * 10#$number))

case $kind in
  quick) ;;
  slower) speed=$((speed * 97 / 100)) ;;
  crash)
    # The trial succeeds, and later runs crash.
    [[ $name == try.json ]] || {
      echo "fake: assertion failed" >&2
      kill -SEGV $$
    }
    ;;
  nonsense)
    [[ $name == try.json ]] || {
      echo "1,234 events/s" > "$json"
      exit 0
    }
    ;;
  broken) exit 3 ;;
  # The fourth run reports that it runs, and waits until it is killed. If it is repeated, it succeeds.
  waits)
    if [[ $name == 0004-* && ! -e $FAKE_WAITED ]]; then
      echo $$ > "$FAKE_WAITED"
      echo waiting > "$FAKE_FIFO"
      read -r _ < "$FAKE_NEVER"
    fi
    ;;
  *) exit 64 ;;
esac
# The noise is between -400 and 400 of 100,000.
read -r noise _ < <(cksum <<< "$name")
speed=$((speed + speed * (noise % 801 - 400) / 100000))
cat > "$json" <<JSON
{"events": $speed, "events_in": $speed, "events_per_second": $speed, "bytes_per_second": ${speed}000,
 "latency_ns": {"mean": 1500, "stdev": 100, "p50": 1400, "p90": 2000, "p99": 3000, "p999": 5000, "max": 9000},
 "cpu_s": 1.5, "cpu_ns_per_event": 1500}
JSON
printf ' 1.4 0.5 500 2\n 3.0 0.99 990 100\n 9.0 1.0 1000 inf\n' > "$hgrm"
