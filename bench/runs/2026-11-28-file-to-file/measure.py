"""File to file with one thread and with the default threads, of two builds in turns, beside endless loops.

measure.py BEFORE NOW LOGS FOLDER: two folders with `tremor` and `libconnector_file.so`, bench/data/logs.json, and a
folder to work in, on a disk. Writes samples.csv into this folder and prints medians.
"""

import csv
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

ROUNDS, BYTES = 7, 440 << 20

before, now, logs, folder = (pathlib.Path(it).resolve() for it in sys.argv[1:])
lines = logs.read_bytes()
copies = max(1, BYTES // len(lines))
events = lines.count(b"\n") * copies
source = folder / "in.json"
source.write_bytes(lines * copies)
subjects = []
for name, build in (("before", before), ("now", now)):
    for codec in "json", "string":
        (folder / f"{codec}-{name}.yaml").write_text(f"""plugins: [{build}]
connectors:
  in: {{ type: file, preprocessors: [lines], codec: {codec}, config: {{ path: in.json, mode: read }} }}
  out: {{ type: file, codec: {codec}, postprocessors: [lines], config: {{ path: out.json, mode: truncate }} }}
links: [in -> out]
""")
        subjects += [(name, build, codec, threads) for threads in ("1", "default")]
rows = []
for busy in range(3):
    loops = [subprocess.Popen(["bash", "-c", "while :; do :; done"]) for _ in range(busy)]
    for number in range(ROUNDS):
        random.shuffle(subjects)
        for name, build, codec, threads in subjects:
            (folder / "out.json").unlink(missing_ok=True)
            environment = {**os.environ, "TREMOR_THREADS": threads}
            if threads == "default":
                del environment["TREMOR_THREADS"]
            used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            command = [build / "tremor", "run", f"{codec}-{name}.yaml"]
            subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
            seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            assert (folder / "out.json").stat().st_size == source.stat().st_size
            rows.append((busy, number, name, codec, threads, round(seconds, 4), round(cpu, 4)))
    for loop in loops:
        loop.kill()
        loop.wait()
here = pathlib.Path(__file__).parent
with open(here / "samples.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("busy_programs", "round", "build", "codec", "threads", "seconds", "cpu_s"))
    writer.writerows(rows)
for busy in range(3):
    for codec in "json", "string":
        for name in "before", "now":
            figures = []
            for threads in "default", "1":
                of = [row for row in rows if row[:1] + row[2:5] == (busy, name, codec, threads)]
                rate = events / statistics.median(row[5] for row in of) / 1e6
                figures += [f"{rate:.2f} ({statistics.median(row[6] for row in of):.2f} s of processors)"]
            print(f"beside {busy}, {codec}, {name}: default {figures[0]}, one thread {figures[1]}")
