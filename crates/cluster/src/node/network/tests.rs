//! The network for real: a namespace plays the machine, others play pods, and clients are programs and plain sockets.
//!
//! Everything needs root. Nothing here touches the network of the machine that runs the tests.

use super::*;
use crate::{Cluster, Options};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// An upper bound only: what is waited for usually happens within milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test on a machine of its own: a network namespace with nothing but loopback.
fn on_a_machine<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    let thread = std::thread::spawn(move || {
        network::enter_new_namespace().expect("these tests need root");
        Netlink::open().unwrap().loopback().unwrap();
        // A new namespace may take this over from the real machine.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").unwrap();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own, where work is done as in a pod.
struct Inside(mpsc::Sender<Work>);

impl Inside {
    fn new(enter: impl FnOnce() + Send + 'static) -> Inside {
        let (sender, work) = mpsc::channel::<Work>();
        std::thread::spawn(move || {
            enter();
            work.into_iter().for_each(|work| work());
        });
        Inside(sender)
    }

    /// A pod on the bridge.
    fn pod(network: &Network, pod: &Pod) -> (Inside, String) {
        let given = network.connect(pod).unwrap();
        let spec::Network::Bridge(port) = given.sandbox else { panic!("pods are on the bridge") };
        let id = uid(pod).to_owned();
        let enter = move || {
            let machine = Netlink::open().unwrap();
            network::enter_new_namespace().unwrap();
            let own = Netlink::open().unwrap();
            own.loopback().unwrap();
            network::connect(&machine, &own, &port, &id).unwrap();
        };
        (Inside::new(enter), given.addresses[0].clone())
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, result) = oneshot::channel();
        self.0.send(Box::new(move || drop(sender.send(work())))).unwrap();
        result.await.expect("the work ends well")
    }

    /// What a program prints.
    async fn shell(&self, script: &str) -> String {
        let script = script.to_owned();
        self.run(move || shell(&script)).await
    }
}

fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The machine's own programs, off the thread that answers them.
async fn on_machine(script: &str) -> String {
    let script = script.to_owned();
    tokio::task::spawn_blocking(move || shell(&script)).await.unwrap()
}

async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A cluster with its network, in a home of its own.
struct Home {
    cluster: Cluster,
    network: Arc<Network>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Home {
    async fn new(mode: Mode) -> Home {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path(), ([127, 0, 0, 1], 0).into());
        let cluster = Cluster::start(options).await.unwrap();
        let network = Network::open(folder.path(), mode).await.unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(network.clone().run(cluster.server().clone(), stop.clone()));
        Home { cluster, network, stop, running, _folder: folder }
    }

    async fn create(&self, plural: &str, object: Value) -> Value {
        self.cluster.server().local("test").create("", plural, "default", object).await.unwrap()
    }

    /// A pod that runs: on the bridge, with its address and readiness in its status.
    async fn pod(&self, name: &str, spec: Value, is_ready: bool) -> (Inside, String) {
        let mut spec = spec;
        let ports = spec.pointer("/containers/0/ports").cloned();
        spec["containers"] = json!([{"name": "main", "image": "host", "ports": ports}]);
        let object = json!({"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec});
        let pod: Pod = serde_json::from_value(self.create("pods", object).await).unwrap();
        let (inside, address) = Inside::pod(&self.network, &pod);
        let ready = if is_ready { "True" } else { "False" };
        let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready}]});
        let local = self.cluster.server().local("test");
        local.patch_status("", "pods", "default", name, json!({"status": status})).await.unwrap();
        (inside, address)
    }

    async fn service(&self, name: &str, spec: Value) -> Value {
        let mut spec = spec;
        spec["selector"] = json!({"app": "a"});
        self.create("services", json!({"metadata": {"name": name}, "spec": spec})).await
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
        self.network.close().await;
        self.cluster.stop().await;
    }
}

/// Serves one text to every client of a port, for ever.
async fn serve_text(inside: &Inside, port: u16, text: &str) {
    let text = text.to_owned();
    let work = move || {
        let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let from = stream.peer_addr().unwrap().ip();
                let _client_gone = stream.write_all(format!("{text} to {from}").as_bytes());
            }
        });
    };
    inside.run(work).await;
}

/// What is read from a port until its end; an error in words.
fn fetch(address: &str) -> String {
    let connected = TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(5));
    let read = connected.and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map(|_| text)
    });
    read.unwrap_or_else(|error| error.kind().to_string())
}

// K-SVC-3
#[test]
fn ranks_of_a_job_find_each_other_before_they_are_ready() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Root).await;
        let port = json!([{"name": "rdzv", "port": 23456}]);
        let spec = json!({"clusterIP": "None", "publishNotReadyAddresses": true, "ports": port});
        home.service("job", spec).await;
        let spec = |rank: u8| json!({"hostname": format!("job-{rank}"), "subdomain": "job"});
        let (first, first_address) = home.pod("rank-0", spec(0), false).await;
        serve_text(&first, 23456, "rank 0").await;
        let (second, second_address) = home.pod("rank-1", spec(1), false).await;
        let gateway = home.network.host_address();
        let ask = |options: &str, name: &str| format!("busybox nslookup {options} {name} {gateway}");

        let question = ask("", "job-0.job.default.svc.cluster.local");
        until("the name", || async { second.shell(&question).await.contains(&first_address) }).await;
        until("both", || async {
            let all = second.shell(&ask("", "job.default.svc.cluster.local")).await;
            all.contains(&first_address) && all.contains(&second_address)
        })
        .await;
        let target = format!("{first_address}:23456");
        let text = second.run(move || fetch(&target)).await;
        assert_eq!(text, format!("rank 0 to {second_address}"), "pods see each other's own addresses");
        let servers = second.shell(&ask("-type=srv", "_rdzv._tcp.job.default.svc.cluster.local")).await;
        assert!(servers.contains("23456 job-0.job.default.svc.cluster.local"), "{servers}");
        let reverse = second.shell(&ask("", &first_address)).await;
        assert!(reverse.contains("job-0.job.default.svc.cluster.local"), "{reverse}");
        let missing = second.shell(&ask("", "job-7.job.default.svc.cluster.local")).await;
        assert!(missing.contains("NXDOMAIN"), "{missing}");
        let other_kind = second.shell(&ask("-type=aaaa", "job-0.job.default.svc.cluster.local")).await;
        assert!(!other_kind.contains("NXDOMAIN") && !other_kind.contains("SERVFAIL"), "{other_kind}");
        home.end().await;
    });
}

// K-SVC-3
#[test]
fn the_name_server_speaks_tcp_and_fails_soon_without_a_network() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Root).await;
        let (pod, _) = home.pod("p", json!({}), true).await;
        let server = format!("{}:53", home.network.host_address());
        let ask = move |name: &str| {
            let question = message::question(7, name, message::A);
            let server = server.clone();
            move || {
                let mut stream = TcpStream::connect(server).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.write_all(&(question.len() as u16).to_be_bytes()).unwrap();
                stream.write_all(&question).unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut answer).unwrap();
                (answer[3] & 15, answer)
            }
        };
        until("the API's name", || {
            let asking = pod.run(ask("kubernetes.default.svc.cluster.local"));
            async { asking.await.1.ends_with(&[10, 96, 0, 1]) }
        })
        .await;
        let start = Instant::now();
        assert_eq!(pod.run(ask("example.com")).await.0, 2, "SERVFAIL");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        home.end().await;
    });
}

#[test]
fn services_lead_to_ready_pods_and_refuse_without_any() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Root).await;
        let spec = json!({"ports": [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "echo", "port": 7, "protocol": "UDP"}]});
        let service = home.service("web", spec).await;
        let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        let (client, _) = home.pod("client", json!({"containers": [{"ports": []}]}), false).await;
        let target = format!("{address}:80");
        let ask = || {
            let target = target.clone();
            client.run(move || fetch(&target))
        };
        until("a refusal", || async { ask().await == "connection refused" }).await;

        let ports = json!([{"name": "http", "containerPort": 8080}]);
        let (server, _) = home.pod("server", json!({"containers": [{"ports": ports}]}), true).await;
        serve_text(&server, 8080, "hello").await;
        server
            .run(|| {
                let socket = UdpSocket::bind("0.0.0.0:7").unwrap();
                std::thread::spawn(move || {
                    let mut buffer = [0; 100];
                    while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                        socket.send_to(&buffer[..count], from).unwrap();
                    }
                });
            })
            .await;
        until("an answer", || async { ask().await.starts_with("hello") }).await;
        let question = format!("busybox nslookup web.default.svc.cluster.local {}", home.network.host_address());
        assert!(client.shell(&question).await.contains(&address));
        let echo = format!("{address}:7");
        let echoed = client.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect(echo).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send(b"ping").unwrap();
            let mut buffer = [0; 100];
            let count = socket.recv(&mut buffer).unwrap();
            buffer[..count].to_vec()
        });
        assert_eq!(echoed.await, b"ping");
        let on_machine = target.clone();
        let text = tokio::task::spawn_blocking(move || fetch(&on_machine)).await.unwrap();
        assert!(text.starts_with("hello"), "pods on the machine's own network reach services, too: {text}");

        home.cluster.server().local("test").delete("", "services", ("default", "web"), "", "").await.unwrap();
        until("the end of the address", || async { !on_machine_addresses().await.contains(&address) }).await;
        home.end().await;
    });
}

async fn on_machine_addresses() -> String {
    on_machine("ip -o addr").await
}

#[test]
fn pods_reach_the_api_by_its_service_and_only_with_tls() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Root).await;
        let (pod, _) = home.pod("p", json!({}), true).await;
        let authority = home._folder.path().join("pki/ca.crt");
        let ask = format!("curl -sS --max-time 10 --cacert {} https://10.96.0.1/version", authority.display());
        until("an answer of the API", || async { pod.shell(&ask).await.contains("gitVersion") }).await;
        let named = "curl -sS --max-time 10 --resolve kubernetes.default.svc:443:10.96.0.1 --cacert";
        let by_name =
            pod.shell(&format!("{named} {} https://kubernetes.default.svc/version", authority.display())).await;
        assert!(by_name.contains("gitVersion"), "{by_name}");
        // Plain HTTP on loopback is trusted as the user's own; through the door it would make every pod an admin.
        let plain =
            "curl -sS --max-time 10 -H 'Host: localhost' http://10.96.0.1:443/api/v1/namespaces/kube-system/secrets";
        let answer = pod.shell(plain).await;
        assert!(answer.starts_with("curl:"), "{answer}");
        home.end().await;
    });
}

#[test]
fn two_homes_on_a_machine_have_their_own_services_at_the_same_address() {
    on_a_machine(|| async {
        let homes = [Home::new(Mode::Root).await, Home::new(Mode::Root).await];
        let mut pods = Vec::new();
        for (number, home) in homes.iter().enumerate() {
            home.service("web", json!({"clusterIP": "10.96.0.77", "ports": [{"port": 80, "targetPort": 8080}]})).await;
            let (pod, _) = home.pod("server", json!({}), true).await;
            serve_text(&pod, 8080, &format!("home {number}")).await;
            pods.push(pod);
        }
        for (number, pod) in pods.iter().enumerate() {
            let expected = format!("home {number}");
            until("the home's own answer", || async {
                let text = pod.run(|| fetch("10.96.0.77:80")).await;
                assert!(!text.starts_with("home") || text.starts_with(&expected), "{text}");
                text.starts_with(&expected)
            })
            .await;
        }
        let [one, other] = homes;
        one.end().await;
        let text = pods[1].run(|| fetch("10.96.0.77:80")).await;
        assert!(text.starts_with("home 1"), "one home's end is not the other's: {text}");
        other.end().await;
    });
}

#[test]
fn host_ports_and_node_ports_are_open_on_the_machine() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Root).await;
        let ports = json!([{"containerPort": 8080, "hostPort": 9090}]);
        let object =
            json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "c", "ports": ports}]}});
        let pod: Pod = serde_json::from_value(object.clone()).unwrap();
        let (inside, address) = Inside::pod(&home.network, &pod);
        serve_text(&inside, 8080, "hello").await;
        home.network.open_ports(&pod, std::slice::from_ref(&address)).await.unwrap();
        let ask = |port: u16| tokio::task::spawn_blocking(move || fetch(&format!("127.0.0.1:{port}")));
        assert!(ask(9090).await.unwrap().starts_with("hello"));

        let mut second: Pod = serde_json::from_value(object).unwrap();
        second.metadata.uid = Some("v".into());
        let refused = home.network.open_ports(&second, &["10.88.0.99".to_owned()]).await.unwrap_err();
        assert_eq!(refused, "hostPort 9090/TCP cannot be opened on 0.0.0.0: Address already in use (os error 98)");
        home.network.release("u").await;
        until("the port to be free", || async { ask(9090).await.unwrap() == "connection refused" }).await;
        home.network.open_ports(&second, &[address]).await.unwrap();

        home.service(
            "web",
            json!({"type": "NodePort", "ports": [{"port": 80, "targetPort": 8080, "nodePort": 30123}]}),
        )
        .await;
        let (server, _) = home.pod("server", json!({}), true).await;
        serve_text(&server, 8080, "by the node").await;
        until("the node port", || async { ask(30123).await.unwrap().starts_with("by the node") }).await;
        home.end().await;
    });
}

#[test]
fn pods_reach_beyond_the_machine_and_all_is_gone_after_the_end() {
    on_a_machine(|| async {
        // The world outside: a namespace that knows the machine's address and nothing of pods.
        let machine = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let outside = Inside::new(|| network::enter_new_namespace().unwrap());
        let process = outside
            .run(|| {
                Anchor(Command::new("sleep").arg("60").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
            })
            .await;
        let setup = format!(
            "ip link add up0 type veth peer name out0 netns {pid}; ip addr add 198.51.100.1/24 dev up0; ip link set up0 up; ip route add default via 198.51.100.2",
            pid = process.0.id()
        );
        assert_eq!(on_machine(&setup).await, "");
        let setup = "ip link set lo up; ip addr add 198.51.100.2/24 dev out0; ip link set out0 up";
        assert_eq!(outside.shell(setup).await, "");
        serve_text(&outside, 80, "outside").await;
        let seen = "ip -o link | grep -v ' up0@' ; ip -o -4 addr; ip route; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; busybox netstat -lntu";
        until("the link outside", || async { !on_machine("ip route").await.contains("linkdown") }).await;
        let before = on_machine(seen).await;

        let home = Home::new(Mode::Root).await;
        assert_eq!(home.network.lacks(), Vec::<String>::new());
        let (pod, _) = home.pod("p", json!({}), true).await;
        until("the way out", || async { pod.run(|| fetch("198.51.100.2:80")).await == "outside to 198.51.100.1" })
            .await;
        outside::same_with_iptables(&home.network, &pod).await;
        assert_ne!(on_machine(seen).await, before);
        drop(pod);
        home.end().await;
        let marker = machine.to_string_lossy().replace(|c: char| !c.is_ascii_digit(), "");
        assert!(!Path::new(&format!("/run/volley-forwarding-{marker}")).exists());
        until("the pods' interfaces to go", || async { !on_machine("ip -o link").await.contains("vly") }).await;
        assert_eq!(on_machine(seen).await, before);
        drop(process);
    });
}

/// A process by which a namespace can be named.
struct Anchor(std::process::Child);

impl Drop for Anchor {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

mod outside {
    use super::*;

    /// A machine with `iptables` alone whose firewall forwards nothing by itself.
    pub async fn same_with_iptables(network: &Network, pod: &Inside) {
        let Ground::Bridge(ground) = &network.ground else { panic!("pods are on the bridge") };
        let name = &ground.bridge.name;
        assert_eq!(on_machine(&format!("nft delete table ip volley_{name}; iptables -P FORWARD DROP")).await, "");
        assert_ne!(pod.run(|| fetch("198.51.100.2:80")).await, "outside to 198.51.100.1");
        let network = Ipv4Addr::from_bits(ground.bridge.gateway.to_bits() & subnet::subnet_mask(22));
        let (subnet, owned) = (format!("{network}/22"), ground.bridge.clone());
        tokio::task::spawn_blocking(move || outward::open_by_iptables(&owned, &subnet).unwrap()).await.unwrap();
        until("the way out", || async { pod.run(|| fetch("198.51.100.2:80")).await == "outside to 198.51.100.1" })
            .await;
        on_bridge(&ground.bridge, outward::close).await.unwrap();
        let rules = on_machine("iptables -S; iptables -t nat -S").await;
        assert!(!rules.contains(name.as_str()), "{rules}");
        on_machine("nft flush ruleset").await;
    }
}

#[test]
fn a_bridge_and_a_pods_address_outlive_the_process() {
    on_a_machine(|| async {
        let folder = tempfile::tempdir().unwrap();
        let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "u"}, "spec": {"containers": []}})).unwrap();
        let first = Network::open(folder.path(), Mode::Root).await.unwrap();
        first.connect(&serde_json::from_value(json!({"metadata": {"uid": "other"}})).unwrap()).unwrap();
        let given = first.connect(&pod).unwrap();
        assert_eq!(first.connect(&pod).unwrap(), given);
        drop(first);
        assert!(is_open(folder.path()), "the bridge outlives the process");
        let second = Network::open(folder.path(), Mode::Root).await.unwrap();
        second.adopt(&pod, &given.addresses);
        assert_eq!(second.connect(&pod).unwrap(), given);
        let host: Pod =
            serde_json::from_value(json!({"metadata": {"uid": "h"}, "spec": {"hostNetwork": true, "containers": []}}))
                .unwrap();
        assert_eq!(second.connect(&host).unwrap().sandbox, spec::Network::Host);
        drop(second);
        clear(folder.path()).await.unwrap();
        assert!(!is_open(folder.path()));
        assert_eq!(on_machine("nft list ruleset; cat /proc/sys/net/ipv4/ip_forward").await, "0\n");
        clear(folder.path()).await.unwrap();
    });
}

// K-SVC-3
#[test]
fn without_root_names_are_lines_and_services_are_on_loopback() {
    on_a_machine(|| async {
        let home = Home::new(Mode::Rootless).await;
        let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "u", "namespace": "default"}, "spec": {"hostname": "h", "subdomain": "web", "containers": []}})).unwrap();
        let given = home.network.connect(&pod).unwrap();
        assert_eq!(given.sandbox, spec::Network::Host);
        let address = given.addresses[0].clone();
        assert!(address.starts_with("127.") && home.network.dns().cluster_servers.is_empty());
        let listener = TcpListener::bind((address.as_str(), 8080)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                stream.unwrap().write_all(b"hello").unwrap();
            }
        });
        let service = home.service("web", json!({"ports": [{"port": 1080, "targetPort": 8080}]})).await;
        let service: Service = serde_json::from_value(service).unwrap();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": [address], "hostname": "h"}],
        }))
        .unwrap();
        let mut changes = home.network.names_changed();
        home.network.services.write().observe_slice(slice);
        home.network.refresh(home.cluster.server());
        changes.changed().await.unwrap();

        let find = |name: &str| {
            let lines = home.network.hosts_lines(&pod);
            lines.into_iter().find(|(_, names)| names.iter().any(|n| n == name)).map(|(address, _)| address)
        };
        until("the service's line", || async { find("web").is_some() }).await;
        assert_eq!(find("h.web.default.svc.cluster.local"), Some(address.clone()));
        let reached = home.network.as_reached(service, home.cluster.server());
        assert_eq!(reached.spec.unwrap().cluster_ip, find("web"));
        let target = format!("{}:1080", find("web").unwrap());
        until("an answer", || {
            let target = target.clone();
            async { tokio::task::spawn_blocking(move || fetch(&target)).await.unwrap() == "hello" }
        })
        .await;
        let api = json!({"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}});
        let api = home.network.as_reached(serde_json::from_value(api).unwrap(), home.cluster.server()).spec.unwrap();
        let port = api.ports.unwrap()[0].port;
        assert_eq!(format!("{}:{port}", api.cluster_ip.unwrap()), home.cluster.server().address());
        home.end().await;
    });
}

/// A name server outside: knows one name, and answers with its question and one record.
fn serve_names(address: &str) {
    let socket = UdpSocket::bind(address).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let mut answer = buffer[..count].to_vec();
            (answer[2], answer[3], answer[7]) = (0x81, 0x80, 1);
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 99]);
            socket.send_to(&answer, from).unwrap();
        }
    });
}

// K-SVC-3
#[test]
fn other_names_are_asked_for_outside_and_aliases_are_followed() {
    on_a_machine(|| async {
        serve_names("127.0.0.54:53");
        let silent = UdpSocket::bind("127.0.0.55:53").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("resolv.conf");
        let services: Arc<RwLock<Services>> = Arc::default();
        let far = json!({"metadata": {"namespace": "ns", "name": "far"}, "spec": {"type": "ExternalName", "externalName": "db.example.com"}});
        services.write().observe_service(serde_json::from_value(far).unwrap());
        let server = Ipv4Addr::LOCALHOST;
        let zone = Zone { domain: CLUSTER_DOMAIN.into(), server, networks: Vec::new(), service_net: None };
        let resolver = dns::Resolver::new(services, zone, Upstream::new(config.clone(), server.into()));
        let ask = async |name: &str| resolver.answer(&message::question(9, name, message::A), true).await.unwrap();

        std::fs::write(&config, "nameserver 127.0.0.1\nnameserver 127.0.0.56\nnameserver 127.0.0.54\n").unwrap();
        let start = Instant::now();
        let answer = ask("db.example.com").await;
        assert!(answer.ends_with(&[192, 0, 2, 99]) && answer[3] & 15 == 0);
        assert!(start.elapsed() < Duration::from_secs(1), "a server that refuses is passed over at once");
        let answer = ask("far.ns.svc.cluster.local").await;
        assert_eq!(answer[7], 2, "the alias and where it ends");
        assert!(answer.ends_with(&[192, 0, 2, 99]));

        std::fs::write(&config, "").unwrap();
        assert_eq!(ask("db.example.com").await[3] & 15, 2, "nobody to ask");
        std::fs::write(&config, "nameserver 127.0.0.55\n").unwrap();
        for _silence in 0..2 {
            assert_eq!(ask("db.example.com").await[3] & 15, 2);
        }
        let start = Instant::now();
        assert_eq!(ask("db.example.com").await[3] & 15, 2);
        assert!(start.elapsed() < Duration::from_secs(1), "a silent server is left alone for a while");
        drop(silent);
    });
}
