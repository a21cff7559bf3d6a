"""The part of a Kubernetes API server that Spark's own back end speaks to, and a node beneath it:
the pods that Spark creates run as processes of this machine, under another account where there is
one to take, as the entry point of Spark's image would start them.

What it is not: a scheduler, a container runtime, a network. Pods share the machine's, with the
loopback address for their own, and of their containers' settings only the environment is followed.
"""

from __future__ import annotations

import copy
import json
import os
import queue
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from coffer_testing.cluster import copied
from coffer_testing.processes import start

EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_PHASES = {True: "Succeeded", False: "Failed"}
_POLL = 0.2  # seconds between two looks at what runs

Object = dict[str, Any]


class Kubernetes:
    """An API server on a port of its own. `folder` takes the pods' logs and disks."""

    def __init__(self, folder: Path, *, user: int | None = None) -> None:
        import pyspark

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.user = user
        self._spark = Path(pyspark.__file__).parent
        if user is not None:
            self._spark = copied(self._spark, folder / "spark")
            os.chown(folder, user, user)
        self._lock = threading.RLock()
        self._version = 0
        self._objects: dict[tuple[str, str], Object] = {}  # by kind and name
        self._runs: dict[str, subprocess.Popen[bytes]] = {}
        self._watchers: list[tuple[str, queue.Queue[Object | None]]] = []
        self.created: list[Object] = []  # every object that was ever made, as it was asked for
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="kubernetes", daemon=True),
            threading.Thread(target=self._look, name="kubelet", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def master(self) -> str:
        """As Spark writes it."""
        return f"k8s://http://127.0.0.1:{self._server.server_address[1]}"

    def pods(self) -> list[Object]:
        """Those that there are."""
        with self._lock:
            found = (one for (kind, _), one in self._objects.items() if kind == "pods")
            return copy.deepcopy(list(found))

    def process(self, pod: str) -> int:
        """The process id of a pod that runs."""
        with self._lock:
            return self._runs[pod].pid

    def processes(self) -> set[int]:
        """Those of all pods that run."""
        with self._lock:
            return {run.pid for run in self._runs.values()}

    def stop(self) -> None:
        """Ends the pods, then the server."""
        self._stopping.set()
        with self._lock:
            for name in list(self._runs):
                self._end(name)
            for _, watcher in self._watchers:
                watcher.put(None)
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(timeout=20)

    # ---- the API ---------------------------------------------------------------------------------

    def create(self, kind: str, asked: Object) -> Object:
        with self._lock:
            self.created.append(copy.deepcopy(asked))
            metadata = asked.setdefault("metadata", {})
            metadata.setdefault("name", f"{metadata.get('generateName', 'o-')}{uuid.uuid4().hex}")
            metadata["uid"] = str(uuid.uuid4())
            metadata["creationTimestamp"] = _now()
            name = metadata["name"]
            self._objects[kind, name] = asked
            if kind == "pods":
                asked["status"] = {"phase": "Pending"}
                self._tell("ADDED", asked)
                self._run(asked)
            return copy.deepcopy(asked)

    def read(self, kind: str, name: str) -> Object | None:
        with self._lock:
            return copy.deepcopy(self._objects.get((kind, name)))

    def list(self, kind: str, selector: str) -> Object:
        with self._lock:
            items = [
                one for (of, _), one in self._objects.items() if of == kind and _has(one, selector)
            ]
            return {
                "kind": "List",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self._version)},
                "items": copy.deepcopy(items),
            }

    def delete(self, kind: str, name: str) -> bool:
        with self._lock:
            found = self._objects.pop((kind, name), None)
            if found is not None and kind == "pods":
                self._end(name)
                self._tell("DELETED", found)
            return found is not None

    def watch(self, selector: str) -> Iterator[Object]:
        """What happens to pods of these labels from now on, until the server stops."""
        events: queue.Queue[Object | None] = queue.Queue()
        with self._lock:
            self._watchers.append((selector, events))
        while (event := events.get()) is not None:
            yield event

    # ---- the node --------------------------------------------------------------------------------

    def _run(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        disk = self.folder / name
        disk.mkdir()
        account: dict[str, Any] = {}
        if self.user is not None:
            os.chown(disk, self.user, self.user)
            account = {"user": self.user, "group": self.user, "extra_groups": []}
        env = {one["name"]: _value(one, pod) for one in container.get("env", [])}
        with (disk / "log").open("wb") as log:
            self._runs[name] = start(
                _entry_point(container["args"], env, self._spark),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=disk,
                env={
                    "PATH": os.environ["PATH"],
                    **({"JAVA_HOME": java} if (java := os.environ.get("JAVA_HOME")) else {}),
                    "HOME": str(disk),
                    "SPARK_HOME": str(self._spark),
                    "SPARK_LOCAL_DIRS": str(disk),
                    "TMPDIR": str(disk),
                    "TZ": "UTC",
                    **{name: value for name, value in env.items() if name != "SPARK_LOCAL_DIRS"},
                },
                **account,
            )
        self._say(pod, "Running", {"running": {"startedAt": _now()}})

    def _look(self) -> None:
        while not self._stopping.wait(_POLL):
            with self._lock:
                for name, run in list(self._runs.items()):
                    if (code := run.poll()) is not None:
                        del self._runs[name]
                        state = {"terminated": {"exitCode": code, "finishedAt": _now()}}
                        self._say(self._objects["pods", name], _PHASES[code == 0], state)

    def _end(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is None:
            return
        run.terminate()
        try:
            run.wait(timeout=20)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait(timeout=20)

    def _say(self, pod: Object, phase: str, state: Object) -> None:
        container = pod["spec"]["containers"][0]
        pod["status"] = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "hostIP": "127.0.0.1",
            "startTime": _now(),
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": "running" in state,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        self._tell("MODIFIED", pod)

    def _tell(self, what: str, pod: Object) -> None:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        for selector, watcher in self._watchers:
            if _has(pod, selector):
                watcher.put({"type": what, "object": copy.deepcopy(pod)})


def _entry_point(args: list[str], env: dict[str, str], spark: Path) -> list[str]:
    """What the entry point of Spark's image makes of an executor's arguments and environment."""
    if args != ["executor"]:
        raise ValueError(f"a pod that is no executor: {args}")
    options = sorted((name, value) for name, value in env.items() if "SPARK_JAVA_OPT_" in name)
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
    return [
        str(java),
        *(value for _, value in options),
        f"-Xms{env['SPARK_EXECUTOR_MEMORY']}",
        f"-Xmx{env['SPARK_EXECUTOR_MEMORY']}",
        *("-cp", f"{spark}/jars/*"),
        EXECUTOR,
        *("--driver-url", env["SPARK_DRIVER_URL"]),
        *("--executor-id", env["SPARK_EXECUTOR_ID"]),
        *("--cores", env["SPARK_EXECUTOR_CORES"]),
        *("--app-id", env["SPARK_APPLICATION_ID"]),
        *("--hostname", env["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", env["SPARK_RESOURCE_PROFILE_ID"]),
        *("--podName", env["SPARK_EXECUTOR_POD_NAME"]),
    ]


def _value(variable: Object, pod: Object) -> str:
    if "value" in variable:
        return str(variable["value"])
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    known = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    return known.get(path, "")


def _has(one: Object, selector: str) -> bool:
    """Whether an object's labels are those of a selector; of its forms `name=value`,
    `name!=value`, `name` and `!name`."""
    own = one["metadata"].get("labels", {})

    def fits(part: str) -> bool:
        name, equals, value = part.partition("=")
        if not equals:
            return name[1:] not in own if name.startswith("!") else name in own
        if name.endswith("!"):
            return own.get(name[:-1]) != value
        return own.get(name) == value.removeprefix("=")

    return all(fits(part) for part in selector.split(",") if part)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _handler(cluster: Kubernetes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, name = self._asked()
            selector = self._selector()
            if name:
                self._found(cluster.read(kind, name))
            elif "true" in self._query().get("watch", []):
                # A client that would rather have a web socket is told to take this instead.
                self._answer({}) if "Upgrade" in self.headers else self._watch(selector)
            else:
                self._answer(cluster.list(kind, selector))

        def do_POST(self) -> None:
            kind, _ = self._asked()
            asked = self._body()
            self._answer(cluster.create(kind, asked), 201)

        def do_DELETE(self) -> None:
            kind, name = self._asked()
            self._body()
            names = [name] if name else self._names(kind)
            if not all([cluster.delete(kind, one) for one in names]):
                self._found(None)
            else:
                self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def _names(self, kind: str) -> list[str]:
            items = cluster.list(kind, self._selector())["items"]
            return [one["metadata"]["name"] for one in items]

        def _asked(self) -> tuple[str, str]:
            """`…/namespaces/NAMESPACE/KIND[/NAME]`."""
            parts = urlsplit(self.path).path.strip("/").split("/")
            after = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
            return after[0], after[1] if len(after) > 1 else ""

        def _query(self) -> dict[str, list[str]]:
            return parse_qs(urlsplit(self.path).query)

        def _selector(self) -> str:
            return ",".join(self._query().get("labelSelector", []))

        def _body(self) -> Any:
            length = int(self.headers.get("Content-Length", 0))
            return json.loads(self.rfile.read(length) or b"{}")

        def _found(self, one: Object | None) -> None:
            if one is None:
                missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}
                self._answer(missing, 404)
            else:
                self._answer(one)

        def _answer(self, one: Object, status: int = 200) -> None:
            text = json.dumps(one).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _watch(self, selector: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for event in cluster.watch(selector):
                    text = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *arguments: Any) -> None:
            with (cluster.folder / "requests.log").open("a") as log:
                log.write(f"{format % arguments}\n")

    return Handler
