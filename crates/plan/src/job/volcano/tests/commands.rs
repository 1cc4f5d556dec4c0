//! Commands: suspend, resume and the rest.

use super::world::Cluster;
use super::{gang, policy, with};
use crate::control::Action;
use serde_json::json;
use volley_api::volcano::{BATCH, BUS};

// CMD-1, CMD-10, SM-25, SM-26, SM-50
#[test]
fn a_job_is_suspended_and_resumed() {
    let mut cluster = Cluster::running(gang());
    for _ in 0..4 {
        cluster.command("AbortJob");
        cluster.go_on();
        assert_eq!((cluster.phase(), cluster.pods().len()), ("Aborted", 0));
        assert_eq!(cluster.world.names("Command"), Vec::<String>::new());
        cluster.command("ResumeJob");
        cluster.go_on();
        assert_eq!((cluster.phase(), cluster.count("running"), cluster.count("retryCount")), ("Running", 3, 0));
    }
    assert_eq!(cluster.phases[1..7], ["Running", "Aborting", "Aborted", "Restarting", "Pending", "Running"]);
    assert_eq!(cluster.events("CommandIssued").len(), 8);
    let mut strict = Cluster::strict(with(json!({"maxRetry": 2})));
    strict.start();
    for action in ["AbortJob", "ResumeJob", "AbortJob", "ResumeJob"] {
        strict.command(action);
        strict.go_on();
    }
    assert_eq!(strict.phase(), "Failed", "upstream counts a resume as a retry");
}

// SM-26
#[test]
fn a_job_that_has_not_started_can_be_suspended() {
    let mut cluster = Cluster::new(gang());
    cluster.settle();
    cluster.command("AbortJob");
    cluster.go_on();
    assert_eq!(cluster.phase(), "Aborted");
    cluster.command("ResumeJob");
    cluster.go_on();
    assert_eq!(cluster.phase(), "Running");
}

// CMD-1
#[test]
fn commands_do_what_they_say() {
    for (action, expected) in [
        ("RestartJob", "Restarting"),
        ("TerminateJob", "Terminating"),
        ("CompleteJob", "Completing"),
        ("SyncJob", "Running"),
        ("Novel", "Running"),
    ] {
        let mut cluster = Cluster::running(gang());
        cluster.command(action);
        cluster.step();
        assert_eq!(cluster.phase(), expected, "{action}");
        assert_eq!(cluster.world.names("Command"), Vec::<String>::new(), "{action}");
        assert_eq!(cluster.events("CommandIssued").len(), 1, "{action}");
    }
}

// CMD-2
#[test]
fn commands_for_others_are_left_alone() {
    let mut cluster = Cluster::running(gang());
    for (kind, name, uid) in [("Queue", "j", "u"), ("Job", "other", "u"), ("Job", "j", "another")] {
        let target = json!({"apiVersion": BATCH, "kind": kind, "name": name, "uid": uid});
        cluster.world.add(json!({"apiVersion": BUS, "kind": "Command", "metadata": {"generateName": "c-"}, "action": "AbortJob", "target": target}));
    }
    assert!(cluster.plan().is_empty());
}

// CMD-10
#[test]
fn a_command_is_carried_out_once_whatever_happens() {
    let mut cluster = Cluster::running(gang());
    cluster.command("RestartJob");
    let plan = cluster.plan();
    assert!(matches!(plan.actions[..], [Action::PatchStatus { .. }, Action::Delete { .. }, ..]));
    cluster.apply_part(&plan, 1);
    assert_eq!(cluster.world.names("Command").len(), 1, "the controller died before it deleted the command");
    cluster.go_on();
    assert_eq!(cluster.world.names("Command"), Vec::<String>::new());
    assert_eq!((cluster.phase(), cluster.count("retryCount"), cluster.count("version")), ("Running", 1, 1));
}

// CMD-11
#[test]
fn a_restart_of_nothing_in_particular_does_nothing() {
    let mut cluster = Cluster::running(gang());
    cluster.command("RestartPod");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.count("retryCount")), ("Running", 0));
    let mut strict = Cluster::strict(gang());
    strict.start();
    strict.command("RestartTask");
    strict.go_on();
    assert_eq!((strict.phase(), strict.count("retryCount")), ("Running", 1));
}

// SM-24
#[test]
fn an_abort_is_heeded_in_the_middle_of_a_restart() {
    let aborted = |mut cluster: Cluster| {
        cluster.start();
        cluster.end("j-worker-1", 1);
        cluster.step();
        assert_eq!(cluster.phase(), "Restarting");
        cluster.command("AbortJob");
        cluster.go_on();
        cluster.phase().to_owned()
    };
    assert_eq!(aborted(Cluster::new(policy("PodFailed", "RestartJob"))), "Aborted");
    assert_eq!(aborted(Cluster::strict(policy("PodFailed", "RestartJob"))), "Running");
}

// SM-36
#[test]
fn a_finished_job_takes_no_orders() {
    let mut cluster = Cluster::running(gang());
    cluster.pods().iter().for_each(|name| cluster.end(name, 0));
    cluster.go_on();
    for action in ["RestartJob", "ResumeJob", "AbortJob"] {
        cluster.command(action);
        cluster.go_on();
        assert_eq!((cluster.phase(), cluster.count("succeeded")), ("Completed", 3));
    }
    assert_eq!(cluster.world.names("Command"), Vec::<String>::new());
}
