# Measures the CPU time of http_server per request. Requests of one event are compared with hyper's hello-world,
# and requests of 1,000 events with `passthrough-json` and with a loop that only receives the bytes. The servers run
# in turn on processor 0, and wrk on processor 1.
#
#   python3 measure.py one|bulk ROUNDS SECONDS
#
# The folder of this file has to contain: tremor and the folder `plugins` with http_server, bench and null (cargo
# build --release), `hello` of hello.rs (hyper 1.12, hyper-util, http-body-util and tokio's current_thread, release
# with thin LTO), `bare` of bare.rs (rustc -O), body.json with one event and bulk.ndjson with 1,000 events of
# examples/logs.json.
import os, re, resource, statistics, subprocess, sys, time

FLOWS = {
    "one.yaml": """connectors:
  input: { type: http_server, codec: binary, config: { listen: '127.0.0.1:18080' } }
  output: { type: 'null' }
links: [input -> output]
""",
    "bulk.yaml": """connectors:
  input: { type: http_server, preprocessors: [lines], codec: json, config: { listen: '127.0.0.1:18080' } }
  output: { type: bench, codec: json, config: { } }
pipelines: { main: { operators: [passthrough] } }
links: [input -> main -> output]
""",
    "pass.yaml": """connectors:
  bench: { type: bench, codec: json, config: { file: bulk.ndjson, iterations: 3000 } }
pipelines: { main: { operators: [passthrough] } }
links: [bench -> main -> bench]
""",
}
LUA = """local f = io.open("BODY", "rb"); local body = f:read("*a"); f:close()
wrk.method = "POST"; wrk.body = body
"""
for name, text in FLOWS.items():
    open(name, "w").write(text)
for name, body in (("one.lua", "body.json"), ("bulk.lua", "bulk.ndjson")):
    open(name, "w").write(LUA.replace("BODY", body))


def processor_time(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(command, port, lua, connections, seconds):
    server = subprocess.Popen(["taskset", "-c", "0"] + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.8)
    before = processor_time(server.pid)
    wrk = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", lua, f"http://127.0.0.1:{port}/"]
    said = subprocess.run(wrk, capture_output=True, text=True).stdout
    used = processor_time(server.pid) - before
    server.terminate()
    server.wait()
    assert "Non-2xx" not in said, said
    requests = int(re.search(r"(\d+) requests in", said).group(1))
    return used * 1e6 / requests, float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1))


def tremor(flow):
    return ["./tremor", "run", "--plugin-path", "plugins", flow]


what, rounds, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3]
samples = {}
for turn in range(rounds):
    if what == "one":
        for name, command, port in (("hyper", ["./hello", "127.0.0.1:18081"], 18081), ("http_server", tremor("one.yaml"), 18080)):
            used, rate = serve(command, port, "one.lua", 64, seconds)
            print(f"{turn} {name} {used:.2f} us a request, {rate:.0f} requests/s", flush=True)
            samples.setdefault(name, []).append(used)
        continue
    for name, command, port in (("bare", ["./bare"], 18082), ("http_server", tremor("bulk.yaml"), 18080)):
        used, rate = serve(command, port, "bulk.lua", 8, seconds)
        print(f"{turn} {name} {used / 1000:.4f} us an event, {rate * 1000:.0f} events/s", flush=True)
        samples.setdefault(name, []).append(used / 1000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["taskset", "-c", "0"] + tremor("pass.yaml"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e6 / 3e6
    print(f"{turn} passthrough-json {used:.4f} us an event", flush=True)
    samples.setdefault("passthrough-json", []).append(used)
medians = {name: statistics.median(values) for name, values in samples.items()}
print("medians", medians)
if what == "one":
    print("hyper / http_server", medians["hyper"] / medians["http_server"])
else:
    print("http_server / (bare + passthrough-json)", medians["http_server"] / (medians["bare"] + medians["passthrough-json"]))
