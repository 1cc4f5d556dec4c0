//! Laws that hold for every pod, however its containers fare: played by chance on the pretend runtime.

use super::pretend::{Machine, at};
use super::seen::{ProbeKind, State};
use super::{all_containers, is_terminal};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
enum Step {
    Exit(usize, i32),
    Pass(i64),
    LoseSandbox,
    BreakProbe(usize),
    Delete(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..5, prop_oneof![Just(0), Just(1), Just(137)]).prop_map(|(index, code)| Step::Exit(index, code)),
        4 => (1i64..40).prop_map(Step::Pass),
        1 => Just(Step::LoseSandbox),
        1 => (0usize..5).prop_map(Step::BreakProbe),
        1 => (0i64..20).prop_map(Step::Delete),
    ]
}

fn container(name: String, is_probed: bool, has_hooks: bool) -> Value {
    let mut container = json!({ "name": name });
    if is_probed {
        container["livenessProbe"] = json!({"periodSeconds": 3, "failureThreshold": 2});
        container["readinessProbe"] = json!({"periodSeconds": 2});
    }
    if has_hooks {
        let hook = json!({"exec": {"command": ["true"]}});
        container["lifecycle"] = json!({"postStart": hook, "preStop": hook});
    }
    container
}

fn pod_spec() -> impl Strategy<Value = Value> {
    let policy = prop_oneof![Just("Always"), Just("OnFailure"), Just("Never")];
    let flags = || proptest::collection::vec((any::<bool>(), any::<bool>()), 1..3);
    let inits = proptest::collection::vec(any::<bool>(), 0..3);
    (policy, flags(), inits).prop_map(|(policy, mains, inits)| {
        let mains = mains.into_iter().enumerate().map(|(n, (probe, hooks))| container(format!("c{n}"), probe, hooks));
        let inits = inits.into_iter().enumerate().map(|(n, is_sidecar)| match is_sidecar {
            true => json!({"name": format!("i{n}"), "restartPolicy": "Always"}),
            false => json!({"name": format!("i{n}")}),
        });
        let (mains, inits): (Vec<_>, Vec<_>) = (mains.collect(), inits.collect());
        let mut spec = json!({"restartPolicy": policy, "containers": mains, "initContainers": inits});
        spec["terminationGracePeriodSeconds"] = json!(10);
        spec
    })
}

/// Plays a step; what does not fit the moment is left out.
fn play(machine: &mut Machine, step: &Step) {
    let names: Vec<String> = all_containers(&machine.pod).map(|(_, container)| container.name.clone()).collect();
    match step {
        Step::Exit(index, code) => {
            if let Some(name) = names.get(*index).filter(|name| machine.is_running(name)) {
                machine.exit(name, *code);
            }
        }
        Step::Pass(seconds) => machine.pass(*seconds),
        Step::LoseSandbox => {
            if machine.seen.sandbox == super::seen::Sandbox::Ready {
                machine.lose_sandbox();
            }
        }
        Step::BreakProbe(index) => {
            if let Some(name) = names.get(*index) {
                machine.failing_probes.insert((name.clone(), ProbeKind::Liveness));
            }
        }
        Step::Delete(grace) => {
            let shortest = machine.pod.metadata.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            if !machine.is_removed && *grace <= shortest {
                machine.delete(*grace);
            }
        }
    }
}

fn restart_counts(machine: &Machine) -> Vec<i64> {
    let status = machine.status();
    let lists = ["containerStatuses", "initContainerStatuses"].map(|key| status[key].as_array().cloned());
    lists.into_iter().flatten().flatten().map(|status| status["restartCount"].as_i64().unwrap()).collect()
}

/// No main container runs in a sandbox where an init container before it has not ended well.
fn check_order(machine: &Machine) {
    let current = machine.seen.sandbox_number;
    let started = |name: &str| machine.container(name).attempt().is_some_and(|a| a.sandbox_number == current);
    let has_main = super::main_containers(&machine.pod).iter().any(|main| started(&main.name));
    for init in super::init_containers(&machine.pod).iter().filter(|_| has_main) {
        let seen = machine.container(&init.name);
        assert!(started(&init.name), "{} was skipped", init.name);
        if init.restart_policy.is_none() {
            assert!(matches!(&seen.state, State::Exited(exit) if exit.code == 0), "{} is not done", init.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // K-POD-1 K-POD-2 K-POD-DEL-1
    #[test]
    fn every_pod_converges_keeps_its_order_and_never_takes_an_end_back(
        spec in pod_spec(),
        is_stubborn in any::<bool>(),
        is_slow in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..14),
    ) {
        let is_never = spec["restartPolicy"] == "Never";
        let mut machine = Machine::new(spec);
        machine.is_slow = is_slow;
        if is_stubborn {
            machine.stubborn.insert("c0".to_owned());
        }
        machine.settle();
        for step in &steps {
            let (phase, counts, actions) = (machine.phase().to_owned(), restart_counts(&machine), machine.done.len());
            let was_terminal = is_terminal(&machine.pod);
            play(&mut machine, step);
            // `settle` has asserted that planning ends; planning again must then be empty.
            prop_assert!(machine.is_removed || machine.plan().actions.is_empty());
            check_order(&machine);
            for (before, after) in counts.into_iter().zip(restart_counts(&machine)) {
                prop_assert!(before <= after, "restart counts never fall");
            }
            if was_terminal {
                prop_assert_eq!(machine.phase(), phase);
                let starts = machine.done[actions..].iter().any(|done| done.starts_with("start"));
                prop_assert!(!starts, "nothing starts after the end");
            }
            if machine.is_removed {
                break;
            }
        }
        if is_never {
            let restarted = machine.pod.spec.as_ref().unwrap().containers.iter();
            let mut numbers = restarted.filter_map(|main| Some(machine.container(&main.name).attempt()?.number));
            prop_assert!(numbers.all(|number| number == 0), "Never never restarts");
        }
    }

    // K-POD-DEL-1 K-POD-DEL-2
    #[test]
    fn after_deletion_everything_ends_within_the_grace_and_four_seconds(
        spec in pod_spec(),
        steps in proptest::collection::vec(step(), 0..8),
        grace in 1i64..20,
        is_slow in any::<bool>(),
    ) {
        let mut machine = Machine::new(spec);
        machine.is_slow = is_slow;
        let names: Vec<String> = all_containers(&machine.pod).map(|(_, c)| c.name.clone()).collect();
        machine.stubborn.extend(names.iter().cloned());
        machine.slow_hooks.extend(names);
        for step in steps.iter().filter(|step| !matches!(step, Step::Delete(_))) {
            play(&mut machine, step);
        }
        machine.delete(grace);
        // Two seconds for a signal that came late, and two more for the sidecar that waited for it.
        machine.pass(grace + 4);
        prop_assert!(!machine.seen.is_anything_alive());
        prop_assert!(machine.is_removed, "{:?} {:?}", machine.done, machine.seen);
        prop_assert!(is_terminal(&machine.pod));
        prop_assert!(machine.now() >= at(0));
    }
}
