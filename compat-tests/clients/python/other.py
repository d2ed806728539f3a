"""The second client: plain HTTP, no SDK. It makes the changes that the SDK must notice and sees what the SDK did."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request

REQUEST_LIMIT_S = 5


class Wrong(Exception):
    """What a check wanted isn't what came."""

    def __init__(self, wanted, came):
        super().__init__(f"wanted {wanted}, came {came}")


def expect(wanted, came):
    if wanted != came:
        raise Wrong(wanted, came)


def within(limit_s, wanted, look):
    """Looks ten times a second until `look()` gives `wanted`; after `limit_s` seconds that is a fault."""
    end = time.monotonic() + limit_s
    while True:
        came = look()
        if came == wanted:
            return
        if time.monotonic() > end:
            raise Wrong(f"{wanted} within {limit_s} s", came)
        time.sleep(0.1)


def line(host):
    """One instance as a comparable line, with all that a client can set or see."""
    metadata = json.dumps(host["metadata"], sort_keys=True, ensure_ascii=False)
    return (
        f"{host['ip']}:{host['port']} {host['clusterName']} weight {host['weight']!r} healthy {host['healthy']}"
        f" enabled {host['enabled']} ephemeral {host['ephemeral']} {metadata}"
    )


def wanted_line(ip, port, cluster="DEFAULT", weight=1.0, healthy=True, ephemeral=True, metadata=None):
    return line(
        {
            "ip": ip,
            "port": port,
            "clusterName": cluster,
            "weight": float(weight),
            "healthy": healthy,
            "enabled": True,
            "ephemeral": ephemeral,
            "metadata": metadata or {},
        }
    )


class Other:
    def __init__(self, server):
        self.base = f"http://{server}/nacos/v1/ns"

    def call(self, method, path, **parameters):
        """The answer's text. A status other than 200 raises HTTPError, an unreachable server URLError."""
        query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value is not None})
        request = urllib.request.Request(f"{self.base}{path}?{query}", method=method)
        with urllib.request.urlopen(request, timeout=REQUEST_LIMIT_S) as answer:
            return answer.read().decode()

    def wait_for_server(self, limit_s=10):
        end = time.monotonic() + limit_s
        while True:
            try:
                self.call("GET", "/operator/metrics")
                return
            except urllib.error.HTTPError:
                return  # it answers; what it answers is the checks' business
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def instance(self, method, service, ip, port, *, group=None, namespace=None, cluster=None, weight=None,
                 metadata=None, healthy=None, ephemeral=None):
        def text(flag):
            return None if flag is None else str(flag).lower()

        self.call(
            method, "/instance", serviceName=service, ip=ip, port=port, groupName=group, namespaceId=namespace,
            clusterName=cluster, weight=weight, healthy=text(healthy), ephemeral=text(ephemeral),
            metadata=None if metadata is None else json.dumps(metadata),
        )

    def register(self, service, ip, port, **more):
        self.instance("POST", service, ip, port, **more)

    def deregister(self, service, ip, port, **more):
        self.instance("DELETE", service, ip, port, **more)

    def hosts(self, service, *, group=None, namespace=None, clusters=None):
        answer = self.call("GET", "/instance/list", serviceName=service, groupName=group, namespaceId=namespace,
                           clusters=clusters)
        return json.loads(answer)["hosts"]

    def lines(self, service, **where):
        return sorted(line(host) for host in self.hosts(service, **where))
