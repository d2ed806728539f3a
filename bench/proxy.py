#!/usr/bin/env python3
"""The reverse proxy beside nginx, in one run on one machine.

  proxy.py load    throughput and latency: ten backends that answer 1 KiB, two workers each, in turn
  proxy.py idle    memory per 1,000 clients that keep a connection after one request, of HTTP/1.1 and of HTTP/2

Runs the release build of Nacre in CARGO_TARGET_DIR (or NACRE=PATH); needs nginx, and wrk for load. The backends are nginx, too.
"""
import argparse, http.client, json, os, re, signal, socket, statistics, subprocess, sys, tempfile, time
from urllib.parse import urlencode

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST = "127.0.41.1"
BACKENDS = 10
LONG = json.dumps({"preserved.heart.beat.timeout": "3600000", "preserved.ip.delete.timeout": "3600000"})
COMMON = """daemon off; worker_processes 2; pid %(folder)s/%(name)s.pid; error_log %(folder)s/%(name)s.log;
events { worker_connections 16384; }
http { access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
 client_body_temp_path %(folder)s/a; proxy_temp_path %(folder)s/b; fastcgi_temp_path %(folder)s/c; uwsgi_temp_path %(folder)s/d;
 scgi_temp_path %(folder)s/e;
"""
PASSES = """ upstream all { %(servers)s keepalive 256; keepalive_requests 1000000000; }
 server { listen %(host)s:%(port)d backlog=4096; location / { proxy_pass http://all; proxy_http_version 1.1;
  proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
  proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Request-Id $request_id; } }
}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def start(*command, **options):
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)


def wait_for(port):
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("nobody listens on %d" % port)


class Bench:
    def __init__(self, folder):
        self.folder, self.children = folder, []
        self.backends = [free_port() for _ in range(BACKENDS)]
        body = "x" * 1024
        servers = "".join(
            ' server { listen %s:%d backlog=4096; location / { default_type text/plain; return 200 "%s"; } }\n' % (HOST, port, body)
            for port in self.backends
        )
        self.nginx("backends", servers + "}\n")
        self.nginx_port = free_port()
        servers = " ".join("server %s:%d;" % (HOST, port) for port in self.backends)
        self.nginx("nginx", PASSES % {"servers": servers, "host": HOST, "port": self.nginx_port})
        self.start_nacre()
        for port in [*self.backends, self.nginx_port, self.nacre_port]:
            wait_for(port)

    def nginx(self, name, text):
        path = os.path.join(self.folder, name + ".conf")
        with open(path, "w") as f:
            f.write(COMMON % {"folder": self.folder, "name": name} + text)
        self.children.append(start("nginx", "-c", path, "-p", self.folder))

    def start_nacre(self):
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        program = os.environ.get("NACRE", os.path.join(target, "release", "nacre"))
        rules = os.path.join(self.folder, "proxy.toml")
        with open(rules, "w") as f:
            f.write('[[rule]]\nname = "all"\nservice = "orders"\n')
        self.nacre_port, node = free_port(), free_port()
        settings = ["server.port=%d" % node, "server.address=" + HOST, "nacos.server.ip=" + HOST]
        settings += ["nacre.proxy.listen=%s:%d" % (HOST, self.nacre_port), "nacre.proxy.rules=" + rules]
        command = [program, "serve", "--data", os.path.join(self.folder, "data")]
        for setting in settings:
            command += ["--set", setting]
        self.node = start(*command)
        self.children.append(self.node)
        wait_for(node)
        client = http.client.HTTPConnection(HOST, node, timeout=30)
        for port in self.backends:
            query = urlencode({"serviceName": "orders", "ip": HOST, "port": port, "metadata": LONG})
            client.request("POST", "/nacos/v1/ns/instance?" + query, headers={"Content-Length": "0"})
            answer = client.getresponse()
            if (answer.status, answer.read()) != (200, b"ok"):
                sys.exit("not registered: %d" % answer.status)

    def stop(self):
        for child in self.children:
            child.send_signal(signal.SIGTERM)
        for child in self.children:
            child.wait(30)

    def wrk(self, port, seconds, connections):
        told = subprocess.run(
            ["wrk", "-t1", "-c%d" % connections, "-d%ds" % seconds, "--latency", "http://%s:%d/" % (HOST, port)],
            capture_output=True, text=True, check=True).stdout
        if "Non-2xx" in told or "Socket errors" in told:
            sys.exit(told)
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", told).group(1))
        value, unit = re.search(r"99%\s+([\d.]+)(us|ms|s)", told).groups()
        return rate, float(value) * {"us": 0.001, "ms": 1, "s": 1000}[unit]

    def load(self, rounds, seconds, connections):
        ports = {"bare": self.backends[0], "nginx": self.nginx_port, "nacre": self.nacre_port}
        for port in ports.values():
            self.wrk(port, 1, connections)
        seen = {name: [] for name in ports}
        for _ in range(rounds):
            for name, port in ports.items():
                seen[name].append(self.wrk(port, seconds, connections))
        for name, runs in seen.items():
            print("%-6s %8.0f/s  p99 %.2f ms" % (name, *(statistics.median(part) for part in zip(*runs))))
        ratios = [(ours[0] / theirs[0], ours[1] / theirs[1]) for ours, theirs in zip(seen["nacre"], seen["nginx"])]
        print("of nginx: throughput %.2f, p99 %.2f (medians of %d rounds; %s)" % (
            *(statistics.median(part) for part in zip(*ratios)), rounds, ", ".join("%.2f" % ratio for ratio, _ in ratios)))
        print("load average %.2f" % os.getloadavg()[0])

    def memory(self):
        with open("/proc/%d/status" % self.node.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def idle(self, count):
        for version, ask in (("HTTP/1.1", ask_http1), ("HTTP/2", ask_http2)):
            keep = [ask(self.nacre_port) for _ in range(100)]
            before = self.memory()
            keep += [ask(self.nacre_port) for _ in range(count)]
            print("%-8s %.1f MiB per 1,000 idle connections" % (version, (self.memory() - before) * 1000 / count))
            for one in keep:
                one.close()
            time.sleep(2)


def ask_http1(port):
    client = socket.create_connection((HOST, port))
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    read = b""
    while not read.endswith(b"x" * 1024):
        read += client.recv(65536)
    return client


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def ask_http2(port):
    client = socket.create_connection((HOST, port))
    client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, b"\x82\x86\x84\x41\x01a"))
    read = b""
    while not read.endswith(b"x" * 1024):
        part = client.recv(65536)
        if not part:
            sys.exit("no answer: %r" % read)
        read += part
    client.sendall(frame(4, 1, 0))
    return client


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["load", "idle"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--count", type=int, default=2000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        try:
            if chosen.what == "load":
                bench.load(chosen.rounds, chosen.seconds, chosen.connections)
            else:
                bench.idle(chosen.count)
        finally:
            bench.stop()


if __name__ == "__main__":
    main()
