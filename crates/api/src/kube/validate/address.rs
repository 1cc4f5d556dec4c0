//! IP addresses and networks in text, judged as leniently as the reference judges them.

use super::place::Place;
use crate::kube::names::{parse_ip, parse_network};
use std::net::IpAddr;

/// Whether the text is an address; notes if it is not.
pub fn ip(address: &Place) -> bool {
    let is_address = parse_ip(address.text("")).is_some();
    let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    address.invalid_if(!is_address, "", address.text(""), detail);
    is_address
}

pub fn network(place: &Place, text: &str) {
    let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    place.invalid_if(parse_network(text).is_none(), "", text, detail);
}

/// Where pods have no network of their own, each has a loopback address of its own from this range: a cluster of one
/// machine may well send traffic there.
fn is_pod_of_this_machine(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 127 && (64..=253).contains(&v4.octets()[1]))
}

/// Addresses that traffic cannot be sent to from another machine.
pub fn endpoint_ip(place: &Place) {
    let text = place.text("");
    let Some(address) = parse_ip(text) else { return place.invalid("", text, "must be a valid IP address") };
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let unspecified = format!("may not be unspecified ({text})");
    let loopback = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
    place.invalid_if(address.is_unspecified(), "", text, &unspecified);
    let is_unreachable = address.is_loopback() && !is_pod_of_this_machine(address);
    place.invalid_if(is_unreachable, "", text, loopback);
    place.invalid_if(link_local, "", text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    let multicast = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
    place.invalid_if(local_multicast, "", text, multicast);
}

/// Whether `inner` lies within `outer` and is smaller.
pub fn is_strict_subset(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    fn masked(address: IpAddr, bits: u32) -> (bool, u128) {
        let (width, number) = match address {
            IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
            IpAddr::V6(v6) => (128, v6.to_bits()),
        };
        (width == 32, number.checked_shr(width - bits).unwrap_or(0))
    }
    inner.1 > outer.1 && masked(inner.0, outer.1) == masked(outer.0, outer.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_leniently() {
        for good in ["10.0.0.1", "010.0.0.1", "::1", "2001:db8::ffff"] {
            assert!(parse_ip(good).is_some(), "{good}");
        }
        for bad in ["", "10.0.0", "10.0.0.256", "a.b.c.d", "10.0.0.+1", "1.2.3.4.5"] {
            assert!(parse_ip(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn networks_contain_smaller_ones() {
        let network = |text| parse_network(text).expect("a network");
        assert!(is_strict_subset(network("10.1.0.0/16"), network("10.0.0.0/8")));
        assert!(is_strict_subset(network("10.1.0.0/16"), network("0.0.0.0/0")));
        assert!(!is_strict_subset(network("10.0.0.0/8"), network("10.0.0.0/8")));
        assert!(!is_strict_subset(network("11.0.0.0/16"), network("10.0.0.0/8")));
        assert!(!is_strict_subset(network("::/16"), network("0.0.0.0/0")));
        assert!(parse_network("10.0.0.0/33").is_none() && parse_network("10.0.0.0").is_none());
    }
}
