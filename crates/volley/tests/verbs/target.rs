//! Which cluster a verb speaks to.

use crate::{World, job};
use std::fs;

#[test]
fn without_any_cluster_the_user_is_told_where_was_looked() {
    let world = World::empty();
    let told = world.refusal(&["vcjob", "list"]);
    assert!(told.starts_with("error: no cluster is known: volley does not run in `"), "{told}");
    assert!(told.contains("/.kube/config` is not there\nhint: `volley up` starts one"), "{told}");
}

#[test]
fn a_cluster_that_does_not_answer_is_named_with_the_file_it_is_from() {
    let world = World::empty();
    let config = world.path("config");
    let text = "\
apiVersion: v1
kind: Config
current-context: gone
clusters: [{name: gone, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: gone, context: {cluster: gone, user: me}}]
users: [{name: me, user: {token: x}}]
";
    fs::write(&config, text).unwrap();
    let told = world.refusal(&["vcjob", "list", "--kubeconfig", &config]);
    assert!(told.contains("the cluster at http://127.0.0.1:1 does not answer: Connection refused"), "{told}");
    assert!(told.contains(&format!("hint: the address is from `{config}`")), "{told}");
    let told = world.refusal(&["vcjob", "list", "--kubeconfig", &config, "--context", "work"]);
    assert!(told.contains("hint: it has gone; --context chooses one"), "{told}");
    let told = world.refusal(&["vcjob", "list", "--kubeconfig", &world.path("absent")]);
    assert!(told.contains("/absent` cannot be used: No such file"), "{told}");
}

#[test]
fn an_option_goes_before_the_variable_and_that_before_the_volley_that_runs_here() {
    let world = World::start(&["--no-node"]);
    world.apply(&job("train", 1));
    assert!(world.volley(&["vcjob", "list"]).contains("\ntrain "));
    let own = world.home().join("kubeconfig").display().to_string();
    let mut other = world.command(&["vcjob", "list"]);
    other.env("KUBECONFIG", world.path("absent"));
    assert_ne!(crate::finish(other, "").code, 0, "the variable goes before what runs here");
    let mut named = world.command(&["vcjob", "list", "-k", &own]);
    named.env("KUBECONFIG", world.path("absent"));
    assert!(crate::finish(named, "").stdout.contains("\ntrain "));

    // Another home, in which nothing runs: the user's own file is next.
    let stranger = World::empty();
    fs::create_dir(stranger.folder.path().join(".kube")).unwrap();
    let text = fs::read_to_string(own).unwrap().replacen("cluster: volley", "namespace: team\n    cluster: volley", 1);
    fs::write(stranger.path(".kube/config"), text).unwrap();
    assert_eq!(stranger.volley(&["vcjob", "list"]), "No resources found\n", "the namespace is the context's");
    assert!(stranger.volley(&["vcjob", "list", "-n", "default"]).contains("\ntrain "));
}

#[test]
fn a_cluster_without_the_definitions_is_told_from_one_without_the_job() {
    let world = World::start(&["--no-node"]);
    let told = world.refusal(&["vcjob", "view", "train"]);
    assert!(told.contains("jobs.batch.volcano.sh \"train\" not found"), "{told}");
    world.kubectl(&["delete", "crd", "jobs.batch.volcano.sh"]);
    let refused = || Some(world.run(&["vcjob", "list"])).filter(|output| output.code == 1);
    let told = crate::eventually("the kind is not served", refused).stderr;
    assert!(told.contains("does not serve /apis/batch.volcano.sh/v1alpha1/"), "{told}");
    let told = world.refusal(&["logs", "train"]);
    assert!(told.contains("there is no job or pod `train` in namespace `default`"), "{told}");
    let told = world.refusal(&["logs", "service/train"]);
    assert!(told.contains("`service` is no kind with logs\nhint: there are vcjob, pytorchjob, "), "{told}");
}
