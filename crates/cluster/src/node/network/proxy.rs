//! Doors: what comes in at an address of a service, a node port or a host port is carried to a target, in user space.
//!
//! A door without targets is not opened, so that the kernel refuses clients at once. `docs/decisions/005-service-proxy.md`
//! says why the kernel's packet filter does not do this.

use super::listen::{Listener, Spot};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use volley_plan::node::service_rules::{Protocol, Rule, is_tls_only};

/// Connections and UDP clients of all doors together; below the usual limit of open files.
const CARRIED_MAX: usize = 8192;
/// A pod that just went does not answer at all; the next one should be tried soon.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// As long as the kernel remembers UDP clients that got an answer.
const UDP_IDLE: Duration = Duration::from_secs(120);
const BUFFER_BYTES: usize = 64 * 1024;
const TLS_FIRST_BYTE: u8 = 0x16;
/// Clients remembered for affinity; beyond that, those whose time is over are forgotten first.
const AFFINITIES_MAX: usize = 4096;

/// Everything that is carried, and the way to end it.
pub struct Proxy {
    stop: CancellationToken,
    tasks: TaskTracker,
    carried: Arc<Semaphore>,
    api_server: Arc<RwLock<Option<SocketAddr>>>,
}

/// An open door; dropping it closes it. Connections that are through go on.
pub struct OpenDoor {
    way: Arc<Way>,
    _open: DropGuard,
}

/// Where an open door leads.
struct Way {
    rule: RwLock<Rule>,
    turn: AtomicUsize,
    affinities: Mutex<HashMap<IpAddr, (SocketAddr, Instant)>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    carried: Arc<Semaphore>,
    api_server: Arc<RwLock<Option<SocketAddr>>>,
}

impl OpenDoor {
    pub fn lead_to(&self, rule: &Rule) {
        if *self.way.rule.read() != *rule {
            *self.way.rule.write() = rule.clone();
        }
    }
}

impl Proxy {
    pub fn new() -> Proxy {
        let carried = Arc::new(Semaphore::new(CARRIED_MAX));
        Proxy { stop: CancellationToken::new(), tasks: TaskTracker::new(), carried, api_server: Arc::default() }
    }

    /// Says where the API server listens, to which nothing is carried in the clear.
    pub fn guard(&self, api_server: Option<SocketAddr>) {
        *self.api_server.write() = api_server;
    }

    /// Opens one door at several spots; the first must be free, the others are taken if they are.
    pub fn open(&self, spots: &[Spot], protocol: Protocol, rule: &Rule) -> io::Result<OpenDoor> {
        let way = Arc::new(Way {
            rule: RwLock::new(rule.clone()),
            turn: AtomicUsize::new(0),
            affinities: Mutex::default(),
            stop: self.stop.clone(),
            tasks: self.tasks.clone(),
            carried: self.carried.clone(),
            api_server: self.api_server.clone(),
        });
        let open = self.stop.child_token();
        for (place, spot) in spots.iter().enumerate() {
            let serving = match spot.open(protocol) {
                Ok(listener) => way.clone().serve(listener),
                Err(error) if place == 0 => return Err(error),
                Err(_) => continue,
            };
            self.tasks.spawn(open.clone().run_until_cancelled_owned(serving));
        }
        Ok(OpenDoor { way, _open: open.drop_guard() })
    }

    /// Closes all doors and ends what is being carried; sockets are gone when this returns.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Way {
    async fn serve(self: Arc<Self>, listener: Listener) {
        match listener {
            Listener::Tcp(listener) => self.accept(listener).await,
            Listener::Udp(socket) => self.carry_packets(Arc::new(socket)).await,
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok(permit) = self.carried.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((client, from)) => {
                    let (way, stop) = (self.clone(), self.stop.clone());
                    let carrying = async move {
                        // Either end may leave at any time; that is no news.
                        let _ended = way.carry(client, from.ip()).await;
                        drop(permit);
                    };
                    self.tasks.spawn(stop.run_until_cancelled_owned(carrying));
                }
                // Out of file handles, most likely: wait for some to come back rather than spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn carry(&self, mut client: TcpStream, from: IpAddr) -> io::Result<()> {
        for target in self.targets(from) {
            let is_guarded = is_tls_only(target, *self.api_server.read());
            if is_guarded && !speaks_tls(&client).await? {
                return Ok(());
            }
            if let Ok(Ok(mut server)) = tokio::time::timeout(CONNECT_WAIT, TcpStream::connect(target)).await {
                self.remember(from, target);
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                let carried =
                    tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES);
                return carried.await.map(drop);
            }
        }
        // Nobody is there: the client learns it as it would from a refusal, not as an orderly end.
        client.set_zero_linger()
    }

    /// All targets, beginning with the client's own or the one whose turn it is.
    fn targets(&self, client: IpAddr) -> Vec<SocketAddr> {
        let rule = self.rule.read();
        let mut targets = rule.targets.clone();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % targets.len().max(1);
        targets.rotate_left(turn);
        if let Some(seconds) = rule.affinity_seconds {
            let affinities = self.affinities.lock();
            let recent = affinities.get(&client).filter(|(_, last)| last.elapsed().as_secs() < u64::from(seconds));
            let place = recent.and_then(|(own, _)| targets.iter().position(|target| target == own));
            targets.rotate_left(place.unwrap_or(0));
        }
        targets
    }

    fn remember(&self, client: IpAddr, target: SocketAddr) {
        let Some(seconds) = self.rule.read().affinity_seconds else { return };
        let mut affinities = self.affinities.lock();
        if affinities.len() >= AFFINITIES_MAX {
            affinities.retain(|_, (_, last)| last.elapsed().as_secs() < u64::from(seconds));
        }
        if affinities.len() < AFFINITIES_MAX || affinities.contains_key(&client) {
            affinities.insert(client, (target, Instant::now()));
        }
    }

    /// UDP: each client has a socket of its own towards its target, until both are silent for a while.
    async fn carry_packets(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let clients: Arc<Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>> = Arc::default();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            // Errors here are of earlier answers that found nobody.
            let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
            let known = clients.lock().get(&from).cloned();
            let server = match known {
                Some(server) => server,
                None => {
                    let Ok(permit) = self.carried.clone().try_acquire_owned() else { continue };
                    let Ok(server) = self.reach(from.ip()).await else { continue };
                    clients.lock().insert(from, server.clone());
                    let (back, socket, clients) = (server.clone(), socket.clone(), clients.clone());
                    let stop = self.stop.clone();
                    self.tasks.spawn(stop.run_until_cancelled_owned(async move {
                        carry_back(&back, &socket, from).await;
                        clients.lock().remove(&from);
                        drop(permit);
                    }));
                    server
                }
            };
            // A target that refuses ends the client's place, by the other direction's error.
            let _refused = server.send(&buffer[..count]).await;
        }
    }

    async fn reach(&self, client: IpAddr) -> io::Result<Arc<UdpSocket>> {
        let target = self.targets(client).first().copied().ok_or(io::ErrorKind::NotConnected)?;
        self.remember(client, target);
        let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(target).await?;
        Ok(Arc::new(socket))
    }
}

async fn carry_back(server: &UdpSocket, socket: &UdpSocket, client: SocketAddr) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(Ok(count)) = tokio::time::timeout(UDP_IDLE, server.recv(&mut buffer)).await {
        if socket.send_to(&buffer[..count], client).await.is_err() {
            return;
        }
    }
}

/// The server at the other end looks at the same byte to tell TLS from plain HTTP.
async fn speaks_tls(client: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let seen = tokio::time::timeout(Duration::from_secs(10), client.peek(&mut first)).await??;
    Ok(seen == 1 && first[0] == TLS_FIRST_BYTE)
}
