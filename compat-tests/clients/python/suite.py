"""Runs the checks of nacos-sdk-python 1.0.0 against a server, all at once, and prints a line for each.

Place: started by `../run` and `../prove`; the checks are in `checks.py`, the client that they are measured
with is in `other.py`.

    suite.py HOST:PORT [--only NAME,NAME]
    suite.py --names
    suite.py HOST:PORT --child SERVICE IP PORT METADATA   (what the killed-client checks kill)

Exit code: 0 every check passed, 1 one failed, 2 the suite couldn't run.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time

# One check that hangs must not hide the others.
CHECK_LIMIT_S = 60

PRINTING = threading.Lock()


def say(line):
    with PRINTING:
        print(line, flush=True)


def run_one(name, check, world, failed):
    try:
        check(world)
        say(f"ok {name}")
    except BaseException as fault:  # an SDK that calls sys.exit in a thread has failed, too
        failed.append(name)
        text = str(fault) if type(fault).__name__ == "Wrong" else f"wanted no error, came {fault!r}"
        say(f"FAIL {name}: {text}")


def run_all(world, chosen):
    failed = []
    threads = {
        name: threading.Thread(target=run_one, args=(name, check, world, failed), daemon=True)
        for name, check in chosen.items()
    }
    for thread in threads.values():
        thread.start()
    end = time.monotonic() + CHECK_LIMIT_S
    for name, thread in threads.items():
        thread.join(max(0, end - time.monotonic()))
        if thread.is_alive():
            failed.append(name)
            say(f"FAIL {name}: wanted an end within {CHECK_LIMIT_S} s, it still runs")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server", nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--child", nargs=4, metavar=("SERVICE", "IP", "PORT", "METADATA"))
    args = parser.parse_args()

    import checks

    if args.names:
        print("\n".join(checks.CHECKS))
        return 0
    if not args.server:
        parser.error("HOST:PORT is missing")
    world = checks.World(args.server, tempfile.mkdtemp(prefix="nacos-python-"))
    if args.child:
        service, ip, port, metadata = args.child
        world.register(service, ip, int(port), metadata=json.loads(metadata))
        say("registered")
        sys.stdin.read()  # until killed, or until the parent has gone
        return 0

    only = [name for name in args.only.split(",") if name]
    unknown = [name for name in only if name not in checks.CHECKS]
    if unknown:
        print(f"couldn't run: no check is called {', '.join(unknown)}", file=sys.stderr)
        return 2
    try:
        world.other.wait_for_server()
    except OSError as fault:
        print(f"couldn't run: {fault}", file=sys.stderr)
        return 2
    if not only:
        for name, why in checks.SKIPPED.items():
            say(f"skip {name}: {why}")
    failed = run_all(world, {name: checks.CHECKS[name] for name in only or checks.CHECKS})
    world.clean_up()
    return 1 if failed else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the SDK's timer threads would keep the process for ever
