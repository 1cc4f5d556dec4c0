#!/usr/bin/env bash
# The main job, shown and checked: a cluster comes up in an empty home, kubectl works with it, and it goes away again.
set -euo pipefail
cd "$(dirname "$0")/.."

volley=${VOLLEY:-target/debug/volley}
scratch=$(mktemp -d)
export VOLLEY_HOME=$scratch/home KUBECONFIG=$scratch/home/kubeconfig
watcher=

tear_down() {
    local code=$?
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    "$volley" down || true
    if [ "$code" != 0 ]; then
        echo "the demo failed; the end of the log:" >&2
        tail -n 20 "$VOLLEY_HOME/volley.log" >&2 || true
    fi
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

# Fails unless the last command's output is what a user must see.
expect() {
    local wanted=$1 seen
    shift
    seen=$("$@")
    if [ "$seen" != "$wanted" ]; then
        printf 'expected %q from: %s\nseen     %q\n' "$wanted" "$*" "$seen" >&2
        exit 1
    fi
}

chapter "A cluster from nothing"
show "$volley" up --only cluster --listen 127.0.0.1:0
show "$volley" status
show kubectl get namespaces

chapter "Create and list"
show kubectl create namespace demo
show kubectl --namespace demo create configmap colours --from-literal=sky=blue
show kubectl --namespace demo apply -f - <<'YAML'
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  completions: 4
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example.org/train:1
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example.org/web:1
YAML
# The controllers make pods: two of the Job, two of the Deployment. Without a node they stay Pending.
tries=0
until [ "$(kubectl --namespace demo get pods --output name | wc -l)" = 4 ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "the controllers made no pods" >&2; exit 1; }
done
show kubectl --namespace demo get configmaps,jobs,deployments,pods

chapter "Watch, while somebody else writes"
seen=$scratch/watched
mkfifo "$seen"
kubectl --namespace demo get configmaps --watch-only --output=custom-columns=NAME:.metadata.name,SKY:.data.sky --no-headers >"$seen" &
watcher=$!
exec 3<"$seen"
# The watch shows every change from its start on, so writes go on until the first one is seen.
round=0
until read -r -t 0.2 line <&3; do
    round=$((round + 1))
    [ "$round" -lt 100 ] || { echo "the watch shows nothing" >&2; exit 1; }
    kubectl --namespace demo annotate configmap colours "round=$round" --overwrite >/dev/null
done
echo "the watch is open: $line"

chapter "Patch"
show kubectl --namespace demo patch configmap colours --patch '{"data":{"sky":"grey"}}'
show kubectl --namespace demo patch configmap colours --type merge --patch '{"data":{"sea":"green"}}'
show kubectl --namespace demo patch configmap colours --type json --patch '[{"op":"remove","path":"/data/sea"}]'
expect '{"sky":"grey"}' kubectl --namespace demo get configmap colours --output 'jsonpath={.data}'
until [[ $line == colours*grey ]]; do
    read -r -t 20 line <&3 || { echo "the watch missed the patch" >&2; exit 1; }
done
echo "the watch saw it: $line"

chapter "Delete"
show kubectl --namespace demo delete configmap colours --timeout=60s
show kubectl --namespace demo delete deployment web --cascade=foreground --timeout=60s
show kubectl delete namespace demo --timeout=60s
expect "" kubectl get namespace demo --ignore-not-found

chapter "Stop, start again: what was acknowledged is there"
show kubectl create configmap kept --from-literal=a=b
show "$volley" down
show "$volley" up --only cluster --listen 127.0.0.1:0
expect b kubectl get configmap kept --output 'jsonpath={.data.a}'

chapter "The demo passed"
