#!/usr/bin/env python3
"""An HTTP proxy on loopback, between a client and a server, that breaks one thing.

    proxy.py BREAKING http://HOST:PORT [--port N]      (breakings: see breakings.py)

What isn't to be broken passes as it came, byte by byte: only a changed call or answer is written anew.
"""

import argparse
import http.client
import sys
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from breakings import BREAKINGS

FORM = "application/x-www-form-urlencoded"
# Belong to one connection, or are told anew by the one who sends the body on.
NOT_PASSED_ON = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}
UPSTREAM_LIMIT_S = 10


def pairs(text):
    """Names and values of a query or form; also of one whose values aren't percent-encoded, as Go's."""
    split = [pair.partition("=") for pair in text.split("&") if pair]
    return [[urllib.parse.unquote_plus(name), urllib.parse.unquote_plus(value)] for name, _, value in split]


class Call:
    """A client's request: what it is, and its parameters in query and form as one."""

    def __init__(self, method, target, headers, body):
        self.method = method
        self.path, _, query = target.partition("?")
        self.headers = headers
        self._target, self._body, self._changed = target, body, False
        self._query = pairs(query)
        is_form = (headers.get("Content-Type") or "").lower().startswith(FORM)
        self._form = pairs(body.decode(errors="replace")) if is_form else []

    def get(self, name):
        return next((value for given, value in self._query + self._form if given == name), None)

    def set(self, name, value):
        for pair in self._query + self._form:
            if pair[0] == name:
                pair[1] = value
                self._changed = True

    def drop(self, name):
        for part in (self._query, self._form):
            kept = [pair for pair in part if pair[0] != name]
            self._changed |= len(kept) < len(part)
            part[:] = kept

    def target_and_body(self):
        if not self._changed:
            return self._target, self._body
        query = urllib.parse.urlencode(list(map(tuple, self._query)))
        body = urllib.parse.urlencode(list(map(tuple, self._form))).encode() if self._form else self._body
        return f"{self.path}?{query}" if query else self.path, body


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60  # of a connection without a request

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(self.command, self.path, self.headers, body)
        answer = self.server.breaking.ask(call)
        if answer is not None:
            self.answer(200, [("Content-Type", "text/plain;charset=UTF-8")], answer.encode())
            return
        try:
            status, headers, body = self.ask_server(call)
        except OSError as fault:
            self.server.faults.append(f"the server doesn't answer: {fault!r}")
            self.answer(502, [("Content-Type", "text/plain;charset=UTF-8")], b"the server doesn't answer")
            return
        if status == 200:
            body = self.server.breaking.answered(call, body)
        self.answer(status, headers, body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = relay

    def ask_server(self, call):
        target, body = call.target_and_body()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
        connection = http.client.HTTPConnection(self.server.upstream, timeout=UPSTREAM_LIMIT_S)
        try:
            connection.request(call.method, target, body if body or call.method in ("POST", "PUT") else None,
                               headers | {"Connection": "close"})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Proxy(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, breaking, upstream, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.upstream = upstream
        self.breaking = BREAKINGS[breaking](upstream)
        # What went wrong unintendedly: then a check that fails proves nothing.
        self.faults = []

    def handle_error(self, request, client_address):
        fault = sys.exc_info()[1]
        # A killed client is what some checks are about.
        if not isinstance(fault, ConnectionError):
            self.faults.append(f"the proxy itself failed: {fault!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("breaking", choices=BREAKINGS)
    parser.add_argument("server", metavar="http://HOST:PORT")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    proxy = Proxy(args.breaking, args.server.removeprefix("http://").rstrip("/"), args.port)
    print(f"http://127.0.0.1:{proxy.server_port}", flush=True)
    try:
        proxy.serve_forever()
    except KeyboardInterrupt:
        print("\n".join(proxy.faults), file=sys.stderr)


if __name__ == "__main__":
    main()
