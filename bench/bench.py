#!/usr/bin/env python3
"""Load runs on a release build of Nacre, each beside what it is compared with, in one run on one machine.

  bench.py load    list, beat and register against a bare hyper server
  bench.py growth  registering into one service from 1,000 to 50,000 instances, polled and subscribed to
  bench.py fanout  one change to 5,000 subscribers
  bench.py memory  100,000 instances in 1,000 services: resident memory, and the time to serve them again
  bench.py forward beats and writes by way of a member that doesn't own the service, beside the bare hyper server and beside
                   the owner itself; nodes on 127.0.30.1, .2 ...

Builds what it runs (cargo), starts it on free ports in a temporary folder, stops it. Needs wrk for load and growth.
"""
import argparse, http.client, json, os, re, select, signal, socket, statistics, subprocess, sys, tempfile, threading, time
from urllib.parse import urlencode

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
AGENT = {"User-Agent": "Nacos-Java-Client:v1.4.8"}
LONG = json.dumps({"zone": "a", "preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"})


class Process:
    """A server that says on its first line where it listens: it is ready, or waits for other members.

    took: seconds until it was ready; None where it waits, since what it waits for are the others' starts.
    """

    def __init__(self, *command):
        start = time.monotonic()
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.child.stdout.readline()
        self.took = time.monotonic() - start if line.startswith("ready ") else None
        if not line.startswith(("ready ", "waiting ")):
            sys.exit("%s did not start: %r" % (command[0], line))
        self.host, port = re.search(r"//([^:/]+):(\d+)", line).groups()
        self.port = int(port)
        self.url = "http://%s:%d" % (self.host, self.port)

    def memory(self):
        """Resident memory in MiB."""
        with open("/proc/%d/status" % self.child.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(30)


def target(*parts):
    folder = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(folder, "release", *parts)


def build():
    subprocess.run(["cargo", "build", "--release", "--bin", "nacre", "--example", "limit"], cwd=ROOT, check=True)


def nacre(folder):
    return Process(target("nacre"), "serve", "--data", folder, "--set", "server.port=0", "--set", "nacos.server.ip=127.0.0.1")


class Client:
    def __init__(self, server):
        self.http = http.client.HTTPConnection(server.host, server.port, timeout=60)

    def call(self, method, path, **parameters):
        headers = AGENT if method == "GET" else {**AGENT, "Content-Length": "0"}
        self.http.request(method, "/nacos/v1/ns" + path + "?" + urlencode(parameters), headers=headers)
        answer = self.http.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit("%s %s: %d %s" % (method, path, answer.status, body[:200]))
        return body

    def register(self, service, ip, port=8080, **more):
        self.call("POST", "/instance", serviceName=service, ip=ip, port=port, **{"metadata": LONG, **more})


def address(k):
    return "10.9.%d.%d" % (k // 250, k % 250 + 1)


def wrk(server, kind, seconds, services, per, prefix="bench", names=(), connections=32):
    """Requests a second and the 99th percentile of one run."""
    out = run_wrk(server, kind, seconds, services, per, prefix, names, connections)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), re.search(r"99%\s+(\S+)", out).group(1)


def run_wrk(server, kind, seconds, services, per, prefix, names, connections):
    env = {**os.environ, "KIND": kind, "SERVICES": str(services), "PER": str(per), "PREFIX": prefix, "NAMES": ",".join(names)}
    run = ["wrk", "-t1", "-c%d" % connections, "-d%ds" % seconds, "--latency", "-s", os.path.join(HERE, "requests.lua"), server.url]
    out = subprocess.run(run, capture_output=True, text=True, env=env, check=True).stdout
    if "Non-2xx" in out:
        sys.exit("%s of %s: %s" % (kind, server.url, out))
    return out


def load(a, folder):
    server = nacre(folder)
    client = Client(server)
    for k in range(a.per):
        for s in range(a.services):
            client.register("bench-%d" % s, address(k))
    body = client.call("GET", "/instance/list", serviceName="bench-0")
    bare = Process(target("examples", "limit"), "127.0.0.1:0", str(len(body)))
    for kind in ("list", "beat", "register"):
        got = {"nacre": [], "limit": []}
        for r in range(a.rounds):
            for name, process in (("nacre", server), ("limit", bare)):
                prefix = "new%d" % r if kind == "register" else "bench"
                got[name].append(wrk(process, kind, a.seconds, a.services, a.per, prefix))
        rate = {name: statistics.median(x[0] for x in runs) for name, runs in got.items()}
        print("%-9s %9.0f/s  limit %9.0f/s  ratio %.3f  p99 %s" % (kind, rate["nacre"], rate["limit"], rate["nacre"] / rate["limit"], sorted(x[1] for x in got["nacre"])[a.rounds // 2]), flush=True)
    bare.stop()
    server.stop()


POLLER = """
import http.client, sys, time
host, port, path, period = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
c = http.client.HTTPConnection(host, port, timeout=60)
print("polling", flush=True)
took = []
next_at = time.monotonic()
try:
    while True:
        next_at = max(next_at + period, time.monotonic())
        time.sleep(max(0, next_at - time.monotonic()))
        start = time.monotonic()
        c.request("GET", path, headers={"User-Agent": "Nacos-Java-Client:v1.4.8"})
        size = len(c.getresponse().read())
        took.append(time.monotonic() - start)
except KeyboardInterrupt:
    took.sort()
    print(len(took), 1000 * took[len(took) // 2], 1000 * took[len(took) * 99 // 100], size)
"""


def polling(server, path, period):
    """A process of its own that asks for `path` every `period` seconds."""
    child = subprocess.Popen([sys.executable, "-c", POLLER, server.host, str(server.port), path, str(period)], stdout=subprocess.PIPE, text=True)
    child.stdout.readline()
    return child


def polled(child):
    """Stops it: count of answers, median and p99 in ms, bytes of the last one."""
    child.send_signal(signal.SIGINT)
    return [float(x) for x in child.stdout.readline().split()]


def growth(a, folder):
    """Registering into one service of ever more instances: wrk writes, one process polls the whole list ten times a second and is
    subscribed to pushes, another polls a small list."""
    server = nacre(folder)
    client = Client(server)
    client.register("other", "10.0.0.1")
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    rates, count = [], 0
    for mark in (1000, 5000, 20000, 50000):
        while count < mark:
            client.register("bench-0", "10.0.%d.%d" % (count // 250 % 250, count % 250 + 1), 8000 + count // 62500)
            count += 1
        base = "/nacos/v1/ns/instance/list?serviceName="
        rate = []
        for _ in range(a.rounds):
            whole = polling(server, base + "bench-0&clientIP=127.0.0.1&udpPort=%d" % udp.getsockname()[1], 0.1)
            other = polling(server, base + "other", 0.01)
            rate.append(wrk(server, "again", a.seconds, 1, mark)[0])
            big, small = polled(whole), polled(other)
        rates.append(statistics.median(rate))
        print("%6d instances: %6.0f registrations/s; whole list of %.1f MB %d times, median %.0f ms; another list p99 %.1f ms" % (
            mark, rates[-1], big[3] / 1e6, big[0], big[1], small[2]), flush=True)
    print("factor from 1,000 to 50,000: %.2f; memory %.0f MiB" % (rates[0] / rates[-1], server.memory()))
    server.stop()


def fanout(a, folder):
    server = nacre(folder)
    sockets = []
    for _ in range(20):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.bind(("0.0.0.0", 0))
        s.setblocking(False)
        sockets.append(s)

    def received():
        n = 0
        for s in select.select(sockets, [], [], 0.2)[0]:
            try:
                while True:
                    s.recv(65536)
                    n += 1
            except BlockingIOError:
                pass
        return n

    client = Client(server)
    for k in range(10):
        client.register("fan", address(k))
    for r in range(a.rounds):
        for i in range(a.subscribers):
            ip = "127.%d.%d.%d" % (1 + i // 62500, i // 250 % 250, i % 250 + 1)
            client.call("GET", "/instance/list", serviceName="fan", udpPort=sockets[i % 20].getsockname()[1], clientIP=ip)
        quiet = time.monotonic() + 1.5
        while time.monotonic() < quiet:
            received()
        start = time.monotonic()
        client.register("fan", address(100 + r))
        times, last = [], start
        while len(times) < a.subscribers and time.monotonic() - last < 3:
            n = received()
            if n:
                last = time.monotonic()
                times += [last - start] * n
        print("round %d: %d of %d, first after %.3f s, spread %.3f s" % (r, len(times), a.subscribers, times[0], times[-1] - times[0]), flush=True)
    server.stop()


def memory(a, folder):
    server = nacre(folder)
    print("idle: ready in %.3f s, %.1f MiB" % (server.took, server.memory()), flush=True)
    client = Client(server)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    for turn in range(2):
        for s in range(1000):
            for k in range(100):
                client.register("m-%d" % s, address(k))
            if turn == 0:
                client.call("GET", "/instance/list", serviceName="m-%d" % s, udpPort=udp.getsockname()[1], clientIP="127.0.0.1")
                client.register("m-%d" % s, address(0))
        print("turn %d: %.1f MiB" % (turn + 1, server.memory()), flush=True)
    server.stop()
    with tempfile.TemporaryDirectory() as other:
        server = nacre(other)
        client = Client(server)
        work = [threading.Thread(target=persist, args=(server, w)) for w in range(16)]
        for t in work:
            t.start()
        for t in work:
            t.join()
        server.stop()
        server = nacre(other)
        body = json.loads(Client(server).call("GET", "/instance/list", serviceName="p-999"))
        print("100,000 persistent instances: ready in %.3f s, first list has %d of 100 hosts, %.1f MiB" % (server.took, len(body["hosts"]), server.memory()))
        server.stop()


def owner(name, members):
    """The place of the owner among the sorted members, as Nacos 1.x finds it."""
    value = 0
    for unit in name.encode("utf-16-be")[1::2]:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value -= (value & 0x80000000) << 1
    return abs(value) % 2147483647 % len(members)


def cluster(folder, count):
    """That many nodes, each of which sees all others as members, sorted as their ring is."""
    addresses = sorted("127.0.30.%d:%d" % (1 + k, free_port("127.0.30.%d" % (1 + k))) for k in range(count))
    nodes = []
    for address in addresses:
        host, port = address.split(":")
        given = ["nacos.server.ip=" + host, "server.address=" + host, "server.port=" + port, "nacos.member.list=" + ",".join(addresses)]
        settings = [word for pair in given for word in ("--set", pair)]
        nodes.append(Process(target("nacre"), "serve", "--data", os.path.join(folder, host), *settings))
    deadline = time.monotonic() + 60
    while any(up(node) != count for node in nodes):
        if time.monotonic() > deadline:
            sys.exit("the members don't see each other: %s" % [up(node) for node in nodes])
        time.sleep(0.2)
    return addresses, nodes


def free_port(host):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


def up(node):
    """How many members the node sees UP."""
    try:
        connection = http.client.HTTPConnection(node.host, node.port, timeout=5)
        connection.request("GET", "/nacos/v1/core/cluster/nodes")
        return sum(member["state"] == "UP" for member in json.loads(connection.getresponse().read())["data"])
    except (OSError, ValueError, KeyError):
        return 0


def forward(a, folder):
    addresses, nodes = cluster(folder, a.nodes)
    first, last = nodes[0], nodes[-1]
    names, k = [], 0
    while len(names) < a.services:
        if owner("DEFAULT_GROUP@@fw-%d" % k, addresses) == len(nodes) - 1:
            names.append("fw-%d" % k)
        k += 1
    client = Client(last)
    for name in names:
        for k in range(a.per):
            client.register("DEFAULT_GROUP@@" + name, address(k))
    bare = Process(target("examples", "limit"), "127.0.0.1:0", "60")
    runs = {"limit": [], "direct": [], "forwarded": []}
    for _ in range(a.rounds):
        for name, server in (("limit", bare), ("direct", last), ("forwarded", first)):
            runs[name].append(wrk(server, "beat", a.seconds, len(names), a.per, names=names))
    rate = {name: statistics.median(rate for rate, _ in each) for name, each in runs.items()}
    print("beats: limit %.0f/s, direct %.3f of it, forwarded %.3f (p99 %s)" % (
        rate["limit"], rate["direct"] / rate["limit"], rate["forwarded"] / rate["limit"], sorted(p99 for _, p99 in runs["forwarded"])[a.rounds // 2]), flush=True)
    # One after the other on one connection, in turn: what a write alone takes.
    took = {"direct": [], "forwarded": []}
    clients = {"direct": Client(last), "forwarded": Client(first)}
    for turn in range(a.writes):
        for how, client in clients.items():
            start = time.perf_counter()
            client.register("DEFAULT_GROUP@@" + names[turn % len(names)], address(turn % a.per))
            took[how].append(time.perf_counter() - start)
    median = {how: 1e6 * statistics.median(times) for how, times in took.items()}
    print("one write: direct %.0f us, forwarded %.0f us, factor %.2f" % (median["direct"], median["forwarded"], median["forwarded"] / median["direct"]))
    bare.stop()
    for node in nodes:
        node.stop()


def persist(server, writer):
    client = Client(server)
    for s in range(writer, 1000, 16):
        for k in range(100):
            client.register("p-%d" % s, address(k), ephemeral="false", metadata='{"zone":"a"}')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["load", "growth", "fanout", "memory", "forward"])
    p.add_argument("--seconds", type=int, default=4)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--services", type=int, default=100)
    p.add_argument("--per", type=int, default=10)
    p.add_argument("--subscribers", type=int, default=5000)
    p.add_argument("--nodes", type=int, default=2)
    p.add_argument("--writes", type=int, default=2000)
    p.add_argument("--no-build", action="store_true")
    a = p.parse_args()
    if not a.no_build:
        build()
    with tempfile.TemporaryDirectory() as folder:
        globals()[a.what](a, folder)


main()
