//! The home's own place on the machine: a bridge and its subnet, or a stretch of loopback addresses.
//!
//! The choice is recorded in the home, so that pods that outlive this process keep their addresses. A claim in the kernel,
//! which ends with the process, keeps two homes that start at once from choosing the same.

use super::NetworkError;
use crate::runtime::network::hash;
use crate::runtime::spec::Bridge;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// Names of bridges begin so; eight digits of the home follow.
pub const BRIDGE_PREFIX: &str = "volley";
/// 1021 pods, far beyond what one machine runs.
pub const PREFIX_LENGTH: u8 = 22;
/// Subnets are chosen from 10.88.0.0 up to 10.95.255.255 and from 10.97.0.0 up to 10.127.255.255: beside the services.
const FIRST_OCTETS: std::ops::RangeInclusive<u8> = 88..=127;
const SERVICES_OCTET: u8 = 96;
/// Pods without a bridge get 127.N.x.y, their services 127.N+1.x.y, for an even N of these.
const LOOPBACK_OCTETS: std::ops::Range<u8> = 64..254;
const RECORD: &str = "network.json";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    bridge: Option<Bridge>,
    loopback: Option<u8>,
}

/// Held as long as the home uses its place.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "the kernel gives the name up when it is dropped")] UnixDatagram);

/// The bridge that the home has used last, whether or not it is there.
pub fn recorded_bridge(home: &Path) -> Result<Option<Bridge>, NetworkError> {
    Ok(read(home)?.bridge)
}

/// The home's bridge: the recorded one unless somebody has taken its subnet while it was down.
pub fn bridge(home: &Path) -> Result<(Bridge, Claim), NetworkError> {
    let routes = Route::all().map_err(|source| NetworkError::Routes { source })?;
    let name = format!("{BRIDGE_PREFIX}{:08x}", hash(home.as_os_str().as_encoded_bytes()) as u32);
    let recorded = read(home)?.bridge.filter(|bridge| bridge.name == name).map(|bridge| bridge.gateway);
    let is_free = |gateway: &Ipv4Addr| !routes.iter().any(|route| route.interface != name && route.meets(*gateway));
    for gateway in recorded.into_iter().chain(candidates(&name)).filter(is_free) {
        if let Some(claim) = claim(&format!("volley-subnet-{gateway}"))? {
            let bridge = Bridge { name: name.clone(), gateway, prefix_length: PREFIX_LENGTH };
            write(home, &Record { bridge: Some(bridge.clone()), loopback: None })?;
            return Ok((bridge, claim));
        }
    }
    Err(NetworkError::NoSubnet)
}

/// The second octet of the home's loopback addresses.
pub fn loopback(home: &Path) -> Result<(u8, Claim), NetworkError> {
    let recorded = read(home)?.loopback;
    let places = u64::from(LOOPBACK_OCTETS.end - LOOPBACK_OCTETS.start) / 2;
    let start = hash(home.as_os_str().as_encoded_bytes()) % places;
    let candidates = (0..places).map(|step| LOOPBACK_OCTETS.start + 2 * ((start + step) % places) as u8);
    for octet in recorded.into_iter().chain(candidates) {
        if let Some(claim) = claim(&format!("volley-loopback-{octet}"))? {
            write(home, &Record { bridge: None, loopback: Some(octet) })?;
            return Ok((octet, claim));
        }
    }
    Err(NetworkError::NoSubnet)
}

/// All gateways of the range, beginning with the one that is the name's own.
fn candidates(name: &str) -> impl Iterator<Item = Ipv4Addr> + use<> {
    let subnets: Vec<Ipv4Addr> = FIRST_OCTETS
        .filter(|octet| *octet != SERVICES_OCTET)
        .flat_map(|octet| (0..=252).step_by(4).map(move |third| Ipv4Addr::new(10, octet, third, 1)))
        .collect();
    let start = (hash(name.as_bytes()) % subnets.len() as u64) as usize;
    (0..subnets.len()).map(move |step| subnets[(start + step) % subnets.len()])
}

/// Takes a name among the abstract sockets of this network namespace; none if somebody has it.
fn claim(name: &str) -> Result<Option<Claim>, NetworkError> {
    let claimed = SocketAddr::from_abstract_name(name).and_then(|address| UnixDatagram::bind_addr(&address));
    match claimed {
        Ok(socket) => Ok(Some(Claim(socket))),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(source) => Err(NetworkError::Routes { source }),
    }
}

fn read(home: &Path) -> Result<Record, NetworkError> {
    let path = home.join("node").join(RECORD);
    match fs::read(&path) {
        // A record that cannot be read is a choice forgotten, not a reason to stop.
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
        Err(source) => Err(NetworkError::Record { path, source }),
    }
}

fn write(home: &Path, record: &Record) -> Result<(), NetworkError> {
    let folder = home.join("node");
    let path = folder.join(RECORD);
    let written = fs::create_dir_all(&folder).and_then(|()| {
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        let draft = folder.join(format!("{RECORD}.new"));
        fs::write(&draft, text).and_then(|()| fs::rename(&draft, &path))
    });
    written.map_err(|source| NetworkError::Record { path, source })
}

/// A stretch of addresses that the machine sends somewhere already.
struct Route {
    interface: String,
    network: u32,
    mask: u32,
}

impl Route {
    fn all() -> io::Result<Vec<Route>> {
        // The thread's view: a process may have threads in several network namespaces.
        let table = fs::read_to_string("/proc/thread-self/net/route")?;
        Ok(table.lines().skip(1).filter_map(Route::parse).filter(|route| route.mask != 0).collect())
    }

    /// `eth0 000200C0 00000000 0001 0 0 0 00FFFFFF …`: numbers in the machine's order of the network's bytes.
    fn parse(line: &str) -> Option<Route> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number =
            |word: &str| u32::from_str_radix(word, 16).ok().map(|number| u32::from_be_bytes(number.to_ne_bytes()));
        Some(Route {
            interface: (*words.first()?).to_owned(),
            network: number(words.get(1)?)?,
            mask: number(words.get(7)?)?,
        })
    }

    fn meets(&self, gateway: Ipv4Addr) -> bool {
        let mask = self.mask & subnet_mask(PREFIX_LENGTH);
        gateway.to_bits() & mask == self.network & mask
    }
}

pub fn subnet_mask(prefix_length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_length.min(32))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_and_compared_by_their_overlap() {
        let route = Route::parse("eth0\t0000580A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0").unwrap();
        assert_eq!((route.interface.as_str(), route.network, route.mask), ("eth0", 0x0a58_0000, 0xffff_0000));
        assert!(route.meets(Ipv4Addr::new(10, 88, 4, 1)) && !route.meets(Ipv4Addr::new(10, 89, 4, 1)));
        let small = Route::parse("x 01045A0A 0 0 0 0 0 FFFFFFFF").unwrap();
        assert!(small.meets(Ipv4Addr::new(10, 90, 4, 1)), "one address within the subnet is enough");
    }

    #[test]
    fn a_home_keeps_its_place_and_shares_it_with_nobody() {
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (first, claim) = bridge(one.path()).unwrap();
        assert_eq!(first.name.len(), 14);
        let (second, _other_claim) = bridge(other.path()).unwrap();
        assert_ne!((&first.name, first.gateway), (&second.name, second.gateway));
        drop(claim);
        assert_eq!(bridge(one.path()).unwrap().0, first);
        let (octet, claim) = loopback(one.path()).unwrap();
        assert_ne!(loopback(other.path()).unwrap().0, octet);
        drop(claim);
        assert_eq!(loopback(one.path()).unwrap().0, octet);
    }

    #[test]
    fn subnets_are_many_and_leave_the_services_alone() {
        let all: Vec<Ipv4Addr> = candidates("a").collect();
        assert_eq!(all.len(), 39 * 64);
        assert!(all.iter().all(|gateway| gateway.octets()[1] != 96));
    }

    #[test]
    fn masks_follow_the_prefix_length() {
        let masks = [0, 16, 24, 32].map(subnet_mask);
        assert_eq!(masks, [0, 0xffff_0000, 0xffff_ff00, u32::MAX]);
    }
}
