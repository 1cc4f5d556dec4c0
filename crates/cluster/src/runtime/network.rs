//! The pod's network: a bridge of the machine, one pair of interfaces per pod, addresses and routes, by netlink.
//!
//! A netlink socket belongs to the namespace in which it was opened, so the shim opens one before it leaves the machine's
//! network and one after, and nobody ever changes back. The pair goes with the pod's namespace.

use super::spec::{Bridge, BridgePort};
use super::sys;
use super::wire::{Context, Fault, FaultKind};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

const ATTRIBUTE_NESTED: u16 = 0x8000;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// Every network namespace has loopback as its first interface.
const LOOPBACK_INDEX: u32 = 1;
const POD_INTERFACE: &str = "eth0";

/// A netlink message in the making.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: i32) -> Message {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        Message(bytes)
    }

    /// A message about an interface: `struct ifinfomsg`.
    fn link(flags: i32, index: u32, up: bool) -> Message {
        let mut message = Message::new(libc::RTM_NEWLINK, flags);
        message.interface(index, up);
        message
    }

    fn interface(&mut self, index: u32, up: bool) {
        let up = if up { libc::IFF_UP as u32 } else { 0 };
        self.0.extend_from_slice(&[libc::AF_UNSPEC as u8, 0, 0, 0]);
        self.0.extend_from_slice(&index.to_ne_bytes());
        self.0.extend_from_slice(&up.to_ne_bytes());
        self.0.extend_from_slice(&up.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn name(&mut self, name: &str) {
        self.attribute(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    }

    /// `struct ifaddrmsg` and the address itself.
    fn about_address(mut self, index: u32, address: Ipv4Addr, prefix_length: u8) -> Message {
        self.0.extend_from_slice(&[libc::AF_INET as u8, prefix_length, 0, 0]);
        self.0.extend_from_slice(&index.to_ne_bytes());
        self.attribute(libc::IFA_LOCAL, &address.octets());
        self.attribute(libc::IFA_ADDRESS, &address.octets());
        self
    }

    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 4]);
        fill(self);
        let size = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&size.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&(kind | ATTRIBUTE_NESTED).to_ne_bytes());
    }
}

/// A socket to one network namespace.
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Speaks for the network namespace that this process is in now, also after it has left.
    pub fn open() -> Result<Netlink, Fault> {
        sys::route_socket().map(Netlink).context(|| "open a netlink socket".into())
    }

    /// Sends the message; the answer's bytes, empty for a plain acknowledgement.
    fn ask(&self, mut message: Message) -> io::Result<Vec<u8>> {
        let size = message.0.len() as u32;
        message.0[..4].copy_from_slice(&size.to_ne_bytes());
        sys::write(&self.0, &message.0)?;
        let mut buffer = vec![0; 32 * 1024];
        let count = sys::read(&self.0, &mut buffer)?;
        buffer.truncate(count);
        let number = |at: usize| {
            buffer.get(at..at + 4).map(|bytes| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        let kind = buffer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
        match (kind, number(16)) {
            (Some(kind), Some(0)) if i32::from(kind) == libc::NLMSG_ERROR => Ok(Vec::new()),
            (Some(kind), Some(error)) if i32::from(kind) == libc::NLMSG_ERROR => {
                Err(io::Error::from_raw_os_error(-error))
            }
            (Some(_), Some(_)) => {
                // A real answer is followed by its acknowledgement, which would otherwise answer the next question.
                let mut acknowledgement = [0; 1024];
                sys::read(&self.0, &mut acknowledgement)?;
                Ok(buffer)
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a short netlink answer")),
        }
    }

    fn index(&self, name: &str) -> io::Result<Option<u32>> {
        let mut message = Message::new(libc::RTM_GETLINK, 0);
        message.interface(0, false);
        message.name(name);
        match self.ask(message) {
            Ok(answer) => Ok(answer.get(20..24).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn set_up(&self, index: u32) -> io::Result<()> {
        self.ask(Message::link(0, index, true)).map(drop)
    }

    fn add_address(&self, index: u32, address: Ipv4Addr, prefix_length: u8) -> io::Result<()> {
        let message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        self.ask(message.about_address(index, address, prefix_length)).map(drop)
    }

    /// Gives an interface one more address of the machine's own; one that it has is fine.
    pub fn add_own_address(&self, interface: u32, address: Ipv4Addr) -> Result<(), Fault> {
        unless_there(self.add_address(interface, address, 32)).context(|| format!("add the address {address}"))
    }

    /// Takes it back; one that is not there is fine.
    pub fn remove_own_address(&self, interface: u32, address: Ipv4Addr) -> Result<(), Fault> {
        let message = Message::new(libc::RTM_DELADDR, 0).about_address(interface, address, 32);
        match self.ask(message) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::ENODEV)) => Ok(()),
            asked => asked.map(drop).context(|| format!("remove the address {address}")),
        }
    }

    fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // `struct rtmsg`: family, lengths, tos, table, protocol, scope, type, flags.
        let head = [
            libc::AF_INET as u8,
            0,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNICAST,
        ];
        message.0.extend_from_slice(&head);
        message.0.extend_from_slice(&[0; 4]);
        message.attribute(libc::RTA_GATEWAY, &gateway.octets());
        self.ask(message).map(drop)
    }

    /// Brings up loopback, which is down in a new namespace.
    pub fn loopback(&self) -> Result<(), Fault> {
        self.set_up(LOOPBACK_INDEX).context(|| "bring up loopback".into())
    }
}

/// Makes the bridge if it is missing, with its address, and brings it up. Pods may do so at the same time.
pub fn ensure_bridge(machine: &Netlink, bridge: &Bridge) -> Result<u32, Fault> {
    let what = || format!("make the bridge {}", bridge.name);
    let mut index = machine.index(&bridge.name).context(what)?;
    if index.is_none() {
        let mut message = Message::link(libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0, true);
        message.name(&bridge.name);
        // Left to itself a bridge takes the lowest address of its ports, which changes as pods come and go, and pods
        // would send to the old one until they ask again.
        message.attribute(libc::IFLA_ADDRESS, &hardware_address(&bridge.name));
        message.nested(libc::IFLA_LINKINFO, |info| info.attribute(IFLA_INFO_KIND, b"bridge\0"));
        unless_there(machine.ask(message).map(drop)).context(what)?;
        index = machine.index(&bridge.name).context(what)?;
    }
    let index = index.ok_or_else(|| Fault::new(FaultKind::System, format!("the bridge {} went away", bridge.name)))?;
    let addressed = machine.add_address(index, bridge.gateway, bridge.prefix_length);
    unless_there(addressed).context(|| format!("give {} the address {}", bridge.name, bridge.gateway))?;
    Ok(index)
}

/// Removes the bridge; one that is not there is fine.
pub fn remove_bridge(bridge: &Bridge) -> Result<(), Fault> {
    remove_link(&bridge.name)
}

/// Removes the machine's end of a pod's pair, and the pod's with it; one that is not there is fine.
pub fn remove_interface(pod_id: &str) -> Result<(), Fault> {
    remove_link(&interface_name(pod_id))
}

/// Takes the pod, whose namespace this process is in, off the bridge: the kernel would do so only a while after its end.
pub fn disconnect() -> Result<(), Fault> {
    remove_link(POD_INTERFACE)
}

fn remove_link(name: &str) -> Result<(), Fault> {
    let here = Netlink::open()?;
    let what = || format!("remove the interface {name}");
    let Some(index) = here.index(name).context(what)? else { return Ok(()) };
    let mut message = Message::new(libc::RTM_DELLINK, 0);
    message.interface(index, false);
    match here.ask(message) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        asked => asked.map(drop).context(what),
    }
}

/// Joins the pod, whose namespace this thread is in, to the bridge.
pub fn connect(machine: &Netlink, pod: &Netlink, port: &BridgePort, pod_id: &str) -> Result<(), Fault> {
    let bridge = ensure_bridge(machine, &port.bridge)?;
    let namespace =
        std::fs::File::open("/proc/thread-self/ns/net").context(|| "open the pod's network namespace".into())?;
    let name = interface_name(pod_id);
    let what = || format!("make the interface {name}");
    let mut message = Message::link(libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0, true);
    message.name(&name);
    message.attribute(libc::IFLA_MASTER, &bridge.to_ne_bytes());
    message.nested(libc::IFLA_LINKINFO, |info| {
        info.attribute(IFLA_INFO_KIND, b"veth\0");
        info.nested(IFLA_INFO_DATA, |data| {
            data.nested(VETH_INFO_PEER, |peer| {
                peer.interface(0, false);
                peer.name(POD_INTERFACE);
                peer.attribute(libc::IFLA_NET_NS_FD, &namespace.as_fd().as_raw_fd().to_ne_bytes());
            });
        });
    });
    machine.ask(message).map(drop).context(what)?;
    let index = pod.index(POD_INTERFACE).context(what)?;
    let index = index.ok_or_else(|| Fault::new(FaultKind::System, "the pod's interface is missing"))?;
    let what = || format!("give the pod the address {}", port.address);
    pod.add_address(index, port.address, port.bridge.prefix_length).context(what)?;
    pod.set_up(index).context(what)?;
    pod.add_default_route(port.bridge.gateway).context(|| format!("route by {}", port.bridge.gateway))
}

/// The machine's end of the pod's pair: a fixed-length name, as interface names have 15 bytes at most.
pub fn interface_name(pod_id: &str) -> String {
    format!("vly{:010x}", hash(pod_id.as_bytes()) & 0xff_ffff_ffff)
}

/// FNV-1a: short, and the same in every version of this program.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A locally administered address that is the name's own.
fn hardware_address(name: &str) -> [u8; 6] {
    let [first, second, third, fourth, fifth, ..] = hash(name.as_bytes()).to_be_bytes();
    [0x02, first, second, third, fourth, fifth]
}

fn unless_there(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

/// Puts this thread into a network namespace of its own, which plays a machine or a pod.
#[cfg(test)]
pub fn enter_new_namespace() -> io::Result<()> {
    sys::unshare(libc::CLONE_NEWNET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_fit_the_kernel() {
        assert_eq!(interface_name("a-very-long-pod-name-of-a-uid").len(), 13);
        assert_ne!(interface_name("a"), interface_name("b"));
    }
}
