"""A cluster of one machine: what manifests say of pods, carried out as processes whose ports are on loopback.

Only the manifests are read. Volumes become folders, names of pods and services become ports, and a kubelet keeps each
pod as its probes say. What a cluster brings along is given: the contents of volume claims, and the program of an image.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from tests.dtoss.serve.cluster.several import free_ports
from tests.dtoss.serve.processes.started import ROOT

IMAGE = {"dtoss": [sys.executable, "-c", "from pipelines.command.main import main; main()"]}
"""What the command of a container is on this machine."""
NAMESPACE = "here"


def items_of(folder):
    """All objects of a folder of manifests, as ``kubectl apply -f`` reads them."""
    return [item for file in sorted(Path(folder).glob("*.json")) for item in json.loads(file.read_text())["items"]]


@dataclass
class Pod:
    """A pod: what it runs, and on which port of this machine its own port is."""

    name: str
    service: str
    labels: dict
    spec: dict
    port: int
    arguments: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    process: subprocess.Popen | None = None
    starts: int = 0
    ready: bool = False
    failed_readiness: int = 0

    @property
    def container(self):
        (only,) = self.spec["containers"]
        return only

    def probe(self, which):
        """Whether a probe of the pod succeeds; the kubelet asks by the pod's address."""
        told = self.container[which]
        (port,) = [one["containerPort"] for one in self.container["ports"] if one["name"] == told["httpGet"]["port"]]
        assert port == self.container["ports"][0]["containerPort"]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=told.get("timeoutSeconds", 1))
        try:
            connection.request("GET", told["httpGet"]["path"])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Cluster:
    """Pods of a folder of manifests, resolved.

    `claims` are the folders that volume claims hold, `secrets` what a cluster has of its own.
    """

    def __init__(self, folder, home, claims=(), secrets=()):
        self.items = {(item["kind"], item["metadata"]["name"]): item for item in items_of(folder)}
        self.home, self.claims, self.secrets = Path(home), dict(claims), dict(secrets)
        sets = [item for (kind, _), item in self.items.items() if kind == "StatefulSet"]
        replicas = [(one, number) for one in sets for number in range(one["spec"]["replicas"])]
        self.pods = [
            Pod(
                f"{one['metadata']['name']}-{number}", one["spec"]["serviceName"],
                one["spec"]["template"]["metadata"]["labels"], one["spec"]["template"]["spec"], port,
            )
            for (one, number), port in zip(replicas, free_ports(len(replicas)), strict=True)
        ]  # fmt: skip
        for pod in self.pods:
            assert self.items["Service", pod.service]["spec"]["clusterIP"] == "None"
            self._resolve(pod)

    def _resolve(self, pod):
        """What a pod runs here: mounts become folders, variables and names what they stand for."""
        container = pod.container
        (inner,) = [one["containerPort"] for one in container["ports"]]
        mounts = {}
        for mount in container["volumeMounts"]:
            (volume,) = [one for one in pod.spec["volumes"] if one["name"] == mount["name"]]
            mounts[mount["mountPath"]] = self._folder(pod, volume)
        known = {}
        for source in container.get("envFrom", ()):
            name = source["secretRef"]["name"]
            assert name in self.secrets or source["secretRef"]["optional"]
            known |= self.secrets.get(name, {})
        known |= {variable["name"]: self._value(pod, variable) for variable in container["env"]}

        def here(text):
            for path, folder in mounts.items():
                text = re.sub(rf"{re.escape(path)}(?=/|$|\")", str(folder), text)
            for other in self.pods:
                address = self.items["Service", other.service]["spec"]["ports"][0]["port"]
                text = text.replace(f"{other.name}.{other.service}:{address}", f"127.0.0.1:{other.port}")
            return text

        for folder in mounts.values():
            if folder.is_relative_to(self.home):
                for file in folder.iterdir():
                    file.write_text(here(file.read_text()))
        words = [self._expanded(word, known) for word in [*container["command"], *container["args"]]]
        words = ["127.0.0.1" if word == "0.0.0.0" else str(pod.port) if word == str(inner) else word for word in words]
        pod.arguments, pod.env = [here(word) for word in words], known

    def _folder(self, pod, volume):
        if "persistentVolumeClaim" in volume:
            return Path(self.claims[volume["persistentVolumeClaim"]["claimName"]])
        folder = self.home / pod.name / volume["name"]
        folder.mkdir(parents=True)
        if "configMap" in volume:
            data = self.items["ConfigMap", volume["configMap"]["name"]]["data"]
        else:
            secret = self.items["Secret", volume["secret"]["secretName"]]
            data = {key: base64.b64decode(value).decode() for key, value in secret.get("data", {}).items()}
            data |= secret.get("stringData", {})
        for name, text in data.items():
            (folder / name).write_text(text)
        return folder

    def _value(self, pod, variable):
        if "value" in variable:
            return variable["value"]
        ((kind, source),) = variable["valueFrom"].items()
        if kind == "resourceFieldRef":
            return "1"
        return {"metadata.name": pod.name, "metadata.namespace": NAMESPACE}[source["fieldPath"]]

    def _expanded(self, word, known):
        """A word as the kubelet expands it: $(NAME) by the pod's variables, $$ is $."""
        return re.sub(r"\$\$|\$\((\w+)\)", lambda found: "$" if found[1] is None else known[found[1]], word)

    def endpoints(self, service):
        """The pods to which a service sends requests."""
        wanted = self.items["Service", service]["spec"]["selector"].items()
        return [pod for pod in self.pods if pod.ready and wanted <= pod.labels.items()]

    def secret(self, name, key):
        """A word of a Secret."""
        return self.items["Secret", name]["stringData"][key]


@contextmanager
def kubelet(cluster, hurry=4.0):
    """Keep the pods of a cluster, `hurry` times as often as their probes say."""
    ended = threading.Event()
    threads = [threading.Thread(target=_keep, args=(pod, ended, hurry), daemon=True) for pod in cluster.pods]
    for thread in threads:
        thread.start()
    try:
        yield SimpleNamespace(kill=kill)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)


def kill(pod):
    """Let all processes of a pod die."""
    os.killpg(pod.process.pid, signal.SIGKILL)


def _keep(pod, ended, hurry):
    """Start a pod, and start it anew whenever it ends or its liveness fails."""
    command = [*IMAGE[pod.arguments[0]], *pod.arguments[1:]]
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env = own | {"PYTHONPATH": str(ROOT)} | pod.env
    while not ended.is_set():
        pod.process = subprocess.Popen(
            command, env=env, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        pod.starts += 1
        if _begins(pod, ended, hurry):
            _watch(pod, ended, hurry)
        pod.ready = False
        if ended.is_set():
            pod.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                pod.process.wait(pod.spec["terminationGracePeriodSeconds"])
        with suppress(ProcessLookupError):
            kill(pod)
        pod.process.wait()


def _begins(pod, ended, hurry):
    told = pod.container["startupProbe"]
    for _ in range(int(told["failureThreshold"] * hurry)):
        if ended.is_set() or pod.process.poll() is not None:
            return False
        if pod.probe("startupProbe"):
            return True
        ended.wait(told["periodSeconds"] / hurry)
    return False


def _watch(pod, ended, hurry):
    probes = {which: pod.container[which] for which in ("readinessProbe", "livenessProbe")}
    due, failures = dict.fromkeys(probes, 0.0), dict.fromkeys(probes, 0)
    while not ended.is_set() and pod.process.poll() is None:
        for which, told in probes.items():
            if time.monotonic() < due[which]:
                continue
            good = pod.probe(which)
            due[which] = time.monotonic() + told["periodSeconds"] / hurry
            failures[which] = 0 if good else failures[which] + 1
            if which == "readinessProbe":
                pod.ready = good or (pod.ready and failures[which] < told["failureThreshold"])
                pod.failed_readiness += not good and pod.process.poll() is None
            elif failures[which] >= told["failureThreshold"]:
                return
        ended.wait(0.05)
