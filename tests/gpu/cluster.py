"""A cluster in a home of its own, driven by the program and by plain HTTP; only the standard library is used."""

import http.client
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

VOLLEY = os.environ["VOLLEY"]
DEADLINE_SECONDS = 180
PODS = "/api/v1/namespaces/default/pods"


def wait(what, condition):
    """The condition's first truthy value."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise SystemExit(f"FAILED: waited {DEADLINE_SECONDS} s for this and it did not come: {what}")
        time.sleep(0.05)


class Refused(Exception):
    pass


class Cluster:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="gpu-proof-")
        self.environment = {**os.environ, "VOLLEY_HOME": self.home}
        self.address = None

    def volley(self, *words):
        """Runs the program as a user would, shows what it says, and tells how long it took."""
        print(f"\n$ volley {shlex.join(words)}")
        began = time.monotonic()
        ended = subprocess.run([VOLLEY, *words], env=self.environment, stdout=subprocess.PIPE, text=True)
        print(ended.stdout, end="")
        print(f"  ({(time.monotonic() - began) * 1000:.0f} ms)")
        if ended.returncode:
            raise SystemExit(f"FAILED: volley {shlex.join(words)} ended with {ended.returncode}")
        return ended.stdout

    def ask(self, *words):
        """The same, silently and as a value."""
        answer = subprocess.run([VOLLEY, *words, "-o", "json"], env=self.environment, stdout=subprocess.PIPE, check=True)
        return json.loads(answer.stdout)

    def up(self, *flags):
        self.volley("up", "--only", "cluster", "--listen", "127.0.0.1:0", *flags)
        parts = self.ask("status")["parts"]
        self.address = next(part["address"] for part in parts if part["name"] == "cluster").split("//")[1]
        node = wait("a node that is ready", self.ready_node)
        wait("the account that pods run as", lambda: self.exists("/api/v1/namespaces/default/serviceaccounts/default"))
        return node

    def kill(self):
        """As the kernel does it when memory runs out."""
        pid = self.ask("status")["pid"]
        print(f"\n$ kill -9 {pid}")
        os.kill(pid, signal.SIGKILL)
        wait("the end of the process", lambda: not os.path.exists(f"/proc/{pid}") or is_zombie(pid))

    def remove(self):
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read().decode()
        connection.close()
        if response.status >= 300:
            raise Refused(f"{method} {path}: {response.status} {answer}")
        return answer

    def get(self, path):
        return json.loads(self.call("GET", path))

    def exists(self, path):
        try:
            return self.get(path)
        except Refused:
            return None

    def ready_node(self):
        for node in self.get("/api/v1/nodes")["items"]:
            conditions = node.get("status", {}).get("conditions", [])
            if any(found["type"] == "Ready" and found["status"] == "True" for found in conditions):
                return node
        return None

    def run(self, name, command, gpus=0, image="host", environment=None):
        """Makes a pod that runs the command once."""
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        container = {
            "name": "main",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "resources": resources,
            "env": [{"name": key, "value": value} for key, value in (environment or {}).items()],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "containers": [container],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self.call("POST", PODS, pod)
        print(f"pod {name}: image {image}, {gpus or 'no'} GPU")

    def pod(self, name):
        return self.get(f"{PODS}/{name}")

    def phase(self, name):
        return self.pod(name).get("status", {}).get("phase")

    def log(self, name):
        return self.call("GET", f"{PODS}/{name}/log")

    def wait_phase(self, name, *phases):
        def reached():
            phase = self.phase(name)
            is_over = phase in ("Succeeded", "Failed")
            if is_over and phase not in phases:
                raise SystemExit(f"FAILED: pod {name} is {phase}; its log:\n{self.log(name)}")
            return phase if phase in phases else None

        try:
            return wait(f"pod {name} to be {' or '.join(phases)}", reached)
        except SystemExit:
            print(json.dumps(self.pod(name).get("status"), indent=1))
            raise

    def waiting_reason(self, name):
        """Why the scheduler has not placed the pod, once it speaks of GPUs; a node that just came up has other reasons."""
        def reason():
            for condition in self.pod(name).get("status", {}).get("conditions", []):
                message = condition.get("message", "")
                if condition["type"] == "PodScheduled" and "nvidia.com/gpu" in message:
                    return message
            return None

        return wait(f"pod {name} to say that it waits for GPUs", reason)

    def delete(self, *names):
        for name in names:
            self.call("DELETE", f"{PODS}/{name}")
        for name in names:
            wait(f"pod {name} to be gone", lambda name=name: not self.exists(f"{PODS}/{name}"))


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
