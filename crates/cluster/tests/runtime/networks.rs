//! Pods with networks of their own.

use crate::support::*;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command};
use volley_cluster::runtime::client::{Launcher, Pod};
use volley_cluster::runtime::spec::{Bridge, BridgePort, Network, Sandbox};

/// A network namespace that plays the machine, so that bridges of these tests never reach the real one.
pub struct Machine(Child);

impl Machine {
    pub async fn new() -> Machine {
        must_be_root();
        let machine = Machine(Command::new("unshare").args(["-n", "sleep", "1000"]).spawn().unwrap());
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let pid = machine.0.id().to_string();
        until(|| namespace(&pid).is_some_and(|found| Some(found) != namespace("self"))).await;
        machine
    }

    fn enter(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.0.id())
    }

    pub fn launcher(&self) -> Launcher {
        Launcher::new(Path::new("/usr/bin/nsenter"), &[&self.enter(), SHIM])
    }

    pub fn links(&self) -> String {
        let output = Command::new("nsenter").args([&self.enter(), "ip", "-o", "link"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A bridge for these tests alone, in a range that is kept for documentation.
fn bridge() -> Bridge {
    Bridge { name: "vlytest0".into(), gateway: Ipv4Addr::new(198, 51, 100, 1), prefix_length: 24 }
}

pub fn port(number: u8) -> Network {
    Network::Bridge(BridgePort { bridge: bridge(), address: Ipv4Addr::new(198, 51, 100, number) })
}

#[tokio::test]
async fn two_pods_listen_on_one_port_and_reach_each_other() {
    let machine = Machine::new().await;
    let places = [Place::new(), Place::new()];
    let mut pods = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let sandbox = Sandbox { network: port(10 + number as u8), ..place.sandbox() };
        let pod = Pod::start(&machine.launcher(), &place.pod_folder(), &sandbox).await.expect("the pod starts");
        let script = format!("echo up; while :; do echo pod-{number} | nc -l -p 23456; done");
        pod.start_container(place.container("server", &script)).await.unwrap();
        until_printed(place, "server", "up").await;
        pods.push(pod);
    }
    for (number, pod) in pods.iter().enumerate() {
        let other = 1 - number;
        let script = format!("until nc -w 2 198.51.100.{} 23456 </dev/null; do sleep 0.05; done", 10 + other);
        let (exit, output) = exec_output(pod, "server", &script).await;
        assert_eq!((exit.code, output.trim()), (0, format!("pod-{other}").as_str()));
    }
    let (_, routes) =
        exec_output(&pods[0], "server", "ip route; ping -c 1 -w 5 198.51.100.1 >/dev/null && echo gateway").await;
    assert!(routes.contains("default via 198.51.100.1 dev eth0") && routes.contains("gateway"), "{routes}");
    assert_eq!(machine.links().lines().filter(|line| line.contains("vly")).count(), 3);
    for pod in pods {
        pod.remove().await.unwrap();
    }
    assert_eq!(
        machine.links().lines().filter(|line| line.contains("vly")).count(),
        1,
        "only the bridge stays: {}",
        machine.links()
    );
}

#[tokio::test]
async fn a_pod_may_have_loopback_alone_and_sysctls_of_its_own() {
    must_be_root();
    let place = Place::new();
    let sysctls = [("net.ipv4.ip_unprivileged_port_start".to_owned(), "80".to_owned())].into();
    let pod = place.pod_with(Sandbox { network: Network::Loopback, sysctls, ..place.sandbox() }).await;
    run_in(&pod, place.container("main", "ip -o link | wc -l; ping -c 1 127.0.0.1 >/dev/null && echo alive; cat /proc/sys/net/ipv4/ip_unprivileged_port_start")).await;
    let printed = place.printed("main");
    assert!(printed.contains(&"alive".into()) && printed.contains(&"80".into()), "{printed:?}");
    pod.remove().await.unwrap();
    let machine = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    assert_eq!(machine.trim(), "1024");
}

#[tokio::test]
async fn a_sysctl_of_the_machine_is_refused() {
    must_be_root();
    let place = Place::new();
    let sysctls = [("kernel.panic".to_owned(), "1".to_owned())].into();
    let sandbox = Sandbox { sysctls, ..place.sandbox() };
    let fault = Pod::start(&launcher(), &place.pod_folder(), &sandbox).await.unwrap_err();
    assert_eq!(fault.to_string(), "the sysctl kernel.panic is not one of the pod's own namespaces");
}
