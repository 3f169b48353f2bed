"""A file for each of a thousand hosts against one file: throughput and processor time of the sink `file`.

measure.py BUILD FOLDER: a folder with `tremor` and the libraries of the plugins, and a folder to work in, on a disk,
whose contents are deleted. Writes samples.csv into this folder and prints medians. Environment: EVENTS, HOSTS, ROUNDS,
and FIELD, which names the field in the path.
"""

import csv
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

EVENTS, HOSTS = int(os.environ.get("EVENTS", 1_000_000)), int(os.environ.get("HOSTS", 1_000))
ROUNDS = int(os.environ.get("ROUNDS", 7))
# Metadata that an operator sets, or a field of the events.
FIELD = os.environ.get("FIELD", "host")
TEXT = "INFO request handled path=/api/v1/items status=200 ms=%06d user=alice bytes=5120"

build, folder = (pathlib.Path(it).resolve() for it in sys.argv[1:])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
random.seed(1)
hosts = [f"host-{number:05}.example.com" for number in range(HOSTS)]
with open(folder / "in.json", "w") as file:
    for number in range(EVENTS):
        file.write(f'{{"host":"{random.choice(hosts)}","message":"{TEXT % number}"}}\n')
size = (folder / "in.json").stat().st_size
subjects = {
    "one file": ("one.log", ""),
    "a file for each host": (f"{{{FIELD}}}.log", ""),
    "a file for each host and day": (f"{{{FIELD}}}/{{:+%F}}.log", ""),
    "a file for each host, 256 open": (f"{{{FIELD}}}.log", ", max_open_files: 256"),
}
for number, (path, keys) in enumerate(subjects.values()):
    (folder / f"{number}.yaml").write_text(f"""plugins: [{build}]
connectors:
  in: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: in.json, mode: read }} }}
  out:
    type: file
    codec: json
    postprocessors: [lines]
    config: {{ path: 'out/{path}', mode: append{keys} }}
pipelines:
  p: {{ operators: [{{ type: set, config: {{ edits: [{{ field: '%host', copy: host }}] }} }}] }}
links: [{"in -> p -> out" if FIELD.startswith("%") else "in -> out"}]
""")
rows = []
for number in range(ROUNDS):
    order = list(enumerate(subjects))
    random.shuffle(order)
    for index, name in order:
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").mkdir()
        used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [build / "tremor", "run", f"{index}.yaml"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if run.returncode != 0:
            sys.exit(run.stderr)
        user, system = after.ru_utime - used.ru_utime, after.ru_stime - used.ru_stime
        files = [path for path in (folder / "out").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) == size, "events are lost or repeated"
        assert len(files) == (1 if name == "one file" else HOSTS)
        rows.append((EVENTS, number, name, round(seconds, 3), round(user, 3), round(system, 3)))
        print(*rows[-1], flush=True)
here = pathlib.Path(__file__).parent
with open(here / "samples.csv", "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("events", "round", "subject", "seconds", "user_s", "system_s"))
    writer.writerows(rows)
one = None
for name in subjects:
    seconds, user, system = (statistics.median(row[it] for row in rows if row[2] == name) for it in (3, 4, 5))
    one = one or (seconds, user + system)
    print(
        f"{name}: {EVENTS / seconds / 1e6:.2f} million events/s ({one[0] / seconds:.2f} of one file), "
        f"{user:.2f} + {system:.2f} s of processors ({one[1] / (user + system):.2f} of one file)"
    )
