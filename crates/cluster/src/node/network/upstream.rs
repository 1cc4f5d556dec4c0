//! The machine's own name servers, for names that are not the cluster's.
//!
//! Questions are handed on as they came. A pod on a machine without a network must get a failure soon, not hang, so that
//! servers which stay silent are left alone for a while.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use volley_plan::node::files::ResolvConf;

const PORT: u16 = 53;
/// As resolvers do. Three silent servers take less than the five seconds after which clients ask again.
const SERVERS_MAX: usize = 3;
const SERVER_WAIT: Duration = Duration::from_millis(1500);
/// Packets get lost: one missing answer says nothing.
const SILENCES_MAX: u32 = 2;
const REST: Duration = Duration::from_secs(5);
/// The largest message over UDP that anybody sends.
const UDP_BYTES_MAX: usize = 4096;

pub struct Upstream {
    /// Usually `/etc/resolv.conf`; read for each question, since networks come and go.
    config: PathBuf,
    /// Our own name server, which the machine's file may name.
    own: IpAddr,
    silences: Mutex<BTreeMap<IpAddr, (u32, Instant)>>,
}

impl Upstream {
    pub fn new(config: PathBuf, own: IpAddr) -> Upstream {
        Upstream { config, own, silences: Mutex::default() }
    }

    pub fn conf(&self) -> ResolvConf {
        ResolvConf::parse(&fs::read_to_string(&self.config).unwrap_or_default())
    }

    /// The first answer of any server; none when nobody answers.
    pub async fn ask(&self, question: &[u8], is_udp: bool) -> Option<Vec<u8>> {
        let servers = self.conf().servers.into_iter().filter_map(|server| server.parse::<IpAddr>().ok());
        for server in servers.filter(|server| *server != self.own).take(SERVERS_MAX) {
            if self.is_resting(server) {
                continue;
            }
            let address = SocketAddr::new(server, PORT);
            let asked =
                async { if is_udp { ask_udp(address, question).await } else { ask_tcp(address, question).await } };
            let answer = tokio::time::timeout(SERVER_WAIT, asked).await.ok().and_then(Result::ok);
            self.note(server, answer.is_some());
            if answer.is_some() {
                return answer;
            }
        }
        None
    }

    fn is_resting(&self, server: IpAddr) -> bool {
        let silences = self.silences.lock();
        silences.get(&server).is_some_and(|(count, last)| *count >= SILENCES_MAX && last.elapsed() < REST)
    }

    fn note(&self, server: IpAddr, has_answered: bool) {
        let mut silences = self.silences.lock();
        if has_answered {
            silences.remove(&server);
        } else {
            let (count, last) = silences.entry(server).or_insert((0, Instant::now()));
            (*count, *last) = (count.saturating_add(1), Instant::now());
        }
    }
}

async fn ask_udp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    // A port of its own for each question: a forged answer would have to guess it.
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; UDP_BYTES_MAX];
    loop {
        let count = socket.recv(&mut buffer).await?;
        if buffer[..count].get(..2) == question.get(..2) {
            buffer.truncate(count);
            return Ok(buffer);
        }
    }
}

async fn ask_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
