"""A file for each of a thousand hosts against one file: throughput and processor time of the sink `file`.

measure.py FOLDER NAME=BUILD...: a folder to work in, on a disk, whose contents are deleted, and folders with `tremor`
and the libraries of the plugins, each with its name in the samples. All builds are measured in turn, in a random order
in each round. Writes samples.csv into this folder and prints medians. Environment: EVENTS, HOSTS, ROUNDS, and FIELD,
which names the field in the path, ONLY with the names of the subjects to measure, and LINGER, such as `20s`, with which
a delivery waits for its last event also on a machine that is busy with other work. SAMPLES names the file of the samples.

Each subject is run with EVENTS and with a tenth of them. The difference of both is the cost of events alone: it
contains neither the start of the process, nor the creation of the files, nor their sync at the end of the run.
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

EVENTS, HOSTS = int(os.environ.get("EVENTS", 2_000_000)), int(os.environ.get("HOSTS", 1_000))
ROUNDS = int(os.environ.get("ROUNDS", 5))
# A field of the events, or metadata that an operator sets.
FIELD = os.environ.get("FIELD", "host")
TEXT = "INFO request handled path=/api/v1/items status=200 ms=%06d user=alice bytes=5120"

folder, *builds = sys.argv[1:]
folder = pathlib.Path(folder).resolve()
builds = {name: pathlib.Path(path).resolve() for name, path in (it.split("=") for it in builds)}
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
random.seed(1)
hosts = [f"host-{number:05}.example.com" for number in range(HOSTS)]
sizes = {}
for events in (EVENTS // 10, EVENTS):
    with open(folder / f"{events}.json", "w") as file:
        for number in range(events):
            file.write(f'{{"host":"{random.choice(hosts)}","message":"{TEXT % number}"}}\n')
    sizes[events] = (folder / f"{events}.json").stat().st_size
subjects = {
    "one file": ("one.log", ""),
    "a file for each host": (f"{{{FIELD}}}.log", ""),
    "a file for each host and day": (f"{{{FIELD}}}/{{:+%F}}.log", ""),
    "a file for each host, 256 open": (f"{{{FIELD}}}.log", ", max_open_files: 256"),
}
subjects = {name: it for name, it in subjects.items() if name in os.environ.get("ONLY", name)}


LINGER = f"    batch: {{ linger: {os.environ['LINGER']} }}\n" if "LINGER" in os.environ else ""


def flow(build, path, keys, events):
    batch = LINGER if "{" in path else ""
    link = "in -> p -> out" if FIELD.startswith("%") else "in -> out"
    return f"""plugins: [{build}]
connectors:
  in: {{ type: file, preprocessors: [lines], codec: json, config: {{ path: {events}.json, mode: read }} }}
  out:
    type: file
    codec: json
    postprocessors: [lines]
{batch}    config: {{ path: 'out/{path}', mode: append{keys} }}
pipelines:
  p: {{ operators: [{{ type: set, config: {{ edits: [{{ field: '%host', copy: host }}] }} }}] }}
links: [{link}]
"""


rows = []
for number in range(ROUNDS):
    order = [(build, name, events) for build in builds for name in subjects for events in sizes]
    random.shuffle(order)
    for build, name, events in order:
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").mkdir()
        (folder / "flow.yaml").write_text(flow(builds[build], *subjects[name], events))
        used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        command = [builds[build] / "tremor", "run", "flow.yaml"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if run.returncode != 0:
            sys.exit(run.stderr)
        user, system = after.ru_utime - used.ru_utime, after.ru_stime - used.ru_stime
        files = [path for path in (folder / "out").rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) == sizes[events], "events are lost or repeated"
        assert len(files) == (1 if name == "one file" else HOSTS)
        rows.append((number, build, name, events, round(seconds, 3), round(user, 3), round(system, 3)))
        print(*rows[-1], flush=True)
here = pathlib.Path(__file__).parent
with open(here / os.environ.get("SAMPLES", "samples.csv"), "w", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("round", "build", "subject", "events", "seconds", "user_s", "system_s"))
    writer.writerows(rows)


def median(build, name, events, column):
    return statistics.median(row[column] for row in rows if row[1:4] == (build, name, events))


print("| build | files | million events/s, whole run | µs of processors per event | of one file |\n|---|---|---|---|---|")
for build in builds:
    one = None
    for name in subjects:
        costs = [
            sum(median(build, name, events, column) for column in (5, 6)) for events in (EVENTS, EVENTS // 10)
        ]
        cost = (costs[0] - costs[1]) / (EVENTS - EVENTS // 10) * 1e6
        one = one or cost
        rate = EVENTS / median(build, name, EVENTS, 4) / 1e6
        print(f"| {build} | {name} | {rate:.2f} | {cost:.2f} | {one / cost:.2f} |")
