"""What nacos-sdk-python must be able to do with the server. Each check has a service of its own, so all run at once."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

from nacos import NacosClient
from nacos.listener import Event, SubscribeListener

from other import Other, Wrong, expect, line, wanted_line, within

IP = "127.0.0.1"
METADATA = {"zone": "a b", "note": "ü=1&2+3%", "empty": ""}


class World:
    """The server, the SDK's clients and what has to be removed in the end."""

    def __init__(self, server, log_folder):
        self.server = server
        self.log_folder = log_folder
        self.other = Other(server)
        self.run_id = f"{os.getpid():x}{int(time.time()) & 0xFFFFFF:x}"
        self.sdk = self.client()
        self.persistent = []

    def client(self, namespace=None):
        return NacosClient(self.server, namespace=namespace, logDir=self.log_folder)

    def service(self, check):
        return f"clients-python-{self.run_id}-{check}"

    def register(self, service, ip, port, *, sdk=None, cluster="DEFAULT", weight=1.0, metadata=None, ephemeral=True,
                 group="DEFAULT_GROUP"):
        done = (sdk or self.sdk).add_naming_instance(
            service, ip, port, cluster, weight, metadata, True, True, ephemeral, group,
            heartbeat_interval=5 if ephemeral else None,
        )
        expect(True, done)
        if not ephemeral:
            self.persistent.append((service, ip, port))

    def register_persistent(self, service):
        """Registers a persistent instance whose port answers the server's health checks; gives its line."""
        listener = socket.create_server((IP, 0))
        threading.Thread(target=accept_for_ever, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        self.register(service, IP, port, ephemeral=False, metadata=METADATA)
        return port, wanted_line(IP, port, ephemeral=False, metadata=METADATA)

    def clean_up(self):
        for service, ip, port in self.persistent:
            self.other.deregister(service, ip, port, ephemeral=False)


def accept_for_ever(listener):
    while True:
        listener.accept()[0].close()


def register_ephemeral(world):
    service = world.service("register-ephemeral")
    world.register(service, IP, 8001, weight=2.5, metadata=METADATA)
    within(2, [wanted_line(IP, 8001, weight=2.5, metadata=METADATA)], lambda: world.other.lines(service))


def register_persistent(world):
    service = world.service("register-persistent")
    _, wanted = world.register_persistent(service)
    within(2, [wanted], lambda: world.other.lines(service))


def update(world):
    service = world.service("update")
    world.register(service, IP, 8001, weight=2.5, metadata=METADATA)
    changed = {"zone": "b", "new": "ö"}
    expect(True, world.sdk.modify_naming_instance(service, IP, 8001, "DEFAULT", 3.5, changed))
    within(2, [wanted_line(IP, 8001, weight=3.5, metadata=changed)], lambda: world.other.lines(service))


def list_instances(world):
    service = world.service("list")
    world.other.register(service, IP, 8001, weight=2.5, metadata=METADATA)
    world.other.register(service, IP, 8002, cluster="east")
    world.other.register(service, "127.0.0.2", 8001, weight=0)
    wanted = [
        wanted_line(IP, 8001, weight=2.5, metadata=METADATA),
        wanted_line(IP, 8002, cluster="east"),
        wanted_line("127.0.0.2", 8001, weight=0),
    ]
    within(2, wanted, lambda: sorted(map(line, world.sdk.list_naming_instance(service)["hosts"])))


def select_healthy(world):
    service = world.service("select-healthy")
    world.other.register(service, IP, 8001)
    world.other.register(service, IP, 8002, healthy=False)
    well, ill = wanted_line(IP, 8001), wanted_line(IP, 8002, healthy=False)

    def chosen(healthy_only):
        return sorted(map(line, world.sdk.list_naming_instance(service, healthy_only=healthy_only)["hosts"]))

    within(2, [well, ill], lambda: chosen(False))
    expect([well], chosen(True))


def subscribe(world):
    service = world.service("subscribe")
    world.other.register(service, IP, 8001)
    within(2, [wanted_line(IP, 8001)], lambda: world.other.lines(service))
    heard = []
    listener = SubscribeListener(
        lambda event, local: heard.append((event, local.instance["port"], local.instance["metadata"])), "suite")
    client = world.client()  # its timers can only be stopped together
    client.subscribe(listener, 1, service, healthy_only=False)
    world.other.register(service, IP, 8002)
    within(4, [(Event.ADDED, 8002, {})], lambda: heard)
    world.other.register(service, IP, 8002, metadata={"a": "b"})
    within(4, [(Event.MODIFIED, 8002, {"a": "b"})], lambda: heard[1:])
    world.other.deregister(service, IP, 8002)
    within(4, [(Event.DELETED, 8002, {"a": "b"})], lambda: heard[2:])
    client.stop_subscribe()


def groups(world):
    service = world.service("groups")
    world.register(service, IP, 8001, group="red")
    world.register(service, IP, 8002, group="blue")
    for group, port in (("red", 8001), ("blue", 8002)):
        within(2, [port], lambda: ports(world.sdk.list_naming_instance(service, group_name=group)))
    expect([], ports(world.sdk.list_naming_instance(service)))


def namespaces(world):
    service = world.service("namespaces")
    clients = {port: world.client(f"clients-{world.run_id}-{port}") for port in (8001, 8002)}
    for port, client in clients.items():
        world.register(service, IP, port, sdk=client)
    for port, client in clients.items():
        within(2, [port], lambda: ports(client.list_naming_instance(service)))
    expect([], ports(world.sdk.list_naming_instance(service)))


def clusters(world):
    service = world.service("clusters")
    world.register(service, IP, 8001, cluster="east")
    world.register(service, IP, 8002, cluster="west")
    for asked, wanted in (("east", [8001]), ("west", [8002]), ("east,west", [8001, 8002]), (None, [8001, 8002])):
        within(2, wanted, lambda: ports(world.sdk.list_naming_instance(service, clusters=asked)))


def ports(answer):
    return sorted(host["port"] for host in answer["hosts"])


def detail(world):
    service = world.service("detail")
    world.register(service, IP, 8001, weight=2.5, metadata=METADATA)
    within(2, [wanted_line(IP, 8001, weight=2.5, metadata=METADATA)], lambda: world.other.lines(service))
    answer = world.sdk.get_naming_instance(service, IP, 8001, "DEFAULT")
    seen = {name: answer.get(name) for name in ("ip", "port", "clusterName", "weight", "healthy", "metadata")}
    expect({"ip": IP, "port": 8001, "clusterName": "DEFAULT", "weight": 2.5, "healthy": True, "metadata": METADATA},
           seen)


def keep_alive(world):
    """25 s are past both the time-out for beats and its sweep, so only beats can have kept it healthy."""
    service = world.service("keep-alive")
    _, lasting = world.register_persistent(service)
    world.register(service, IP, 8001, metadata={"a": "b"})
    within(2, sorted([lasting, wanted_line(IP, 8001, metadata={"a": "b"})]), lambda: world.other.lines(service))
    end = time.monotonic() + 25
    # Registering again would write the SDK's own metadata over this.
    marked = {"a": "b", "marked": "by another"}
    world.other.instance("PATCH", service, IP, 8001, metadata=marked)
    wanted = sorted([lasting, wanted_line(IP, 8001, metadata=marked)])
    within(2, wanted, lambda: world.other.lines(service))
    while time.monotonic() < end:
        expect(wanted, world.other.lines(service))
        time.sleep(0.5)


def comes_back(world):
    """An instance that the server has lost returns by the next beats, with all that it had."""
    service = world.service("comes-back")
    world.register(service, IP, 8001, weight=2.5, metadata=METADATA)
    world.other.deregister(service, IP, 8001)
    within(12, [wanted_line(IP, 8001, weight=2.5, metadata=METADATA)], lambda: world.other.lines(service))


def deregister(world):
    service = world.service("deregister")
    port, _ = world.register_persistent(service)
    world.register(service, IP, 8001)
    within(2, sorted([port, 8001]), lambda: sorted(host["port"] for host in world.other.hosts(service)))
    # The SDK's first beat leaves right after registering, from another thread; late, it would bring the instance back.
    time.sleep(1)
    expect(True, world.sdk.remove_naming_instance(service, IP, 8001, "DEFAULT"))
    expect([port], [host["port"] for host in world.other.hosts(service)])
    expect(True, world.sdk.remove_naming_instance(service, IP, port, "DEFAULT", ephemeral=False))
    expect([], world.other.hosts(service))
    end = time.monotonic() + 6  # a beat sent all the same would bring it back
    while time.monotonic() < end:
        expect([], world.other.hosts(service))
        time.sleep(0.5)


def kill_and_watch(world, check, metadata, gone_from_s, gone_until_s):
    """Kills a process that has registered. Gives how long it was listed as healthy, and until it was gone."""
    service = world.service(check)
    _, lasting = world.register_persistent(service)
    child = subprocess.Popen(
        [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite.py"), world.server,
         "--child", service, IP, "8001", json.dumps(metadata)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    expect("registered\n", child.stdout.readline())
    well = sorted([lasting, wanted_line(IP, 8001, metadata=metadata)])
    ill = sorted([lasting, wanted_line(IP, 8001, metadata=metadata, healthy=False)])
    within(2, well, lambda: world.other.lines(service))
    child.kill()
    child.wait()
    killed = time.monotonic()
    ill_after_s = None
    while (came := world.other.lines(service)) != [lasting]:
        after_s = time.monotonic() - killed
        if came == ill and ill_after_s is None:
            ill_after_s = after_s
        if came not in (well, ill) or after_s > gone_until_s:
            raise Wrong(f"only {lasting} within {gone_until_s} s of the kill", f"{came} after {after_s:.1f} s")
        time.sleep(0.2)
    gone_after_s = time.monotonic() - killed
    if gone_after_s < gone_from_s:
        raise Wrong(f"it to stay for {gone_from_s} s", f"gone after {gone_after_s:.1f} s")
    return ill_after_s


def gone_after_kill(world):
    ill_after_s = kill_and_watch(world, "gone-after-kill", {}, 24, 37)
    if ill_after_s is None or not 9 <= ill_after_s <= 22:
        raise Wrong("unhealthy 15 to 20 s after the last beat", f"unhealthy after {ill_after_s} s")


def gone_after_kill_short(world):
    timeouts = {"preserved.heart.beat.timeout": "3000", "preserved.ip.delete.timeout": "6000"}
    kill_and_watch(world, "gone-after-kill-short", timeouts, 4, 13)


CHECKS = {
    "register-ephemeral": register_ephemeral,
    "register-persistent": register_persistent,
    "update": update,
    "list": list_instances,
    "select-healthy": select_healthy,
    "subscribe": subscribe,
    "groups": groups,
    "namespaces": namespaces,
    "clusters": clusters,
    "detail": detail,
    "keep-alive": keep_alive,
    "comes-back": comes_back,
    "gone-after-kill": gone_after_kill,
    "gone-after-kill-short": gone_after_kill_short,
    "deregister": deregister,
}

SKIPPED = {
    "select-by-weight": "the SDK has no such call",
    "push": "the SDK hears no pushes, it polls; subscribe checks the polling",
    "push-empty": "the SDK hears no pushes, it polls",
    "push-large": "the SDK hears no pushes, it polls",
    "services": "the SDK has no such call",
    "server-status": "the SDK has no such call",
}
