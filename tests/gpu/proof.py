"""The steps of `tests/gpu-proof.sh`, in the order in which a reader wants to see them."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

import image
from cluster import Cluster, wait

IS_REAL = "--fake" not in sys.argv[1:]
PROGRAM = open(os.path.join(os.path.dirname(__file__), "work.py")).read()
IMAGE = "gpu-proof.example/tools:1"
BOARDS = "/proc/driver/nvidia/gpus"
SMI = shutil.which("nvidia-smi") or "nvidia-smi"
checks = 0


def chapter(text):
    print(f"\n== {text}")


def check(fact, is_true, seen=""):
    global checks
    if not is_true:
        raise SystemExit(f"FAILED: {fact}; seen: {seen}")
    checks += 1
    print(f"ok: {fact}")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.strip()


def machine_gpus():
    """UUIDs of the machine's GPUs, which with --fake is one that is not there."""
    return re.findall(r"UUID: (GPU-[^)]+)", output(SMI, "-L")) if IS_REAL else ["GPU-fake-0"]


def work(cluster, name, gpus=1, seconds=0):
    environment = {"REAL_GPU": "1" if IS_REAL else "0", "HOLD_SECONDS": str(seconds)}
    cluster.run(name, [sys.executable, "-c", PROGRAM], gpus=gpus, environment=environment)


def report(cluster, name):
    """What the pod told last, after it has ended well."""
    cluster.wait_phase(name, "Succeeded")
    return json.loads(cluster.log(name).strip().splitlines()[-1])


def times(cluster, name, told):
    state = cluster.pod(name)["status"]["containerStatuses"][0]["state"]["terminated"]
    clock = lambda moment: time.strftime("%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1000):03d}"
    print(f"{name}: {clock(told['began'])} to {clock(told['ended'])} by its own clock, "
          f"{state['startedAt']} to {state['finishedAt']} in its status, on {told['visible']}")


def holders(cluster):
    rows = cluster.ask("gpus")
    return [holder for row in rows for holder in row["heldBy"]]


def machine_state():
    """What a cluster must leave as it was: mounts, network interfaces, cgroups."""
    mounts = sorted(line.split()[4] for line in open("/proc/self/mountinfo"))
    # Kernel threads and sessions come and go in other groups; ours are made below one of these.
    groups = glob.glob("/sys/fs/cgroup/*volley*") + glob.glob("/sys/fs/cgroup/*/*volley*")
    return {"mounts": mounts, "links": sorted(os.listdir("/sys/class/net")), "groups": sorted(groups)}


def processes_of(home):
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            words = open(f"{folder}/cmdline").read() + open(f"{folder}/environ").read()
        except OSError:
            continue
        if home in words and int(folder[6:]) != os.getpid():
            found.append(words.split("\0")[0])
    return found


def show_machine():
    chapter("The machine")
    print(f"kernel {os.uname().release}, {os.cpu_count()} processors, {output(os.environ['VOLLEY'], '--version')}")
    if IS_REAL:
        print(output(SMI, "--query-gpu=index,name,uuid,driver_version,memory.total", "--format=csv"))
        print("nodes:", " ".join(sorted(glob.glob("/dev/nvidia*"))))
        print("boards:", " ".join(os.listdir(BOARDS)) if os.path.isdir(BOARDS) else "not listed")
        libcuda = [line.split()[-1] for line in output("/sbin/ldconfig", "-p").splitlines() if "libcuda.so.1" in line]
        print("libcuda by the loader's cache:", " ".join(libcuda) or "none", "| CDI:", glob.glob("/etc/cdi/*") or "none")
        print(f"nvidia-smi: {SMI} | LD_LIBRARY_PATH: {os.environ.get('LD_LIBRARY_PATH', 'not set')}")


def found(cluster, node, gpus):
    chapter("The GPU is found and counted")
    cluster.volley("gpus", "-o", "wide")
    cluster.volley("status")
    rows = cluster.ask("gpus")
    check("`volley gpus` lists what nvidia-smi lists", [row["uuid"] for row in rows] == gpus, rows)
    capacity = node["status"]["capacity"].get("nvidia.com/gpu")
    check(f"the node has nvidia.com/gpu: {len(gpus)}", capacity == str(len(gpus)), capacity)
    labels = {key: value for key, value in node["metadata"]["labels"].items() if "gpu" in key}
    print("labels:", " ".join(f"{key}={value}" for key, value in labels.items()))
    check("its labels count them", labels.get("nvidia.com/gpu.count") == str(len(gpus)), labels)


def computes(cluster, gpus):
    chapter("A pod sees exactly its GPU and computes on it")
    work(cluster, "compute")
    told = report(cluster, "compute")
    print(json.dumps(told))
    check("it was told one GPU of the machine", told["visible"] in gpus, told)
    if IS_REAL:
        cluster.run("look", ["/bin/sh", "-c", f"{SMI} -L; ls -d /dev/nvidia*; ls {BOARDS} || true"], gpus=1)
        cluster.wait_phase("look", "Succeeded")
        log = cluster.log("look")
        print(log, end="")
        seen = re.findall(r"UUID: (GPU-[^)]+)", log)
        check("nvidia-smi shows it exactly one GPU of the machine", len(seen) == 1 and seen[0] in gpus, log)
        check("it has one GPU's node", len(re.findall(r"^/dev/nvidia\d+$", log, re.MULTILINE)) == 1, log)
        check("PyTorch counts one device", told["devices"] == 1, told)
        check("a matrix product on it equals the processor's", told["error"] < 1e-9, told)
        print(f"8192×8192×8192 in bf16: {told['tflops']} TFLOP/s on {told['name']}, torch {told['torch']}")
        cluster.delete("look")
    cluster.delete("compute")


def sees_none(cluster):
    chapter("A pod that asks for none sees none")
    work(cluster, "none", gpus=0)
    told = report(cluster, "none")
    print(json.dumps(told))
    check("it is told that there is none", told["visible"] == "void", told)
    if IS_REAL:
        # Counted before nvidia-smi runs: its helper makes itself a folder for nodes, which it then may not make.
        command = (f"ls -d /dev/nvidia* | wc -l; ls {BOARDS} | wc -l; ls -l /proc/*/fd | grep nvidia | wc -l; "
                   f"{SMI} -L; echo smi=$?; ls -lR /dev/nvidia*")
        cluster.run("blind", ["/bin/sh", "-c", command])
        cluster.wait_phase("blind", "Succeeded")
        log = cluster.log("blind")
        print(log, end="")
        check("nvidia-smi fails in it", "smi=0" not in log and "UUID" not in log, log)
        counts = re.findall(r"^\d+$", log, re.MULTILINE)[:3]
        check("it has no node, no board, and no open file of the driver", counts == ["0", "0", "0"], log)
        check("PyTorch finds no device", told["devices"] == 0, told)
        cluster.delete("blind")
    cluster.delete("none")


def one_after_the_other(cluster, gpus):
    chapter("Pods that together ask for more than there is run one after the other")
    names = ["first", "second"]
    work(cluster, "first", gpus=len(gpus), seconds=4)
    cluster.wait_phase("first", "Running")
    work(cluster, "second", gpus=len(gpus), seconds=2)
    reason = cluster.waiting_reason("second")
    print(f"second waits: {reason}")
    check("the second waits", cluster.phase("second") == "Pending", cluster.phase("second"))
    cluster.volley("gpus")
    check("only the first holds any", set(holders(cluster)) == {"default/first/main"}, holders(cluster))
    told = {name: report(cluster, name) for name in names}
    for name in names:
        times(cluster, name, told[name])
    check("the second began after the first had ended", told["second"]["began"] >= told["first"]["ended"], told)
    print(f"from the first's end to the second's begin: {told['second']['began'] - told['first']['ended']:.2f} s")
    cluster.delete(*names)


def too_many(cluster, gpus):
    chapter("A pod that asks for more than there is stays Pending, and says why")
    wanted = len(gpus) + 1
    work(cluster, "greedy", gpus=wanted)
    reason = cluster.waiting_reason("greedy")
    print(f"greedy waits: {reason}")
    check("the reason has numbers and the resource", re.search(r"\d.*nvidia\.com/gpu", reason), reason)
    work(cluster, "modest")
    report(cluster, "modest")
    check("it waits still while others come and go", cluster.phase("greedy") == "Pending", cluster.phase("greedy"))
    cluster.delete("greedy", "modest")


def survives_death(cluster, gpus, flags):
    chapter("A grant survives the death of volley")
    work(cluster, "holder", gpus=len(gpus), seconds=600)
    cluster.wait_phase("holder", "Running")
    wait("a first sign of life", lambda: "beat" in cluster.log("holder"))
    before = cluster.pod("holder")["status"]["containerStatuses"][0]
    cluster.kill()
    cluster.up(*flags)
    after = wait("the holder's status", lambda: cluster.pod("holder")["status"].get("containerStatuses"))[0]
    same = before["containerID"] == after["containerID"] and after["restartCount"] == 0
    check("the pod's container is the same, not a new one", same, after)
    beats = cluster.log("holder").count("beat")
    wait("more signs of life", lambda: cluster.log("holder").count("beat") > beats)
    check("its log goes on", True)
    check("it holds what it held", set(holders(cluster)) == {"default/holder/main"}, holders(cluster))
    work(cluster, "heir", seconds=0)
    print(f"heir waits: {cluster.waiting_reason('heir')}")
    check("another pod waits for it", cluster.phase("heir") == "Pending", cluster.phase("heir"))
    cluster.delete("holder")
    told = report(cluster, "heir")
    check("and runs once it is gone", told["visible"] in gpus, told)
    cluster.delete("heir")


def image_without_driver(cluster):
    chapter("An image that knows nothing of NVIDIA gets the driver's files")
    archive = os.path.join(cluster.home, "tools.tar")
    image.write(archive, IMAGE)
    print(f"an image of a shell, ls and the loader: {os.path.getsize(archive) >> 10} KiB")
    cluster.volley("image", "load", archive)
    os.remove(archive)
    look = "echo visible=$NVIDIA_VISIBLE_DEVICES; ls /dev"
    if IS_REAL:
        # The loader says on stderr when it cannot find what it is to load first.
        look += "; nvidia-smi -L && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
        look += "; LD_PRELOAD=libcuda.so.1 ls /usr/local/nvidia/lib64 2>&1"
    cluster.run("packed", ["/bin/sh", "-c", look], gpus=1, image=IMAGE)
    cluster.wait_phase("packed", "Succeeded")
    log = cluster.log("packed")
    print(log, end="")
    check("the grant wins over the image's wish for all GPUs", "visible=GPU-" in log, log)
    if IS_REAL:
        check("nvidia-smi runs in it and shows one GPU", log.count("UUID: GPU-") == 1, log)
        check("its loader finds libcuda", "libcuda.so.1" in log and "ERROR" not in log, log)
    look = "echo visible=$NVIDIA_VISIBLE_DEVICES; ls /dev; ls /usr/bin /usr/local || true"
    cluster.run("packed-none", ["/bin/sh", "-c", look], image=IMAGE)
    cluster.wait_phase("packed-none", "Succeeded")
    log = cluster.log("packed-none")
    check("without a grant it has none of it", "visible=void" in log and "nvidia" not in log, log)
    cluster.delete("packed", "packed-none")


def side_by_side(cluster, gpus):
    chapter("With --gpu-slices 2 a GPU is shared by two")
    flags = ["--gpu-slices", "2", *fake_flags()]
    cluster.volley("down")
    # The node tells its new number once it has looked at the machine again.
    cluster.up(*flags)
    amount = lambda: cluster.ready_node()["status"]["allocatable"]["nvidia.com/gpu"] == str(2 * len(gpus))
    wait(f"the node to offer {2 * len(gpus)}", amount)
    check(f"the node offers nvidia.com/gpu: {2 * len(gpus)}", True)
    names = ["left", "right"]
    for name in names:
        work(cluster, name, gpus=len(gpus), seconds=6)
    for name in names:
        cluster.wait_phase(name, "Running")
    work(cluster, "third")
    print(f"third waits: {cluster.waiting_reason('third')}")
    cluster.volley("gpus")
    told = {name: report(cluster, name) for name in names}
    for name in names:
        times(cluster, name, told[name])
    overlap = min(one["ended"] for one in told.values()) - max(one["began"] for one in told.values())
    check(f"the two ran at the same time, for {overlap:.1f} s", overlap > 0, told)
    check("on the same devices", told["left"]["visible"] == told["right"]["visible"], told)
    if IS_REAL:
        print("TFLOP/s beside each other:", told["left"]["tflops"], told["right"]["tflops"])
    report(cluster, "third")
    check("the third ran when one was done", True)
    cluster.delete("third", *names)


def clean(cluster, before):
    chapter("Nothing is left")
    cluster.volley("down", "--purge", "--yes")
    wait("all processes to be gone", lambda: not processes_of(cluster.home))
    check("no process of it is left", True)
    check("its home is gone", not os.path.exists(cluster.home), cluster.home)
    after = machine_state()
    for kind, was in before.items():
        check(f"{kind} are as before ({len(was)})", after[kind] == was, set(after[kind]) ^ set(was))
    if IS_REAL:
        using = output(SMI, "--query-compute-apps=pid", "--format=csv,noheader")
        check("no process uses the GPU", not re.findall(r"^\d+$", using, re.MULTILINE), using)


def fake_flags():
    return [] if IS_REAL else ["--fake-gpus", "1"]


def main():
    if IS_REAL and not shutil.which("nvidia-smi"):
        raise SystemExit("nvidia-smi is not here, so there is no NVIDIA GPU to prove anything on; --fake pretends one")
    show_machine()
    gpus, before, cluster = machine_gpus(), machine_state(), Cluster()
    try:
        chapter("One command")
        node = cluster.up(*fake_flags())
        found(cluster, node, gpus)
        computes(cluster, gpus)
        sees_none(cluster)
        one_after_the_other(cluster, gpus)
        too_many(cluster, gpus)
        survives_death(cluster, gpus, fake_flags())
        image_without_driver(cluster)
        side_by_side(cluster, gpus)
        clean(cluster, before)
    except BaseException:
        log = os.path.join(cluster.home, "volley.log")
        if os.path.exists(log):
            print("the end of the log:", *open(log).read().splitlines()[-30:], sep="\n")
        subprocess.run([os.environ["VOLLEY"], "down"], env=cluster.environment)
        cluster.remove()
        raise
    chapter(f"The proof holds: {checks} checks passed" + ("" if IS_REAL else ", with a pretended GPU"))


main()
