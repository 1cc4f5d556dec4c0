//! Sockets that listen for pods: bound to an address and, where several bridges share it, to the interface it is for.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, UdpSocket};
use volley_plan::node::service_rules::Protocol;

/// Connections that wait to be accepted: what all ranks of a large job open at once.
const BACKLOG: i32 = 1024;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Only what comes in by this interface is for us. Two homes have the same service addresses on different bridges.
    pub interface: Option<String>,
    pub address: SocketAddr,
}

pub enum Listener {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Spot {
    pub fn open(&self, protocol: Protocol) -> io::Result<Listener> {
        match protocol {
            Protocol::Tcp => self.tcp().map(Listener::Tcp),
            Protocol::Udp => self.udp().map(Listener::Udp),
        }
    }

    pub fn tcp(&self) -> io::Result<TcpListener> {
        let socket = self.socket(Type::STREAM)?;
        // Connections of an earlier process that are still closing do not keep the port.
        socket.set_reuse_address(true)?;
        socket.bind(&self.address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    }

    pub fn udp(&self) -> io::Result<UdpSocket> {
        let socket = self.socket(Type::DGRAM)?;
        socket.bind(&self.address.into())?;
        UdpSocket::from_std(socket.into())
    }

    fn socket(&self, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), kind.nonblocking(), None)?;
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        Ok(socket)
    }
}
