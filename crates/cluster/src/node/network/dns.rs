//! The pods' name server: UDP and TCP on the bridge's address.
//!
//! What names mean is decided by `plan::node::names`; names of others are asked for at the machine's own servers.

use super::listen::Spot;
use super::message::{self, Code, Query, Reply};
use super::upstream::Upstream;
use parking_lot::RwLock;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use volley_plan::node::files::ResolvConf;
use volley_plan::node::names::{self, Answer, Data, Record, Zone};
use volley_plan::node::service_rules::Services;

pub const PORT: u16 = 53;
/// Questions and connections at a time; more than that over UDP are dropped, and clients ask again.
const OPEN_MAX: usize = 1024;
const QUESTION_BYTES_MAX: usize = 4096;
/// Clients keep a connection for one or two questions.
const IDLE: Duration = Duration::from_secs(10);
/// An alias may lead to another one of the cluster's.
const ALIASES_MAX: usize = 8;

pub struct Resolver {
    services: Arc<RwLock<Services>>,
    zone: Zone,
    upstream: Upstream,
    /// Turns the order of addresses, so that clients that take the first share the load.
    turn: AtomicUsize,
    open: Arc<Semaphore>,
}

/// Open sockets, not yet answering.
pub struct Listeners {
    udp: Vec<Arc<UdpSocket>>,
    tcp: Vec<TcpListener>,
}

/// Listens on the bridge, and for pods on the machine's own network where nobody else is in the way.
pub fn listen(address: Ipv4Addr, bridge: &str) -> io::Result<Listeners> {
    let spot = |interface: &str| Spot { interface: Some(interface.to_owned()), address: (address, PORT).into() };
    let bridged = spot(bridge);
    let mut listeners = Listeners { udp: vec![Arc::new(bridged.udp()?)], tcp: vec![bridged.tcp()?] };
    let local = spot("lo");
    if let (Ok(udp), Ok(tcp)) = (local.udp(), local.tcp()) {
        listeners.udp.push(Arc::new(udp));
        listeners.tcp.push(tcp);
    }
    Ok(listeners)
}

impl Resolver {
    pub fn new(services: Arc<RwLock<Services>>, zone: Zone, upstream: Upstream) -> Resolver {
        Resolver { services, zone, upstream, turn: AtomicUsize::new(0), open: Arc::new(Semaphore::new(OPEN_MAX)) }
    }

    /// The machine's own way to look up names.
    pub fn machine_conf(&self) -> ResolvConf {
        self.upstream.conf()
    }

    /// Answers until it is stopped; the sockets are closed when this returns.
    pub async fn serve(self: Arc<Self>, listeners: Listeners, stop: CancellationToken) {
        let mut tasks = tokio::task::JoinSet::new();
        for socket in listeners.udp {
            tasks.spawn(stop.clone().run_until_cancelled_owned(self.clone().serve_udp(socket)));
        }
        for listener in listeners.tcp {
            tasks.spawn(stop.clone().run_until_cancelled_owned(self.clone().serve_tcp(listener)));
        }
        tasks.join_all().await;
    }

    async fn serve_udp(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; QUESTION_BYTES_MAX];
        loop {
            // Errors here are of earlier answers that found nobody.
            let Ok((count, client)) = socket.recv_from(&mut buffer).await else { continue };
            let Ok(permit) = self.open.clone().try_acquire_owned() else { continue };
            let (resolver, socket, question) = (self.clone(), socket.clone(), buffer[..count].to_vec());
            tokio::spawn(async move {
                if let Some(answer) = resolver.answer(&question, true).await {
                    let _client_gone = socket.send_to(&answer, client).await;
                }
                drop(permit);
            });
        }
    }

    async fn serve_tcp(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok(permit) = self.open.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let resolver = self.clone();
                    tokio::spawn(async move {
                        let _client_gone = resolver.converse(stream).await;
                        drop(permit);
                    });
                }
                // Out of file handles, most likely: wait for some to come back rather than spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        while let Ok(length) = tokio::time::timeout(IDLE, stream.read_u16()).await {
            let mut question = vec![0; usize::from(length?)];
            tokio::time::timeout(IDLE, stream.read_exact(&mut question)).await??;
            let Some(answer) = self.answer(&question, false).await else { return Ok(()) };
            let length = (answer.len() as u16).to_be_bytes();
            stream.write_all(&[&length[..], &answer].concat()).await?;
        }
        Ok(())
    }

    /// The message to send back, if any may be sent.
    pub async fn answer(&self, bytes: &[u8], is_udp: bool) -> Option<Vec<u8>> {
        let query = match message::parse(bytes) {
            Ok(query) => query,
            Err(refusal) => return refusal,
        };
        let reply = |code| Reply::new(&query, &self.zone, code);
        let answer = names::answer(&self.services.read(), &self.zone, &query.name);
        match answer {
            Answer::Missing => Some(reply(Code::Missing).finish(is_udp)),
            Answer::Elsewhere => {
                let answer = self.upstream.ask(bytes, is_udp).await;
                Some(answer.unwrap_or_else(|| reply(Code::Failure).finish(is_udp)))
            }
            Answer::Records(mut records) => {
                self.rotate(&mut records);
                let mut reply = reply(Code::Fine);
                let asked: Vec<Record> =
                    records.iter().filter(|record| query.asks_for(&record.data)).cloned().collect();
                reply.answer(&asked);
                let further = names::addresses_of_targets(&self.services.read(), &self.zone, &asked);
                reply.add_further(&further);
                self.follow(&query, &asked, &mut reply).await;
                Some(reply.finish(is_udp))
            }
        }
    }

    fn rotate(&self, records: &mut [Record]) {
        let count = records.iter().take_while(|record| matches!(record.data, Data::Address(_))).count();
        if count > 1 {
            records[..count].rotate_left(self.turn.fetch_add(1, Ordering::Relaxed) % count);
        }
    }

    /// Clients expect the end of an alias in the same answer.
    async fn follow(&self, query: &Query, records: &[Record], reply: &mut Reply<'_>) {
        let mut records = records.to_vec();
        for _alias in 0..ALIASES_MAX {
            let target = records.iter().find_map(|record| match &record.data {
                Data::Alias(target) => Some(target.clone()),
                _ => None,
            });
            let Some(target) = target.filter(|_| query.kind != message::CNAME) else { return };
            let answer = names::answer(&self.services.read(), &self.zone, &target);
            match answer {
                Answer::Missing => return,
                Answer::Records(found) => {
                    records = found.into_iter().filter(|record| query.asks_for(&record.data)).collect();
                    reply.answer(&records);
                }
                Answer::Elsewhere => {
                    let question = message::question(query.id, &target, query.kind);
                    if let Some(answer) = self.upstream.ask(&question, true).await {
                        let (bytes, count) = message::chased(&answer);
                        reply.answer_raw(bytes, count);
                    }
                    return;
                }
            }
        }
    }
}
