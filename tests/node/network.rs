//! Pods on a network: addresses of their own, names, services, the machine and its ports.

use crate::command::eventually;
use crate::http;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, container, pod};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;

fn world() -> World {
    let world = World::start(&[]);
    load_busybox(&world);
    world
}

fn oci(name: &str, script: &str) -> Value {
    pod(name, script).main(json!({"image": BUSYBOX}))
}

/// Serves its own name on port 23456.
fn server(name: &str) -> Value {
    oci(name, "mkdir /www; hostname > /www/name; exec httpd -f -p 23456 -h /www")
        .main(json!({"readinessProbe": {"tcpSocket": {"port": 23456}, "periodSeconds": 1}, "ports": [{"containerPort": 23456}]}))
}

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

#[test]
fn two_jobs_listen_on_the_same_port() {
    let world = world();
    for name in ["one", "two"] {
        let mut template = server("x").spec(json!({"hostname": name}));
        template["metadata"] = json!({"labels": {"job": name}});
        let spec = json!({"backoffLimit": 0, "template": {"metadata": template["metadata"], "spec": template["spec"]}});
        world.create(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}));
    }
    let names = eventually("both run", || {
        let pods = world.pods();
        let ready = |pod: &&Value| container(pod)["ready"] == true;
        let names: Vec<String> =
            pods.iter().filter(ready).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        (names.len() == 2).then_some(names)
    });
    let addresses: Vec<String> =
        names.iter().map(|name| world.pod(name)["status"]["podIP"].as_str().unwrap().to_owned()).collect();
    assert_ne!(addresses[0], addresses[1]);
    let from_the_machine = http::get(&format!("{}:23456", addresses[0]), "/name").unwrap().text();
    let from_the_other = world.exec(&names[1], &format!("wget -qO- http://{}:23456/name", addresses[0])).stdout;
    assert_eq!(from_the_machine, from_the_other);
    assert!(["one\n", "two\n"].contains(&from_the_machine.as_str()), "{from_the_machine}");
}

// K-SVC-3
#[test]
fn pods_find_each_other_by_hostname_and_by_service() {
    let world = world();
    let headless = json!({"clusterIP": "None", "selector": {"team": "a"}, "publishNotReadyAddresses": true});
    world.create(&service("team", headless));
    world.create(&service("web", json!({"selector": {"team": "a"}, "ports": [{"port": 80, "targetPort": 23456}]})));
    let member = |name: &str| {
        let labelled = server(name).meta(json!({"labels": {"team": "a"}}));
        labelled.spec(json!({"hostname": name, "subdomain": "team"}))
    };
    world.create(&member("master"));
    world.create(&oci("asks", "exec sleep 1000"));
    world.until_ready("asks");
    world.until_ready("master");
    let fetch = |host: &str| {
        let ask = || world.exec("asks", &format!("timeout 5 wget -qO- http://{host}/name")).stdout;
        eventually(&format!("{host} is found"), || Some(ask()).filter(|answer| !answer.is_empty()))
    };
    for host in [
        "master.team:23456",
        "master.team.default.svc.cluster.local:23456",
        "team:23456",
        "web",
        "web.default",
        "web.default.svc.cluster.local",
    ] {
        assert_eq!(fetch(host), "master\n", "{host}");
    }
    let address = world.kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]);
    assert_eq!(fetch(&address), "master\n");
    let config = world.exec("asks", "cat /etc/resolv.conf").stdout;
    assert!(config.contains("search default.svc.cluster.local svc.cluster.local cluster.local"), "{config}");
    assert!(config.contains("ndots:5"), "{config}");
    // A pod that comes later is found by those that run already, also before it is ready.
    world.create(&member("late").main(json!({"readinessProbe": {"exec": {"command": ["false"]}}})));
    assert_eq!(fetch("late.team:23456"), "late\n");
    let unknown = world.exec("asks", "nslookup nobody.team.default.svc.cluster.local");
    assert_ne!(unknown.code, 0, "{}", unknown.stdout);
    world.delete("master", 0);
    eventually("its name is gone", || {
        (world.exec("asks", "nslookup master.team.default.svc.cluster.local").code != 0).then_some(())
    });
}

#[test]
fn a_service_goes_to_every_ready_pod_and_no_other() {
    let world = world();
    world.create(&service("web", json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 23456}]})));
    for name in ["a", "b", "c"] {
        world.create(&server(name).meta(json!({"labels": {"app": "web"}})));
    }
    for name in ["a", "b", "c"] {
        world.until_ready(name);
    }
    world.create(&oci("asks", "exec sleep 1000"));
    world.until_ready("asks");
    let fetches = "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do timeout 5 wget -qO- http://web/name; done | sort -u";
    let seen = || world.exec("asks", fetches).stdout;
    eventually("all three answer", || (seen() == "a\nb\nc\n").then_some(()));
    world.delete("b", 0);
    eventually("two answer", || (seen() == "a\nc\n").then_some(()));
}

#[test]
fn a_pod_reaches_a_server_on_the_machine() {
    let world = world();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _gone = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nmachine\n");
        }
    });
    world.create(&oci("asks", "exec sleep 1000"));
    world.until_ready("asks");
    let gateway = world.exec("asks", "ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p'").stdout;
    let node = world.kubectl(&[
        "get",
        "nodes",
        "-o",
        "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}",
    ]);
    for address in [gateway.trim(), node.trim()] {
        let answer = world.exec("asks", &format!("timeout 5 wget -qO- http://{address}:{port}/"));
        assert_eq!(answer.stdout, "machine\n", "{address}: {}", answer.stderr);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_machines_ports_lead_into_pods() {
    let world = world();
    let port = free_port();
    world.create(&server("inside").main(json!({"ports": [{"containerPort": 23456, "hostPort": port}]})));
    world.until_ready("inside");
    let fetch = || http::get(&format!("127.0.0.1:{port}"), "/name").ok().map(|answer| answer.text());
    assert_eq!(eventually("the port leads in", fetch), "inside\n");
    world.delete("inside", 0);
    eventually("the port is closed", || fetch().is_none().then_some(()));
    let port = free_port();
    let script = format!("mkdir /www; hostname > /www/name; exec httpd -f -p {port} -h /www");
    world.create(&oci("outside", &script).spec(json!({"hostNetwork": true})));
    let name = eventually("the machine's own network", || {
        http::get(&format!("127.0.0.1:{port}"), "/name")
            .ok()
            .filter(|answer| answer.code == 200)
            .map(|answer| answer.text())
    });
    assert_eq!(name.trim(), std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim());
    let pod = world.until_phase("outside", "Running");
    assert_eq!(pod["status"]["podIP"], pod["status"]["hostIP"]);
}

#[test]
fn the_cluster_answers_its_pods() {
    let world = World::start(&[]);
    let ca = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
    let fetch = format!("curl --max-time 5 -sf --cacert {ca} https://kubernetes.default.svc/version");
    let printed = world.finished(&pod("asks", &format!("until {fetch}; do sleep 0.1; done")));
    assert!(printed.contains("gitVersion"), "{printed}");
}
