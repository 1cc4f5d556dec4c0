#!/usr/bin/env bash
# The main job, shown and checked: a cluster comes up in an empty home, runs pods, counts GPUs, trains a model on three pods
# together, and goes away without a trace. `demo.sh --stay` (`make demo`) leaves a last one running, with a live job, and ends by
# printing the link to its page.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=${VOLLEY:-target/debug/volley}
stays=${1:-}
scratch=$(mktemp -d)
export VOLLEY_HOME=$scratch/home KUBECONFIG=$scratch/home/kubeconfig
watcher=
bridge=

tear_down() {
    local code=$?
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    if [ "$code" != 0 ]; then
        echo "the demo failed; the end of the log:" >&2
        tail -n 20 "$VOLLEY_HOME/volley.log" >&2 || true
    fi
    "$volley" down 2>/dev/null || true
    rm -rf "$scratch"
    exit "$code"
}
trap tear_down EXIT

# Says what comes, shows the command, runs it, and tells how long it took.
show() {
    local began ended
    printf '\n$ %s\n' "$*"
    began=$(date +%s%N)
    "$@"
    ended=$(date +%s%N)
    printf '  (%d ms)\n' $(((ended - began) / 1000000))
}

chapter() {
    printf '\n== %s\n' "$*"
}

# Fails unless a command's output is what a user must see.
expect() {
    local wanted=$1 seen
    shift
    seen=$("$@")
    if [ "$seen" != "$wanted" ]; then
        printf 'expected %q from: %s\nseen     %q\n' "$wanted" "$*" "$seen" >&2
        exit 1
    fi
}

# Asks again until the answer is the wanted one; for what nothing can be watched for.
wait_for() {
    local wanted=$1 tries=0
    shift
    until [ "$("$@" 2>/dev/null)" = "$wanted" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { printf 'waited in vain for %q from: %s\n' "$wanted" "$*" >&2; exit 1; }
    done
}

# An image of busybox alone, as `docker save` would write it: one layer, a configuration, a list.
build_image() {
    local folder=$scratch/image layer
    mkdir -p "$folder/root/bin"
    cp "$(command -v busybox)" "$folder/root/bin/busybox"
    for applet in sh echo cat hostname sleep ls; do ln -s busybox "$folder/root/bin/$applet"; done
    tar --create --file "$folder/layer.tar" --directory "$folder/root" --owner=0 --group=0 .
    layer=$(sha256sum "$folder/layer.tar" | cut -d ' ' -f 1)
    printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')" "$layer" >"$folder/config.json"
    printf '[{"Config":"config.json","RepoTags":["demo/busybox:1"],"Layers":["layer.tar"]}]' >"$folder/manifest.json"
    tar --create --file "$1" --directory "$folder" manifest.json config.json layer.tar
}

# Processes of this home, by its path in their command or their root; `kind pid` a line.
own_processes() {
    local folder
    for folder in /proc/[0-9]*; do
        [ "$folder" != "/proc/$$" ] && [ "$folder" != "/proc/$BASHPID" ] || continue
        if tr '\0' '\n' 2>/dev/null <"$folder/cmdline" | grep -qF "$VOLLEY_HOME" ||
            { [ "$(readlink "$folder/ns/mnt" 2>/dev/null)" != "$(readlink /proc/self/ns/mnt)" ] &&
                awk '$5 == "/"' "$folder/mountinfo" 2>/dev/null | grep -qF "$VOLLEY_HOME"; }; then
            echo "process ${folder#/proc/}"
        fi
    done
}

# Everything of this home on the machine: processes, their cgroups, mounts, and the bridge of its pods.
own_traces() {
    local kind pid line
    while read -r kind pid; do
        echo "$kind $pid"
        while IFS=: read -r _ _ line; do
            [ "$line" = / ] || grep -qF ":$line" /proc/self/cgroup || echo "cgroup $line"
        done <"/proc/$pid/cgroup"
    done < <(own_processes) | sort -u
    awk -v home="$VOLLEY_HOME" 'index($0, home) { print "mount " $5 }' /proc/self/mountinfo
    [ -z "$bridge" ] || [ ! -e "/sys/class/net/$bridge" ] || echo "link $bridge"
}

start_volley() {
    show "$volley" up --listen 127.0.0.1:0 --server-listen 127.0.0.1:0 --fake-gpus 4 --image-map 'ncai-wbl-registry.kr.ncr.ntruss.com/*=host'
}

chapter "A cluster from nothing, with four pretended GPUs"
start_volley
show "$volley" status
show kubectl get nodes

chapter "A pod on the machine's own environment: image \`host\`"
show kubectl run plain --image=host --restart=Never -- sh -c 'echo "I see $(ls /usr/bin | wc -l) programs of this machine"; sleep 1000'
show kubectl wait --for=condition=Ready pod/plain --timeout=60s
show kubectl logs plain
show kubectl exec plain -- sh -c 'echo "this stays in the pod" > /etc/demo && cat /etc/demo'
[ ! -e /etc/demo ] || { echo "the pod wrote on the machine" >&2; exit 1; }

chapter "A pod from an image, built just now and loaded without a registry or a daemon"
build_image "$scratch/busybox.tar"
show "$volley" image load "$scratch/busybox.tar"
show "$volley" image ls
show kubectl run oci --image=demo/busybox:1 --restart=Never -- sh -c 'echo "I am $(hostname), and all my programs are:"; ls /bin; sleep 1000'
show kubectl wait --for=condition=Ready pod/oci --timeout=60s
show kubectl logs oci
show kubectl exec oci -- echo "hello from inside"
show kubectl get pods --output wide

chapter "GPUs are counted: four jobs have one each, the fifth waits and says why"
gpu_job() {
    kubectl apply --filename - <<YAML
apiVersion: batch/v1
kind: Job
metadata: {name: train-$1}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: host
        command: [sh, -c, "echo training on GPU \$CUDA_VISIBLE_DEVICES; $2"]
        resources: {limits: {nvidia.com/gpu: 1}}
YAML
}
for number in 1 2 3 4; do
    gpu_job "$number" 'until [ -e /tmp/enough ]; do sleep 0.1; done'
done
phase_of() { kubectl get pods --selector "job-name=$1" --output 'jsonpath={.items[*].status.phase}'; }
pod_of() { kubectl get pods --selector "job-name=$1" --output 'jsonpath={.items[0].metadata.name}'; }
for number in 1 2 3 4; do wait_for Running phase_of "train-$number"; done
gpu_job 5 true
show "$volley" gpus
why_not() { kubectl get events --field-selector reason=FailedScheduling --output 'jsonpath={.items[-1:].message}'; }
tries=0
until [[ $(why_not) == *"Insufficient nvidia.com/gpu"* ]]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "the fifth job does not say why it waits" >&2; exit 1; }
done
show kubectl get events --field-selector reason=FailedScheduling --output 'jsonpath={.items[-1:].message}'
echo
expect Pending phase_of train-5
show kubectl exec "$(pod_of train-3)" -- touch /tmp/enough
show kubectl wait --for=condition=complete job/train-5 --timeout=60s
show kubectl logs job/train-5

chapter "A job of two ranks starts whole or not at all, and says why it waits"
show kubectl apply --filename - <<'YAML'
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: pair}
spec:
  minAvailable: 2
  tasks:
  - name: rank
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: main, image: host, command: [echo, together], resources: {limits: {nvidia.com/gpu: 1}}}
YAML
reason() { kubectl get podgroups --output 'jsonpath={.items[*].status.conditions[?(@.status=="True")].message}'; }
tries=0
until [[ $(reason) == *"needs 2 nvidia.com/gpu together, 1 free"* ]]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "the job of two ranks does not say why it waits" >&2; exit 1; }
done
show "$volley" why vcjob/pair
show kubectl exec "$(pod_of train-4)" -- touch /tmp/enough
show kubectl wait --for=jsonpath='{.status.state.phase}'=Completed vcjob/pair --timeout=60s

chapter "Watch, while somebody else writes"
show kubectl create configmap colours --from-literal=sky=blue
seen=$scratch/watched
mkfifo "$seen"
kubectl get configmaps --watch-only --output=custom-columns=NAME:.metadata.name,SKY:.data.sky --no-headers >"$seen" &
watcher=$!
exec 3<"$seen"
# The watch shows every change from its start on, so writes go on until the first one is seen.
round=0
until read -r -t 0.2 line <&3; do
    round=$((round + 1))
    [ "$round" -lt 100 ] || { echo "the watch shows nothing" >&2; exit 1; }
    kubectl annotate configmap colours "round=$round" --overwrite >/dev/null
done
show kubectl patch configmap colours --patch '{"data":{"sky":"grey"}}'
until [[ $line == colours*grey ]]; do
    read -r -t 20 line <&3 || { echo "the watch missed the patch" >&2; exit 1; }
done
echo "the watch saw it: $line"
kill "$watcher"
watcher=

chapter "Volley dies; the pods go on, and the next one takes them over"
container_of() { kubectl get pod "$1" --output 'jsonpath={.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}'; }
before=$(container_of oci)
pid=$("$volley" status --output json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
show kill -9 "$pid"
start_volley
expect "$before" container_of oci
show kubectl exec oci -- echo "still here"
expect grey kubectl get configmap colours --output 'jsonpath={.data.sky}'

chapter "A published tutorial's training: torchrun on one master and two workers, their data and checkpoints on a volume"
example=examples/pytorchjob-mnist
show kubectl create configmap mnist --from-file=$example/mnist_distributed.py --from-file=$example/make_data.py
show kubectl apply --filename $example/volume.yaml
show kubectl wait --for=condition=Ready pod/volume --timeout=300s
show kubectl apply --filename $example/pytorchjob.yaml
show "$volley" logs --follow pytorchjob/mnist
show kubectl wait --for=condition=Succeeded pytorchjob/mnist --timeout=300s
show kubectl get pytorchjob mnist
last_line() { kubectl logs "$1" | tail -n 1; }
ranks=(mnist-master-0 mnist-worker-0 mnist-worker-1)
for rank in 0 1 2; do
    expect "rank $rank has finished" last_line "${ranks[rank]}"
    kubectl logs "${ranks[rank]}" >"$scratch/rank-$rank"
done
printf '\nthe three ranks side by side:\n'
pr --merge --omit-header --expand-tabs --width=132 "$scratch"/rank-[012]
show kubectl cp volume:/mnt/data/checkpoints/mnist.pt "$scratch/mnist.pt"
show ls -l "$scratch/mnist.pt"

chapter "A launch queue from a published template: three ranks start together, and their lines and curves are one run"
example=examples/wandb-volcano
show kubectl create namespace wandb
show "$volley" queue create volcano --file $example/queue.yaml
# The tutorial's last step: the same config with one more worker.
{ echo kubernetes: && sed '1,/^config:/d; /name: worker/,/template/s/replicas: 1/replicas: 2/; s/minAvailable: 1/minAvailable: 3/' $example/queue.yaml; } >"$scratch/workers.yaml"
show "$volley" launch --queue volcano --docker-image host --project demo --name three-ranks --follow \
    --resource-args "$scratch/workers.yaml" --entry-point "$PWD/.cache/wandb/bin/python $PWD/$example/launched.py" | tee "$scratch/launched"
for rank in 0 1 2; do
    grep -q "rank $rank of 3, the first is" "$scratch/launched" || { echo "rank $rank said nothing" >&2; exit 1; }
done
show "$volley" run ls --project demo
run=$("$volley" run ls --project demo --output name)
show "$volley" run show "$run" --output json >"$scratch/run"
grep -q '"loss": 0.05' "$scratch/run" || { cat "$scratch/run"; echo "the run has no curve" >&2; exit 1; }

chapter "Down, and the machine is as it was"
address=$(kubectl get pod oci --output 'jsonpath={.status.podIP}')
bridge=$(ip -o route get "$address" | sed -n 's/.* dev \([^ ]*\).*/\1/p')
own_traces >"$scratch/traces"
for kind in process cgroup link; do
    printf '  %-8s %s\n' "$kind" "$(grep -c "^$kind " "$scratch/traces" || true)"
done
grep -q '^process ' "$scratch/traces" || { echo "no process was found, so the check would prove nothing" >&2; exit 1; }
show "$volley" down
left=$(own_traces)
[ -z "$left" ] || { printf 'left on the machine:\n%s\n' "$left" >&2; exit 1; }
while read -r kind name; do
    if [ "$kind" = cgroup ] && find /sys/fs/cgroup -type d -path "*$name" 2>/dev/null | grep -q .; then
        echo "left on the machine: cgroup $name" >&2
        exit 1
    fi
done <"$scratch/traces"
echo "no process, mount, cgroup or link is left"
show "$volley" down --purge
[ ! -e "$VOLLEY_HOME" ] || { echo "the home is left" >&2; exit 1; }

chapter "The page, with a live job of three ranks"
if [ "$stays" = --stay ]; then
    # A home of its own, so that what is looked at is not in anybody's way; the last demo's makes room.
    export VOLLEY_HOME=${VOLLEY_DEMO_HOME:-$HOME/.volley-demo}
    "$volley" down --purge >/dev/null 2>&1 || true
fi
export KUBECONFIG=$VOLLEY_HOME/kubeconfig
start_volley
show kubectl create namespace wandb
show "$volley" queue create volcano --file $example/queue.yaml
# For half an hour: long enough to look around, and it can be stopped on the page.
show "$volley" launch --queue volcano --docker-image host --project demo --name live-ranks --resource-args "$scratch/workers.yaml" \
    --entry-point "$PWD/.cache/wandb/bin/python $PWD/$example/launched.py 3600 0.5"
state_of() { "$volley" run ls --project demo --output json | sed -n 's/.*"state": *"\([a-z]*\)".*/\1/p' | head -n 1; }
wait_for running state_of
link=$("$volley" user link)
if [ "$stays" != --stay ]; then
    # The link opens the page, and signs in once.
    signed_in() { curl --silent --output /dev/null --write-out '%{http_code}' "$link"; }
    code=$(signed_in)
    [[ $code == 30? ]] || { echo "the link answers $code" >&2; exit 1; }
    show "$volley" down --purge
fi

chapter "The demo passed"
if [ "$stays" = --stay ]; then
    trap - EXIT
    rm -rf "$scratch"
    printf '\nA job of three ranks runs now: its gang map, its lines and its curve are on the page.\n\n    %s\n\n' "$link"
    printf 'The link signs you in, once. When you have seen enough:\n\n    VOLLEY_HOME=%s %s down --purge\n' "$VOLLEY_HOME" "$volley"
fi
