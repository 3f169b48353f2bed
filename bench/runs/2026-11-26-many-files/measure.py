"""Cost of following many files of which few are busy: processor time and memory of a source `file`.

measure.py FOLDER NAME=TREE...: a folder to work in, on a disk, whose contents are deleted, and trees with release
builds. The trees are measured by turns. Environment: DURATION of a state in seconds, FILES (numbers of files) and ROUNDS.
"""

import csv
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

SECONDS = float(os.environ.get("DURATION", 60))
FILES = [int(it) for it in os.environ.get("FILES", "10000,100").split(",")]
ROUNDS = int(os.environ.get("ROUNDS", 1))
BUSY, PER_SECOND = 100, 10
LINE = b"2026-11-26T20:35:00Z host app[1234]: INFO request handled path=/api/v1/items status=200 ms=%06d\n"
TICKS = os.sysconf("SC_CLK_TCK")

folder = pathlib.Path(sys.argv[1]).resolve()
trees = [it.split("=", 1) for it in sys.argv[2:]]


def flow(tree):
    return f"""plugins: [{tree}/target/release]
connectors:
  in:
    type: file
    preprocessors: [lines]
    codec: string
    config: {{ path: logs/*.log, mode: read, follow: true, checkpoint: positions }}
  out: {{ type: file, codec: string, postprocessors: [lines], config: {{ path: out, mode: truncate }} }}
links: [in -> out]
"""


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return [int(line.split()[1]) for name in ("VmRSS:", "VmHWM:") for line in status if line.startswith(name)]


def written(pid):
    io = pathlib.Path(f"/proc/{pid}/io").read_text().splitlines()
    return sum(int(line.split()[1]) for line in io if line.startswith(("wchar:",)))


def length():
    path = folder / "out"
    return path.stat().st_size if path.exists() else 0


def wait(expected, limit):
    start = time.monotonic()
    while length() < expected:
        if time.monotonic() - start > limit:
            sys.exit(f"{length()} of {expected} bytes after {limit} s")
        time.sleep(0.05)


def append(handles, seconds):
    begin, count = time.monotonic(), 0
    while count < seconds * PER_SECOND:
        for handle in handles:
            os.write(handle, LINE % count)
        count += 1
        time.sleep(max(0.0, begin + count / PER_SECOND - time.monotonic()))
    return count * len(handles)


def run(name, tree, files, rows):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "logs").mkdir(parents=True)
    for number in range(files):
        (folder / "logs" / f"service-{number:05}.log").write_bytes(LINE % number * 10)
    (folder / "flow.yaml").write_text(flow(tree))
    lines = files * 10
    size = len(LINE % 0)
    start = time.monotonic()
    log = open(folder / "log", "wb")
    process = subprocess.Popen([f"{tree}/target/release/tremor", "run", "flow.yaml"], cwd=folder, stderr=log)

    def row(state, seconds, used, bytes_):
        resident, peak = memory(process.pid)
        rows.append([name, files, state, f"{seconds:.1f}", f"{used:.2f}", f"{100 * used / seconds:.2f}", resident, peak, bytes_])
        print(*rows[-1], flush=True)

    def sample(state, work):
        begin, before, bytes_ = time.monotonic(), processor_seconds(process.pid), written(process.pid)
        work()
        row(state, time.monotonic() - begin, processor_seconds(process.pid) - before, written(process.pid) - bytes_)

    try:
        wait(lines * size, 120)
        row("start", time.monotonic() - start, processor_seconds(process.pid), written(process.pid))
        sample("settling", lambda: time.sleep(min(SECONDS, 20)))
        sample("silent", lambda: time.sleep(SECONDS))
        paths = sorted((folder / "logs").iterdir())[:: files // BUSY][:BUSY]
        handles = [os.open(path, os.O_WRONLY | os.O_APPEND) for path in paths]
        lines += append(handles, 12)
        added = []
        sample("busy", lambda: added.append(append(handles, SECONDS)))
        lines += added[0]
        wait(lines * size, 30)
        row("end", 1, 0, 0)
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        assert length() == lines * size, "lines are lost or repeated"
    finally:
        process.kill()


rows = []
for _ in range(ROUNDS):
    for files in FILES:
        for name, tree in trees:
            run(name, tree, files, rows)
with open(folder / "samples.csv", "w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["tree", "files", "state", "seconds", "processor_seconds", "percent_of_core", "resident_kib", "peak_kib", "bytes_written"])
    out.writerows(rows)
