#!/usr/bin/env python3
"""Writes the requests of the recordings as raw bytes: seeds.py FOLDER."""

import hashlib
import json
import pathlib
import sys
import urllib.parse

GOLDEN = pathlib.Path(__file__).parent.parent / "compat-tests" / "golden"


def requests(node):
    if isinstance(node, list):
        for part in node:
            yield from requests(part)
    elif isinstance(node, dict):
        if isinstance(node.get("request"), str):
            yield node
        for part in node.values():
            yield from requests(part)


def raw(step):
    text = step["request"].replace("${", "").replace("}", "")
    method, _, target = text.partition(" ")
    headers = {"Host": "shop.example", **step.get("headers", {})}
    body = step.get("body", "")
    if step.get("form"):
        body = urllib.parse.urlencode(step["form"])
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    body = str(body).encode()
    if body:
        headers["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(GOLDEN.glob("*.json")):
        for step in requests(json.loads(file.read_text())):
            seed = raw(step)
            (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    chunked = b"POST /orders HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    (folder / "chunked").write_bytes(chunked)
    head = b"\x82\x86\x84\x41\x01a"
    frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    (folder / "http2").write_bytes(frames + bytes([0, 0, len(head), 1, 5, 0, 0, 0, 1]) + head)


if __name__ == "__main__":
    main(sys.argv[1])
