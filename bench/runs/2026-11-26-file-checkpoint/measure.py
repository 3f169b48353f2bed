"""Throughput of a file to a file, with and without a checkpoint, of two builds in turns.

measure.py BEFORE NOW FOLDER: two trees with release builds, and a folder to work in, on a disk.
"""

import csv
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

ROUNDS, BYTES = 7, 220 << 20
KINDS = {"plain": (False, False), "checkpoint": (True, False), "checkpoint-sync": (True, True)}

before, now, folder = (pathlib.Path(it).resolve() for it in sys.argv[1:])
lines = (now / "bench/data/logs.json").read_bytes()
copies = max(1, BYTES // len(lines))
source = folder / "in.json"
source.write_bytes(lines * copies)
size, events = source.stat().st_size, lines.count(b"\n") * copies


def flow(tree, name, checkpoint, sync):
    checkpoint = f", checkpoint: {name}.checkpoint" if checkpoint else ""
    sync = ", sync: batch" if sync else ""
    return f"""plugins: [{tree}/target/release]
connectors:
  in:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: in.json, mode: read{checkpoint} }}
  out:
    type: file
    codec: string
    postprocessors: [lines]
    config: {{ path: {name}.out, mode: truncate{sync} }}
links: [in -> out]
"""


subjects = []
for tree_name, tree in ("before", before), ("now", now):
    for kind, keys in KINDS.items():
        name = f"{tree_name}-{kind}"
        (folder / f"{name}.yaml").write_text(flow(tree, name, *keys))
        subjects.append((name, tree))

rows = []
for number in range(ROUNDS):
    random.shuffle(subjects)
    for name, tree in subjects:
        for end in ".checkpoint", ".checkpoint.synced", ".out":
            (folder / (name + end)).unlink(missing_ok=True)
        used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [tree / "target/release/tremor", "run", f"{name}.yaml"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (folder / f"{name}.out").stat().st_size == size, name
        cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        rows.append((number, name, seconds, cpu, size / seconds / 1e6, events / seconds))

with open("samples.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(("round", "subject", "seconds", "cpu_s", "mb_per_second", "events_per_second"))
    writer.writerows(rows)
for name in sorted({row[1] for row in rows}):
    columns = zip(*(row[2:] for row in rows if row[1] == name))
    seconds, cpu, megabytes, per_second = map(statistics.median, columns)
    print(f"{name:24} {seconds:.3f} s, {cpu:.3f} s of processors, {megabytes:.0f} MB/s, {per_second:,.0f} events/s")
