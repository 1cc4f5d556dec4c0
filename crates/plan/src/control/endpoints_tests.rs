//! Services and the endpoints they get, on a pretend server.

use super::*;
use crate::control::world::World;
use proptest::prelude::*;
use serde_json::{Value, json};

fn world(spec: Value) -> World {
    let mut world = World::default();
    let mut service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "s", "uid": "s", "labels": {"l": "1"}},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "web", "protocol": "TCP"}]}});
    json_patch::merge(&mut service["spec"], &spec);
    world.add(service);
    world
}

fn add_pod(world: &mut World, number: usize, port: i32) -> String {
    world.add(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number:03}"), "labels": {"app": "a"}},
        "spec": {"hostname": format!("h{number}"), "subdomain": "s",
            "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]},
        "status": {"podIP": format!("10.0.{}.{}", number / 250, number % 250)}}))
}

fn planned(world: &World) -> Plan {
    let endpoints = world.list::<Endpoints>();
    let observed = Observed {
        service: &world.get("s"),
        pods: &world.list::<Pod>(),
        slices: &world.list::<EndpointSlice>(),
        endpoints: endpoints.first(),
    };
    plan(&observed)
}

fn slices(world: &World) -> Vec<&Value> {
    world.objects.iter().filter(|((kind, _), _)| kind == "EndpointSlice").map(|(_, object)| object).collect()
}

// K-SVC-2
#[test]
fn a_service_without_pods_has_one_empty_slice() {
    let mut world = world(json!({}));
    world.settle(planned);
    assert_eq!(slices(&world).len(), 1);
    let slice = slices(&world)[0];
    assert_eq!(slice["metadata"]["generateName"], "s-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"l": "1", "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "s");
    assert_eq!(slice["endpoints"], json!([]));
    assert_eq!(world.raw("Endpoints", "s")["subsets"], Value::Null);
}

// K-SVC-2
#[test]
fn an_endpoint_says_who_and_how_it_is() {
    let mut world = world(json!({}));
    let pod = add_pod(&mut world, 1, 8080);
    let uid = world.raw("Pod", &pod)["metadata"]["uid"].clone();
    let target = json!({"kind": "Pod", "namespace": "d", "name": pod, "uid": uid});
    world.settle(planned);
    let expected = json!({"addresses": ["10.0.0.1"], "hostname": "h1", "targetRef": target,
        "conditions": {"ready": false, "serving": false, "terminating": false}});
    assert_eq!(slices(&world)[0]["endpoints"], json!([expected]));
    assert_eq!(slices(&world)[0]["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    let address = json!({"ip": "10.0.0.1", "hostname": "h1", "targetRef": target});
    let ports = json!([{"port": 8080, "protocol": "TCP"}]);
    assert_eq!(world.raw("Endpoints", "s")["subsets"], json!([{"notReadyAddresses": [address], "ports": ports}]));
    world.run_pod(&pod);
    world.settle(planned);
    assert_eq!(slices(&world)[0]["endpoints"][0]["conditions"]["ready"], true);
    assert_eq!(slices(&world)[0]["endpoints"][0]["nodeName"], "n");
    assert_eq!(world.raw("Endpoints", "s")["subsets"][0]["addresses"][0]["ip"], "10.0.0.1");
    world.delete("Pod", &pod);
    world.settle(planned);
    let conditions = json!({"ready": false, "serving": true, "terminating": true});
    assert_eq!(slices(&world)[0]["endpoints"][0]["conditions"], conditions);
    assert_eq!(world.raw("Endpoints", "s")["subsets"], Value::Null);
}

// K-SVC-2 K-SVC-3
#[test]
fn a_headless_service_may_publish_pods_that_are_not_ready() {
    let mut world = world(json!({"clusterIP": "None", "ports": null, "publishNotReadyAddresses": true}));
    add_pod(&mut world, 1, 8080);
    world.settle(planned);
    let slice = slices(&world)[0];
    assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(slice["endpoints"][0]["conditions"]["ready"], true);
    assert_eq!(slice["ports"], json!([]));
    assert_eq!(world.raw("Endpoints", "s")["subsets"][0]["addresses"][0]["ip"], "10.0.0.1");
}

// K-SVC-2
#[test]
fn pods_with_other_port_numbers_have_their_own_slice() {
    let mut world = world(json!({}));
    add_pod(&mut world, 1, 8080);
    add_pod(&mut world, 2, 9090);
    world.settle(planned);
    let mut ports: Vec<_> = slices(&world).iter().map(|slice| slice["ports"][0]["port"].as_i64().unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [8080, 9090]);
}

// K-SVC-2
#[test]
fn slices_hold_a_hundred_endpoints_and_one_change_touches_one_slice() {
    let mut world = world(json!({}));
    for number in 0..250 {
        add_pod(&mut world, number, 8080);
    }
    world.settle(planned);
    let sizes: Vec<_> = slices(&world).iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    world.run_pod("p007");
    let patched = planned(&world).actions;
    assert_eq!(patched.len(), 2, "one slice and the Endpoints object");
}

#[test]
fn services_without_selector_are_left_alone() {
    assert_eq!(planned(&world(json!({"selector": null}))), Plan::default());
    assert_eq!(planned(&world(json!({"type": "ExternalName"}))), Plan::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    // K-SVC-2
    #[test]
    fn every_pod_is_in_exactly_one_slice(steps in proptest::collection::vec((0..9usize, 0..4u8), 1..24)) {
        let mut world = world(json!({}));
        for (number, step) in steps {
            let name = format!("p{number:03}");
            let exists = world.names("Pod").contains(&name);
            match (exists, step) {
                (false, _) => { add_pod(&mut world, number, if step == 0 { 8080 } else { 9090 }); }
                (true, 0) => world.run_pod(&name),
                (true, 1) => world.end_pod(&name, 0),
                (true, _) => world.delete("Pod", &name),
            }
            world.settle(planned);
            let listed = slices(&world).into_iter().flat_map(|slice| slice["endpoints"].as_array().unwrap().clone());
            let mut listed: Vec<_> = listed.map(|e| e["targetRef"]["name"].as_str().unwrap().to_owned()).collect();
            listed.sort();
            let mut expected: Vec<_> = world.list::<Pod>().into_iter().filter(|pod| !pods::is_terminal(pod)).collect();
            expected.sort_by_key(|pod| pod.metadata.name.clone());
            prop_assert_eq!(listed, expected.into_iter().map(|pod| pod.metadata.name.unwrap()).collect::<Vec<_>>());
        }
    }
}
