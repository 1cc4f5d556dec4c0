//! MPIJob: a launcher that reaches its workers through `kubectl exec`, by a hostfile and scripts on a volume (PT 22).

use super::owned::{changes, own};
use super::round::Round;
use crate::control::pods;
use crate::job::template::{push, put_variable};
use serde_json::{Value, json};
use volley_api::kube::{at, items_mut, text};
use volley_api::kubeflow::job::Replica;
use volley_api::kubeflow::kinds::Kind;

const CONFIG_VOLUME: &str = "mpi-job-config";
const CONFIG_PATH: &str = "/etc/mpi";
const KUBECTL_VOLUME: &str = "mpi-job-kubectl";
const KUBECTL_PATH: &str = "/opt/kube";

/// Makes the objects that the launcher needs, and keeps hosts and rights as the workers are.
pub fn sync(round: &mut Round) {
    if round.job.row.kind != Kind::Mpi {
        return;
    }
    for wanted in helpers(round) {
        let same =
            |seen: &&Value| seen["kind"] == wanted["kind"] && seen["metadata"]["name"] == wanted["metadata"]["name"];
        let Some(existing) = own(round, round.seen.helpers.iter().find(same)) else {
            round.create(wanted);
            continue;
        };
        let parts = ["data", "rules"].into_iter();
        let parts = parts.filter_map(|part| Some((part.to_owned(), wanted.get(part)?.clone()))).collect();
        changes(Some(existing), parts).into_iter().for_each(|patch| round.patch(existing, patch));
    }
}

fn helpers(round: &Round) -> Vec<Value> {
    let launcher = round.job.pod_name("Launcher", 0);
    let owned = |name: &str| {
        let mut metadata = round.head.owned(name);
        metadata["labels"] = json!({ "app": round.job.name });
        metadata
    };
    let group = "rbac.authorization.k8s.io";
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers(round), "verbs": ["create"]},
    ]);
    let account = account(round);
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": round.job.namespace});
    let config = format!("{}-config", round.job.name);
    let own_account = (account == launcher)
        .then(|| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": owned(&launcher)}));
    let others = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned(&config), "data": config_data(round)}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": owned(&launcher), "rules": rules}),
        json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": owned(&launcher),
            "subjects": [subject], "roleRef": {"apiGroup": group, "kind": "Role", "name": launcher}}),
    ];
    own_account.into_iter().chain(others).collect()
}

/// Who the launcher is: the account that its template names, which is then the user's own, or one of the job.
fn account(round: &Round) -> String {
    let named = round.job.leader().map_or("", |launcher| text(&launcher.template, "spec.serviceAccountName"));
    if named.is_empty() { round.job.pod_name("Launcher", 0) } else { named.to_owned() }
}

fn workers(round: &Round) -> Vec<String> {
    let count = round.job.replica("Worker").map_or(0, |worker| worker.count);
    (0..count).map(|index| round.job.pod_name("Worker", index)).collect()
}

/// A launcher with a GPU computes too, so it is the first host.
fn launcher_computes(round: &Round) -> bool {
    let containers = round.job.leader().map(Replica::containers).unwrap_or_default();
    let limits = containers.iter().filter_map(|container| at(container, "resources.limits")?.as_object());
    limits.flatten().any(|(name, _)| name.contains("gpu"))
}

fn config_data(round: &Round) -> Value {
    let slots = round.job.slots_per_worker;
    let launcher = launcher_computes(round).then(|| round.job.pod_name("Launcher", 0));
    let hosts = launcher.clone().into_iter().chain(workers(round));
    let hostfile: String = hosts.map(|host| format!("{host} slots={slots}\n")).collect();
    let is_running = |name: &String| {
        let mut own = round.members.of_task("worker").map(|(_, pod)| pod);
        own.any(|pod| pod.metadata.name.as_ref() == Some(name) && pods::phase(pod) == "Running")
    };
    let running = launcher.into_iter().chain(workers(round).into_iter().filter(is_running));
    let lines: String = running.map(|host| format!("\necho {host}:{slots}")).collect();
    let container = round.job.main_container.as_deref().filter(|name| !name.is_empty());
    let container = container.map(|name| format!(" --container {name}")).unwrap_or_default();
    let exec = format!(
        "#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{KUBECTL_PATH}/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c \"$*\""
    );
    json!({ "hostfile": hostfile, "kubexec.sh": exec, "discover_hosts.sh": format!("#!/bin/sh{lines}") })
}

/// Gives a pod of the job its volumes, and the launcher what it needs to reach the workers.
pub fn equip(round: &Round, replica: &Replica, pod: &mut Value) {
    let is_launcher = replica.type_ == "Launcher";
    let script = |key: &str| json!({ "key": key, "path": key, "mode": 0o555 });
    let mut items = vec![script("kubexec.sh")];
    if is_launcher {
        items.push(json!({ "key": "hostfile", "path": "hostfile", "mode": 0o444 }));
        items.push(script("discover_hosts.sh"));
        equip_launcher(round, pod);
    }
    let config = format!("{}-config", round.job.name);
    let volume = json!({ "name": CONFIG_VOLUME, "configMap": { "name": config, "items": items } });
    push(&mut pod["spec"], "volumes", volume);
    let Some(container) = items_mut(pod, "spec.containers").next() else {
        return;
    };
    push(container, "volumeMounts", json!({ "name": CONFIG_VOLUME, "mountPath": CONFIG_PATH }));
    let has_command = container.get("command").and_then(Value::as_array).is_some_and(|words| !words.is_empty());
    if !is_launcher && !has_command {
        container["command"] = json!(["sleep"]);
        container["args"] = json!(["365d"]);
    }
}

fn equip_launcher(round: &Round, pod: &mut Value) {
    let mount = json!({ "name": KUBECTL_VOLUME, "mountPath": KUBECTL_PATH });
    let amounts = json!({ "cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi" });
    let delivery = json!({
        "name": "kubectl-delivery", "image": round.settings.kubectl_image, "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "TARGET_DIR", "value": KUBECTL_PATH}, {"name": "NAMESPACE", "value": round.job.namespace}],
        "volumeMounts": [mount, {"name": CONFIG_VOLUME, "mountPath": CONFIG_PATH}],
        "resources": {"limits": amounts, "requests": amounts},
    });
    let spec = &mut pod["spec"];
    spec["serviceAccountName"] = json!(account(round));
    push(spec, "initContainers", delivery);
    push(spec, "volumes", json!({ "name": KUBECTL_VOLUME, "emptyDir": {} }));
    let computes = launcher_computes(round);
    let Some(container) = items_mut(pod, "spec.containers").next() else {
        return;
    };
    push(container, "volumeMounts", mount);
    let agent = format!("{CONFIG_PATH}/kubexec.sh");
    let hostfile = format!("{CONFIG_PATH}/hostfile");
    let mut variables = vec![("OMPI_MCA_plm_rsh_agent", agent.as_str()), ("OMPI_MCA_orte_default_hostfile", &hostfile)];
    for (name, value) in [("I_MPI_HYDRA_BOOTSTRAP", "rsh"), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", &agent)] {
        if !items_mut(container, "env").any(|known| text(known, "name") == name) {
            variables.push((name, value));
        }
    }
    if !computes {
        // A launcher that asks for no GPU shall not find one.
        variables.extend([("NVIDIA_VISIBLE_DEVICES", ""), ("NVIDIA_DRIVER_CAPABILITIES", "")]);
    }
    for (name, value) in variables {
        put_variable(container, json!({ "name": name, "value": value }));
    }
}
