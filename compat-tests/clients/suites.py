"""The suites: what each needs on the machine, how it is built and how it is started.

Place: used by `run` and `prove`. All that is built or fetched goes to `.build`; an unchanged suite isn't built again.
"""

import atexit
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = HERE / ".build"

# The slowest suite takes about 40 s, and several times that where others keep the cores busy; past this it is killed.
SUITE_LIMIT_S = 420


class CannotBuild(Exception):
    """A suite's SDK can't be fetched or its program can't be compiled; the text has the tool's last words."""


class Suite:
    def __init__(self, name, tools, build, command, shared=(), application=False):
        self.name = name
        self.tools = tools
        # Of several JVMs: these have their turn when the others, which measure in seconds, are done.
        self.application = application
        self.folder = HERE / name
        # Sources of others that are compiled with its own.
        self.shared = [HERE / path for path in shared]
        self.built = BUILD / name
        self._build = build
        self._command = command

    def missing_tool(self):
        return next((tool for tool in self.tools if not shutil.which(tool)), None)

    def build(self):
        BUILD.mkdir(exist_ok=True)
        with open(BUILD / f"{self.name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once share the folder
            stamp = self.built / "stamp"
            sources = self._fingerprint()
            if stamp.exists() and stamp.read_text() == sources:
                return
            self.built.mkdir(exist_ok=True)
            self._build(self)
            stamp.write_text(sources)

    def _fingerprint(self):
        digest = hashlib.sha256()
        for folder in (self.folder, *self.shared):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    digest.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    def command(self, *args):
        return [str(part) for part in self._command(self)] + list(args)

    def environment(self):
        """Ours, without HTTP proxies: a suite talks to the address that it is given and to nothing else."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return kept | {
            "NODE_PATH": str(BUILD / "node" / "node_modules"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(scratch()),
        }

    def start(self, *args, **pipes):
        return subprocess.Popen(self.command(*args), env=self.environment(), text=True, **pipes)

    def tool(self, *command, folder=None, **environment):
        """Runs a step of the build, with the proxies that the machine may need to reach its registries."""
        done = subprocess.run(
            [str(part) for part in command], cwd=folder or self.folder, env=os.environ | environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise CannotBuild(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}")


@functools.cache
def scratch():
    """Where the SDKs write their caches and logs: a suite that is killed can't remove its own, so it's done here."""
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def build_java(suite):
    suite.tool("mvn", "-B", "-q", "process-classes")


def java_command(main, *options):
    def command(suite):
        classpath = (suite.built / "classpath").read_text().strip()
        # Quick to start, and quiet on a machine whose cores are shared with the server.
        return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", f"-Djava.io.tmpdir={scratch()}",
                *options, "-cp", f"{suite.built / 'classes'}:{classpath}", main]

    return command


def build_go(suite):
    suite.tool("go", "build", "-mod=readonly", "-o", suite.built / "suite", ".")


def build_python(suite):
    suite.tool(sys.executable, "-m", "venv", suite.built)
    suite.tool(suite.built / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", "requirements.txt")


def build_node(suite):
    for name in ("package.json", "package-lock.json"):
        shutil.copy(suite.folder / name, suite.built)
    suite.tool("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=suite.built)


SUITES = {
    suite.name: suite
    for suite in (
        Suite("java", ("java", "mvn"), build_java, java_command("suite.Suite")),
        Suite("go", ("go",), build_go, lambda suite: [suite.built / "suite"]),
        Suite("python", ("python3",), build_python, lambda s: [s.built / "bin" / "python", s.folder / "suite.py"]),
        Suite("node", ("node", "npm"), build_node, lambda suite: ["node", suite.folder / "suite.js"]),
        Suite("spring", ("java", "mvn"), build_java, java_command("suite.SpringSuite"), ("apps", "java/src"),
              application=True),
        # Dubbo makes classes at run time and reads private fields, which newer Javas allow only when told so.
        Suite("dubbo", ("java", "mvn"), build_java,
              java_command("suite.DubboSuite", "--add-opens=java.base/java.lang=ALL-UNNAMED",
                           "--add-opens=java.base/java.math=ALL-UNNAMED"), ("apps", "java/src"), application=True),
    )
}


def in_turns(items, suite_of=lambda item: item):
    """The items whose suites are played together, first those of clients, then those of applications."""
    turns = [[item for item in items if suite_of(item).application == application] for application in (False, True)]
    return [turn for turn in turns if turn]


def address(text):
    """HOST:PORT of `http://HOST:PORT`, `http://HOST:PORT/` or `HOST:PORT`."""
    host_port = text.removeprefix("http://").rstrip("/")
    host, _, port = host_port.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise ValueError(f"{text} is not http://HOST:PORT")
    return host_port
