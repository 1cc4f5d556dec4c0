//! Which pod has which address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Addresses of one network, handed out in turn: one that was given back rests until all others had their turn, since
/// others still remember whose it was.
pub struct Leases {
    first: u32,
    count: u32,
    next: u32,
    by_pod: BTreeMap<String, Ipv4Addr>,
}

impl Leases {
    /// `count` addresses from `first` on.
    pub fn new(first: Ipv4Addr, count: u32) -> Leases {
        Leases { first: first.to_bits(), count, next: 0, by_pod: BTreeMap::new() }
    }

    /// The pod's address; the same when asked again, none when all are taken.
    pub fn take(&mut self, pod_uid: &str) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_pod.get(pod_uid) {
            return Some(*address);
        }
        let taken: BTreeSet<Ipv4Addr> = self.by_pod.values().copied().collect();
        for _try in 0..self.count {
            let address = Ipv4Addr::from_bits(self.first + self.next);
            self.next = (self.next + 1) % self.count;
            if !taken.contains(&address) {
                self.by_pod.insert(pod_uid.to_owned(), address);
                return Some(address);
            }
        }
        None
    }

    /// Notes that a pod has an address already.
    pub fn adopt(&mut self, pod_uid: &str, address: Ipv4Addr) {
        let place = address.to_bits().wrapping_sub(self.first);
        if place < self.count {
            self.by_pod.insert(pod_uid.to_owned(), address);
            self.next = self.next.max(place + 1) % self.count;
        }
    }

    pub fn release(&mut self, pod_uid: &str) {
        self.by_pod.remove(pod_uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(count: u32) -> Leases {
        Leases::new(Ipv4Addr::new(10, 88, 0, 2), count)
    }

    #[test]
    fn addresses_are_given_in_turn_and_once_each() {
        let mut leases = leases(3);
        let [a, b] = ["a", "b"].map(|pod| leases.take(pod).unwrap());
        assert_eq!((a, b), (Ipv4Addr::new(10, 88, 0, 2), Ipv4Addr::new(10, 88, 0, 3)));
        assert_eq!(leases.take("a"), Some(a), "asked again");
        leases.release("a");
        assert_eq!(leases.take("c"), Some(Ipv4Addr::new(10, 88, 0, 4)), "a's address rests");
        assert_eq!(leases.take("d"), Some(a));
        assert_eq!(leases.take("e"), None, "all are taken");
    }

    #[test]
    fn a_pod_of_before_keeps_its_address() {
        let mut leases = leases(300);
        leases.adopt("old", Ipv4Addr::new(10, 88, 1, 0));
        leases.adopt("foreign", Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(leases.take("old"), Some(Ipv4Addr::new(10, 88, 1, 0)));
        assert_eq!(leases.take("new"), Some(Ipv4Addr::new(10, 88, 1, 1)));
        assert_eq!(leases.take("foreign"), Some(Ipv4Addr::new(10, 88, 1, 2)));
    }
}
