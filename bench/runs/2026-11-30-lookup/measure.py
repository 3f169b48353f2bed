"""The operator `lookup` beside a VRL program that contains the same table as an object: processor time of an event.

measure.py FOLDER BUILD: a folder to work in, whose contents are deleted, and a folder with `tremor` and the libraries of
the plugins `bench`, `lookup` and `vrl`. Writes samples.csv into this folder and prints medians. Environment: ROUNDS,
and SECONDS, the approximate processor time of the longer run of a subject.

Each subject is run with two numbers of events. The difference of both is the cost of events alone: it contains neither
the start of the process, nor the reading of the table, nor the compilation of the program. All subjects are measured in
turn, in a random order in each round.
"""

import csv
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys

ROUNDS, SECONDS = int(os.environ.get("ROUNDS", 3)), float(os.environ.get("SECONDS", 4))
# Number of events in the file that is replayed.
EVENTS = 10_000
ROWS = [10, 1_000, 10_000, 100_000, 1_000_000]
# The program of VRL builds its object for each event, so larger tables take too long.
MOST_OF_VRL = 1_000

folder, build = (pathlib.Path(path).resolve() for path in sys.argv[1:])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
random.seed(1)


def host(number):
    return f"host-{number:07}.example.com"


def row(number):
    return {"team": f"team {number % 97}", "floor": str(number % 9)}


subjects = {}
for rows in ROWS:
    with open(folder / f"{rows}.json", "w") as file:
        for number in range(EVENTS):
            event = {"host": host(random.randrange(rows)), "message": f"request {number:06} handled", "status": 200}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
    with open(folder / f"{rows}.csv", "w") as file:
        file.write("host,team,floor\n")
        file.writelines(f"{host(it)},{row(it)['team']},{row(it)['floor']}\n" for it in range(rows))
    lookup = f"type: lookup, config: {{ file: {rows}.csv, key: host, into: owner, max_memory: 1GiB }}"
    subjects["lookup", rows] = lookup
    if rows <= MOST_OF_VRL:
        table = json.dumps({host(it): row(it) for it in range(rows)})
        (folder / f"{rows}.vrl").write_text(f"owners = {table}\n.owner = get!(owners, [.host])\n")
        subjects["vrl", rows] = f"type: vrl, config: {{ file: {rows}.vrl }}"
subjects["without", 1_000] = "type: passthrough"


def run(operator, rows, iterations):
    """Returns the processor time of a run, in seconds."""
    (folder / "flow.yaml").write_text(f"""plugins: [{build}]
connectors:
  bench: {{ type: bench, codec: json, config: {{ file: {rows}.json, iterations: {iterations} }} }}
pipelines:
  main: {{ operators: [{{ {operator} }}] }}
links: [bench -> main -> bench]
""")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run([build / "tremor", "run", "flow.yaml"], cwd=folder, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


# The longer run has as many events as take about SECONDS.
iterations = {}
for (name, rows), operator in subjects.items():
    one, two = run(operator, rows, 1), run(operator, rows, 3)
    cost = max((two - one) / 2, 0.002)
    iterations[name, rows] = max(2, round(SECONDS / cost))
samples = []
for number in range(ROUNDS):
    order = list(subjects)
    random.shuffle(order)
    for subject in order:
        many = iterations[subject]
        few = max(1, many // 10)
        seconds = run(subjects[subject], subject[1], many) - run(subjects[subject], subject[1], few)
        samples.append([*subject, number, EVENTS * (many - few), seconds])
with open(pathlib.Path(__file__).parent / "samples.csv", "w", newline="") as file:
    csv.writer(file).writerows([["subject", "rows", "round", "events", "processor_s"], *samples])
for name, rows in sorted(subjects, key=lambda it: (it[0], it[1])):
    costs = [row[4] / row[3] * 1e6 for row in samples if row[:2] == [name, rows]]
    print(f"{name:8} {rows:>9,} rows  {statistics.median(costs):10.3f} µs an event  {min(costs):.3f} to {max(costs):.3f}")
