//! Which kinds upstream's own controllers hold on a cluster, so that ours stand aside for them.
//!
//! A table says how each is recognised: a Deployment by its label or image, or a Lease that somebody keeps renewing.
//! `operator::aside` watches both and asks `held` after every change.

use k8s_openapi::api::apps::v1::Deployment;
use std::collections::{BTreeMap, BTreeSet};

/// By `kind.group`, or by `scheduler/NAME`: who holds it, as a sentence for people.
pub type Held = BTreeMap<String, String>;

/// The key of a scheduler that takes pods with this `schedulerName`.
pub fn scheduler(name: &str) -> String {
    format!("scheduler/{name}")
}

/// A Lease that somebody renews.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    pub namespace: String,
    pub name: String,
    pub holder: String,
}

/// One of upstream's programs.
#[derive(Debug)]
struct Upstream {
    name: &'static str,
    /// A label of its Deployment.
    label: (&'static str, &'static str),
    /// The last part of its image's name.
    image: &'static str,
    lease: &'static str,
    /// The option that chooses among its parts.
    option: Choice,
    /// What it holds, by the word for it in that option.
    parts: &'static [(&'static str, &'static str)],
}

/// How a program is told which parts to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// `--controllers=a,-b,*`: words with a sign; a star is all that are not named.
    Signed(&'static str),
    /// `--enable-scheme=A --enable-scheme=B`: those that are named in any case, or all if none is.
    Listed(&'static str),
    /// `--scheduler-name=A`: the names that it answers to.
    Names(&'static str, &'static str),
    None,
}

const UPSTREAM: &[Upstream] = &[
    Upstream {
        name: "Volcano's controller manager",
        label: ("app", "volcano-controller"),
        image: "vc-controller-manager",
        lease: "vc-controller-manager",
        option: Choice::Signed("controllers"),
        parts: &[
            ("job-controller", "Job.batch.volcano.sh"),
            ("job-controller", "Command.bus.volcano.sh"),
            ("cronjob-controller", "CronJob.batch.volcano.sh"),
            ("pg-controller", "PodGroup.scheduling.volcano.sh"),
            ("queue-controller", "Queue.scheduling.volcano.sh"),
        ],
    },
    Upstream {
        name: "Volcano's scheduler",
        label: ("app", "volcano-scheduler"),
        image: "vc-scheduler",
        lease: "volcano",
        option: Choice::Names("scheduler-name", "volcano"),
        parts: &[],
    },
    Upstream {
        name: "Kubeflow's training operator",
        label: ("control-plane", "kubeflow-training-operator"),
        image: "training-operator",
        lease: "1ca428e5.training-operator.kubeflow.org",
        option: Choice::Listed("enable-scheme"),
        parts: &[
            ("pytorchjob", "PyTorchJob.kubeflow.org"),
            ("tfjob", "TFJob.kubeflow.org"),
            ("mpijob", "MPIJob.kubeflow.org"),
            ("xgboostjob", "XGBoostJob.kubeflow.org"),
            ("paddlejob", "PaddleJob.kubeflow.org"),
            ("jaxjob", "JAXJob.kubeflow.org"),
        ],
    },
    Upstream {
        name: "Kubeflow's MPI operator",
        label: ("app", "mpi-operator"),
        image: "mpi-operator",
        lease: "mpi-operator",
        option: Choice::None,
        parts: &[("mpijob", "MPIJob.kubeflow.org")],
    },
];

/// The Leases to look at.
pub fn lease_names() -> impl Iterator<Item = &'static str> {
    UPSTREAM.iter().map(|upstream| upstream.lease)
}

/// Whether a Deployment is one of upstream's.
pub fn is_upstream(deployment: &Deployment) -> bool {
    UPSTREAM.iter().any(|upstream| upstream.is(deployment))
}

/// What is held, given all Deployments of upstream's and the Leases that are being renewed.
pub fn held(deployments: &[Deployment], renewed: &[Renewed]) -> Held {
    let mut held = Held::new();
    for upstream in UPSTREAM {
        let its: Vec<_> = deployments.iter().filter(|deployment| upstream.is(deployment)).collect();
        for deployment in &its {
            if pods(deployment).1 > 0 {
                upstream.hold(&mut held, deployment);
            }
        }
        for lease in renewed.iter().filter(|lease| lease.name == upstream.lease) {
            let beside = its.iter().find(|deployment| text(&deployment.metadata.namespace) == lease.namespace);
            match beside {
                // Its pods run, whatever their probes say. Without pods, the Lease is only what they left behind.
                Some(deployment) if pods(deployment).0 > 0 => upstream.hold(&mut held, deployment),
                Some(_) => {}
                None => upstream.hold_by_lease(&mut held, lease),
            }
        }
    }
    held
}

/// How many pods there are, and how many of them are available.
fn pods(deployment: &Deployment) -> (i32, i32) {
    let status = deployment.status.as_ref();
    let count = |found: Option<Option<i32>>| found.flatten().unwrap_or(0);
    (count(status.map(|status| status.replicas)), count(status.map(|status| status.available_replicas)))
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

impl Upstream {
    fn is(&self, deployment: &Deployment) -> bool {
        let (key, value) = self.label;
        let has_label = deployment.metadata.labels.iter().flatten().any(|(name, text)| name == key && text == value);
        let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let mut images = spec.into_iter().flat_map(|spec| &spec.containers).map(|container| text(&container.image));
        has_label || images.any(|image| image_name(image) == self.image)
    }

    fn hold(&self, held: &mut Held, deployment: &Deployment) {
        let (namespace, name) = (text(&deployment.metadata.namespace), text(&deployment.metadata.name));
        let remedy = format!("run `kubectl --namespace {namespace} scale deployment {name} --replicas=0`");
        let place = format!("Deployment {namespace}/{name}");
        for key in self.keys(&arguments(deployment)) {
            let part = match self.option {
                Choice::Signed(option) => self.word(&key).map(|word| format!(", or give it `--{option}=*,-{word}`")),
                Choice::Listed(option) => Some(format!(", or leave it out of its `--{option}` options")),
                Choice::Names(..) | Choice::None => None,
            };
            let sentence = self.sentence(&key, &place, &format!("{remedy}{}", part.unwrap_or_default()));
            held.insert(key, sentence);
        }
    }

    fn hold_by_lease(&self, held: &mut Held, lease: &Renewed) {
        let place = format!("`{}` renews the Lease {}/{}", lease.holder, lease.namespace, lease.name);
        for key in self.keys(&[]) {
            // A Deployment says more, since it can be scaled down.
            held.entry(key.clone()).or_insert_with(|| self.sentence(&key, &place, "stop that program"));
        }
    }

    fn sentence(&self, key: &str, place: &str, remedy: &str) -> String {
        let what = match key.split_once('/') {
            Some((_, scheduler)) => format!("pods of the scheduler `{scheduler}`"),
            None => key.to_owned(),
        };
        format!("{what}: left to {} ({place}); to have Volley do it, {remedy}", self.name)
    }

    fn word(&self, key: &str) -> Option<&'static str> {
        self.parts.iter().find(|(_, its)| *its == key).map(|(word, _)| *word)
    }

    /// What it holds with these arguments.
    fn keys(&self, arguments: &[String]) -> Vec<String> {
        let is_on: Box<dyn Fn(&str) -> bool> = match self.option {
            Choice::None => Box::new(|_| true),
            Choice::Names(option, usual) => {
                let given = values(arguments, option);
                let names = if given.is_empty() { vec![usual.to_owned()] } else { given };
                return names.iter().map(|name| scheduler(name)).collect();
            }
            Choice::Listed(option) => {
                let listed: BTreeSet<_> =
                    values(arguments, option).iter().map(|word| word.to_ascii_lowercase()).collect();
                Box::new(move |word| listed.is_empty() || listed.contains(word))
            }
            Choice::Signed(option) => {
                let signed: Vec<String> = values(arguments, option)
                    .iter()
                    .flat_map(|list| list.split(','))
                    .map(|word| word.trim().to_owned())
                    .collect();
                Box::new(move |word| is_chosen(&signed, word))
            }
        };
        self.parts.iter().filter(|(word, _)| is_on(word)).map(|(_, key)| (*key).to_owned()).collect()
    }
}

/// Volcano's reading of `--controllers`: a name that stands there decides, else a star does.
fn is_chosen(signed: &[String], word: &str) -> bool {
    let named = signed.iter().find_map(|given| match given.strip_prefix('-') {
        Some(without) => (without == word).then_some(false),
        None => (given.strip_prefix('+').unwrap_or(given) == word).then_some(true),
    });
    named.unwrap_or_else(|| signed.is_empty() || signed.iter().any(|given| given == "*"))
}

/// `registry.k8s.io/volcanosh/vc-scheduler:v1.10@sha256:…` is `vc-scheduler`.
fn image_name(image: &str) -> &str {
    let path = image.split('@').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

fn arguments(deployment: &Deployment) -> Vec<String> {
    let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|container| container.command.iter().chain(&container.args).flatten().cloned()).collect()
}

/// The values of an option, given as `--option=value` or `--option value`, with one dash or two.
fn values(arguments: &[String], option: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        match name.split_once('=') {
            Some((name, value)) if name == option => values.push(value.to_owned()),
            None if name == option => values.extend(words.next().cloned()),
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn deployment(label: Value, image: &str, arguments: &[&str], status: Value) -> Deployment {
        let container = json!({ "name": "main", "image": image, "args": arguments });
        serde_json::from_value(json!({
            "metadata": { "namespace": "up", "name": "stream", "labels": label },
            "spec": { "selector": {}, "template": { "spec": { "containers": [container] } } },
            "status": status,
        }))
        .unwrap()
    }

    fn running(image: &str, arguments: &[&str]) -> Deployment {
        deployment(json!({}), image, arguments, json!({ "replicas": 1, "availableReplicas": 1 }))
    }

    fn keys(deployments: &[Deployment], renewed: &[Renewed]) -> Vec<String> {
        held(deployments, renewed).into_keys().collect()
    }

    fn lease(name: &str) -> Renewed {
        Renewed { namespace: "up".to_owned(), name: name.to_owned(), holder: "pod_uid".to_owned() }
    }

    const VOLCANO: [&str; 5] = [
        "Command.bus.volcano.sh", "CronJob.batch.volcano.sh", "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh",
        "Queue.scheduling.volcano.sh",
    ];

    #[test]
    fn a_cluster_without_upstream_leaves_everything_to_us() {
        assert_eq!(held(&[running("nginx:1", &[])], &[lease("kube-scheduler")]), Held::new());
    }

    #[test]
    fn a_deployment_is_known_by_its_image_or_its_label() {
        let image = running("docker.io/volcanosh/vc-controller-manager:v1.12.1@sha256:ab", &[]);
        assert_eq!(keys(&[image], &[]), VOLCANO);
        let label = json!({ "app": "volcano-controller" });
        let labelled =
            deployment(label, "mirror:5000/own-build", &[], json!({ "replicas": 1, "availableReplicas": 1 }));
        assert_eq!(keys(&[labelled], &[]), VOLCANO);
    }

    #[test]
    fn one_without_available_pods_holds_nothing() {
        for status in [json!({}), json!({ "replicas": 0 }), json!({ "replicas": 1, "unavailableReplicas": 1 })] {
            let idle = deployment(json!({}), "vc-controller-manager", &[], status);
            assert_eq!(keys(&[idle], &[]), [""; 0]);
        }
    }

    #[test]
    fn a_lease_that_is_renewed_counts_unless_its_pods_are_gone() {
        let lease = lease("vc-controller-manager");
        assert_eq!(keys(&[], std::slice::from_ref(&lease)), VOLCANO);
        let idle = |replicas: i32| deployment(json!({}), "vc-controller-manager", &[], json!({ "replicas": replicas }));
        assert_eq!(keys(&[idle(1)], std::slice::from_ref(&lease)), VOLCANO);
        assert_eq!(keys(&[idle(0)], &[lease]), [""; 0]);
    }

    #[test]
    fn arguments_say_which_controllers_volcano_runs() {
        let with = |option: &str| keys(&[running("vc-controller-manager", &["--logtostderr", option])], &[]);
        assert_eq!(with("--controllers=*"), VOLCANO);
        assert_eq!(with("--controllers=*,-sharding-controller,-hyperNode-controller"), VOLCANO);
        assert_eq!(with("--controllers=+queue-controller,pg-controller"), VOLCANO[3..]);
        let without_jobs = with("--controllers=*,-job-controller");
        assert_eq!(without_jobs, ["CronJob.batch.volcano.sh", VOLCANO[3], VOLCANO[4]]);
        // As upstream reads it: names that are only taken away leave nothing.
        assert_eq!(with("--controllers=-job-controller"), [""; 0]);
    }

    #[test]
    fn arguments_say_which_jobs_the_training_operator_runs() {
        let with = |arguments: &[&str]| keys(&[running("kubeflow/training-operator:v1-9", arguments)], &[]);
        assert_eq!(with(&[]).len(), 6);
        assert_eq!(with(&["--enable-scheme=TFJob"]), ["TFJob.kubeflow.org"]);
        let two = with(&["-enable-scheme", "pytorchjob", "--enable-scheme=mpijob", "--leader-elect"]);
        assert_eq!(two, ["MPIJob.kubeflow.org", "PyTorchJob.kubeflow.org"]);
    }

    #[test]
    fn a_scheduler_holds_the_names_it_answers_to() {
        assert_eq!(keys(&[running("vc-scheduler", &[])], &[]), ["scheduler/volcano"]);
        assert_eq!(keys(&[running("vc-scheduler", &["--scheduler-name=batch"])], &[]), ["scheduler/batch"]);
    }

    #[test]
    fn the_sentence_says_who_where_and_what_to_do() {
        let operator = running("kubeflow/training-operator", &["--enable-scheme=tfjob"]);
        assert_eq!(
            held(&[operator], &[])["TFJob.kubeflow.org"],
            "TFJob.kubeflow.org: left to Kubeflow's training operator (Deployment up/stream); to have Volley do it, run \
             `kubectl --namespace up scale deployment stream --replicas=0`, or leave it out of its `--enable-scheme` options"
        );
        let volcano = running("vc-controller-manager", &[]);
        assert!(
            held(&[volcano], &[])["Job.batch.volcano.sh"].ends_with("or give it `--controllers=*,-job-controller`")
        );
        assert_eq!(
            held(&[], &[lease("volcano")])["scheduler/volcano"],
            "pods of the scheduler `volcano`: left to Volcano's scheduler (`pod_uid` renews the Lease up/volcano); to have \
             Volley do it, stop that program"
        );
    }
}
