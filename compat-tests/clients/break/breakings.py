"""The faults that the proxy can bring in, each in one respect, by name.

Place: `proxy.py` gives every call first to `ask` on its way to the server, then to `answered` on its way back;
`table.py` says which check each must make fail.
"""

import json
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

BASE = "/nacos/v1/ns"
INSTANCE = f"{BASE}/instance"


class Breaking:
    """Breaks nothing; the others change what they must."""

    def __init__(self, upstream):
        self.upstream = upstream

    def ask(self, call):
        """May change the call. What it returns is the answer, and the server is not asked; None asks it."""

    def answered(self, call, body):
        """The body that the client gets instead of the server's."""
        return body


class Swallowed(Breaking):
    """Answers one kind of call itself: the server never hears of it."""

    method, path, answer = "", "", "ok"

    def ask(self, call):
        return self.answer if (call.method, call.path) == (self.method, self.path) else None


class UpdateSwallowed(Swallowed):
    method, path = "PUT", INSTANCE


class DeregisterSwallowed(Swallowed):
    method, path = "DELETE", INSTANCE


class BeatsSwallowed(Swallowed):
    method, path = "PUT", f"{INSTANCE}/beat"
    answer = '{"clientBeatInterval":5000,"code":10200,"lightBeatEnabled":true}'


class BeatsUnknown(BeatsSwallowed):
    """As if the server had lost the instance: a client that heeds it registers again."""

    answer = '{"clientBeatInterval":5000,"code":20404,"lightBeatEnabled":true}'


class RegisterSwallowed(BeatsSwallowed):
    """Nor do beats arrive, which would make up for it."""

    def ask(self, call):
        return "ok" if (call.method, call.path) == ("POST", INSTANCE) else super().ask(call)


class RegisterAnswersOk(Breaking):
    """`OK` for `ok`."""

    def answered(self, call, body):
        return b"OK" if (call.method, call.path) == ("POST", INSTANCE) else body


class RegisterWithoutMetadata(Breaking):
    """Metadata gets lost on the way, in registrations and in beats, which would make up for it."""

    def ask(self, call):
        if (call.method, call.path) == ("POST", INSTANCE):
            call.drop("metadata")
        elif call.path == f"{INSTANCE}/beat" and call.get("beat"):
            beat = json.loads(call.get("beat"))
            beat.pop("metadata", None)
            call.set("beat", json.dumps(beat))


class PersistentAsEphemeral(Breaking):
    def ask(self, call):
        if (call.method, call.path) == ("POST", INSTANCE) and (call.get("ephemeral") or "").lower() == "false":
            call.set("ephemeral", "true")


class JsonAnswer(Breaking):
    """Changes a JSON answer of one path."""

    path = f"{INSTANCE}/list"

    def answered(self, call, body):
        if (call.method, call.path) != ("GET", self.path):
            return body
        document = json.loads(body)
        self.change(document)
        return json.dumps(document).encode()

    def change(self, document):
        raise NotImplementedError


class HostsChanged(JsonAnswer):
    """Changes every host of a list."""

    def change(self, document):
        for host in document.get("hosts", []):
            self.change_host(host)

    def change_host(self, host):
        raise NotImplementedError


class MetadataDropped(HostsChanged):
    def change_host(self, host):
        host["metadata"] = {}


class WeightAsText(HostsChanged):
    def change_host(self, host):
        host["weight"] = str(host["weight"])


class WeightsOne(HostsChanged):
    def change_host(self, host):
        host["weight"] = 1.0


class PortsElsewhere(HostsChanged):
    """Where nobody listens, if the server is asked; pushes say what is right."""

    def change_host(self, host):
        host["port"] = 1


class AllHealthy(HostsChanged):
    def change_host(self, host):
        host["healthy"] = True


class ListWithoutName(JsonAnswer):
    def change(self, document):
        document.pop("name", None)


class ListWithoutClusters(JsonAnswer):
    def change(self, document):
        document.pop("clusters", None)


class DetailWithoutMetadata(JsonAnswer):
    path = INSTANCE

    def change(self, document):
        document.pop("metadata", None)


class ServicesWithoutCount(JsonAnswer):
    path = f"{BASE}/service/list"

    def change(self, document):
        document.pop("count", None)


class StatusDown(JsonAnswer):
    path = f"{BASE}/operator/metrics"

    def change(self, document):
        document["status"] = "DOWN"


class ListStale(Breaking):
    """A list stays for ever what it was when it was first asked for."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.first = {}

    def answered(self, call, body):
        if (call.method, call.path) != ("GET", f"{INSTANCE}/list"):
            return body
        return self.first.setdefault((call.get("serviceName"), call.get("clusters")), body)


class ParameterDropped(Breaking):
    name = ""

    def ask(self, call):
        call.drop(self.name)


class ClustersDropped(ParameterDropped):
    name = "clusters"


class NamespaceDropped(ParameterDropped):
    name = "namespaceId"


class HealthyOnlyDropped(ParameterDropped):
    name = "healthyOnly"


class GroupDropped(ParameterDropped):
    """Some clients send the group as a parameter, some as a part of the name, some as both."""

    name = "groupName"

    def ask(self, call):
        super().ask(call)
        if "@@" in (call.get("serviceName") or ""):
            call.set("serviceName", call.get("serviceName").split("@@", 1)[1])


class PushSuppressed(Breaking):
    """Subscriptions name a port where nobody listens to what comes."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.deaf.bind(("127.0.0.1", 0))

    def ask(self, call):
        if int(call.get("udpPort") or 0) > 0:
            call.set("udpPort", str(self.deaf.getsockname()[1]))


class KeptBeating(Breaking):
    """Every ephemeral instance that was registered gets beats for ever, whatever becomes of its client."""

    EVERY_S = 1

    def __init__(self, upstream):
        super().__init__(upstream)
        self.kept = {}
        threading.Thread(target=self._beat_for_ever, daemon=True).start()

    def ask(self, call):
        if call.path != INSTANCE or (call.get("ephemeral") or "true").lower() == "false":
            return
        names = ("serviceName", "groupName", "namespaceId", "clusterName", "ip", "port")
        beat = {name: call.get(name) for name in names if call.get(name)}
        key = (beat["serviceName"].split("@@")[-1], beat["ip"], beat["port"])
        if call.method == "POST":
            self.kept[key] = beat
        elif call.method == "DELETE":
            self.kept.pop(key, None)

    def _beat_for_ever(self):
        while True:
            for beat in list(self.kept.values()):
                url = f"http://{self.upstream}{INSTANCE}/beat?{urllib.parse.urlencode(beat)}"
                try:
                    urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=5).close()
                except urllib.error.URLError:
                    continue  # the server is gone, and the proof will say so
            time.sleep(self.EVERY_S)


BREAKINGS = {
    "none": Breaking,
    "register-answers-OK": RegisterAnswersOk,
    "register-without-metadata": RegisterWithoutMetadata,
    "persistent-as-ephemeral": PersistentAsEphemeral,
    "update-swallowed": UpdateSwallowed,
    "metadata-dropped": MetadataDropped,
    "weight-as-text": WeightAsText,
    "weights-one": WeightsOne,
    "ports-elsewhere": PortsElsewhere,
    "all-healthy": AllHealthy,
    "healthy-only-dropped": HealthyOnlyDropped,
    "list-without-name": ListWithoutName,
    "list-without-clusters": ListWithoutClusters,
    "list-stale": ListStale,
    "push-suppressed": PushSuppressed,
    "services-without-count": ServicesWithoutCount,
    "register-swallowed": RegisterSwallowed,
    "group-dropped": GroupDropped,
    "namespace-dropped": NamespaceDropped,
    "clusters-dropped": ClustersDropped,
    "status-down": StatusDown,
    "detail-without-metadata": DetailWithoutMetadata,
    "beats-swallowed": BeatsSwallowed,
    "beats-unknown": BeatsUnknown,
    "kept-beating": KeptBeating,
    "deregister-swallowed": DeregisterSwallowed,
}
