//! The way out: pods reach beyond the machine, hidden behind its address.
//!
//! `nft` makes the rules, or `iptables` where that is what the machine has. All of them name the bridge, by which they are
//! found and taken back.

use super::subnet::{BRIDGE_PREFIX, subnet_mask};
use crate::runtime::spec::Bridge;
use crate::runtime::wire::{Context, Fault, FaultKind};
use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// Opens the way out; the error says what pods lack without it.
pub fn open(bridge: &Bridge) -> Result<(), Fault> {
    hide(bridge)?;
    pass_forward_chain(bridge)?;
    switch_forwarding_on().context(|| "switch forwarding on".into())
}

/// Takes back what `open` did. The last home on the machine also switches forwarding off, if one of them switched it on.
pub fn close(bridge: &Bridge) -> Result<(), Fault> {
    let name = &bridge.name;
    let mut undone = match nft(&format!("table ip volley_{name}\ndelete table ip volley_{name}\n")) {
        Err(fault) if fault.kind == FaultKind::Unsupported => Ok(()),
        other => other,
    };
    for (table, chain) in [("nat", "POSTROUTING"), ("filter", "FORWARD")] {
        undone = undone.and(remove_rules(table, chain, name));
    }
    undone.and(restore_forwarding(name).context(|| "switch forwarding off".into()))
}

fn hide(bridge: &Bridge) -> Result<(), Fault> {
    let Bridge { name, gateway, prefix_length: length } = bridge;
    let network = Ipv4Addr::from_bits(gateway.to_bits() & subnet_mask(*length));
    // The second chain tells both ends of a connection what size of packet the way allows: tunnels of clouds lose the
    // messages by which they would find out.
    let rules = format!(
        "table ip volley_{name}\ndelete table ip volley_{name}\ntable ip volley_{name} {{\n\
         chain outward {{ type nat hook postrouting priority 100; ip saddr {network}/{length} oifname != \"{name}\" masquerade; }}\n\
         chain fit {{ type filter hook forward priority -150; iifname \"{name}\" tcp flags syn tcp option maxseg size set rt mtu; }}\n}}\n"
    );
    let Err(first) = nft(&rules) else { return Ok(()) };
    hide_by_iptables(name, &format!("{network}/{length}")).map_err(|second| {
        Fault::unsupported(format!(
            "pods cannot reach beyond this machine ({first}; {second}); install nftables to let them"
        ))
    })
}

#[cfg(test)]
pub fn open_by_iptables(bridge: &Bridge, subnet: &str) -> Result<(), Fault> {
    hide_by_iptables(&bridge.name, subnet)?;
    pass_forward_chain(bridge)
}

fn hide_by_iptables(name: &str, subnet: &str) -> Result<(), Fault> {
    remove_rules("nat", "POSTROUTING", name)?;
    iptables(&["-t", "nat", "-A", "POSTROUTING", "-s", subnet, "!", "-o", name, "-j", "MASQUERADE"]).map(drop)
}

/// A firewall that forwards nothing by itself, as Docker leaves it, must let pods through, also from pod to pod.
fn pass_forward_chain(bridge: &Bridge) -> Result<(), Fault> {
    let name = &bridge.name;
    remove_rules("filter", "FORWARD", name)?;
    let is_shut = iptables(&["-S", "FORWARD"]).is_ok_and(|rules| rules.contains("-P FORWARD DROP"));
    if !is_shut {
        return Ok(());
    }
    iptables(&["-I", "FORWARD", "-i", name, "-j", "ACCEPT"])?;
    let answers = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"];
    iptables(&[&["-I", "FORWARD", "-o", name][..], &answers].concat()).map(drop)
}

/// Removes the rules of a chain that name the bridge; a machine without `iptables` has none.
fn remove_rules(table: &str, chain: &str, name: &str) -> Result<(), Fault> {
    let Ok(rules) = iptables(&["-t", table, "-S", chain]) else { return Ok(()) };
    for rule in rules.lines().filter(|rule| rule.split_whitespace().any(|word| word == name)) {
        let words: Vec<&str> = rule.split_whitespace().skip(1).collect();
        iptables(&[&["-t", table, "-D"][..], &words].concat())?;
    }
    Ok(())
}

fn iptables(words: &[&str]) -> Result<String, Fault> {
    let output = Command::new("iptables").arg("-w").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Fault::unsupported(format!("iptables: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Fault::unsupported(format!("iptables: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

fn nft(rules: &str) -> Result<(), Fault> {
    let child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| Fault::unsupported(format!("nft: {error}")))?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(rules.as_bytes()));
    let output = child.wait_with_output().context(|| "run nft".into())?;
    match output.status.success() {
        true => written.context(|| "hand rules to nft".into()),
        false => Err(Fault::unsupported(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

/// The names of the machine's network interfaces.
pub fn interfaces() -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    Ok(table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect())
}

/// Says that some home has switched forwarding on, in this network namespace and since the machine started.
fn forwarding_marker() -> io::Result<PathBuf> {
    let namespace = fs::read_link("/proc/thread-self/ns/net")?;
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(PathBuf::from(format!("/run/volley-forwarding-{number}")))
}

fn switch_forwarding_on() -> io::Result<()> {
    if fs::read_to_string(FORWARDING)?.trim() == "0" {
        fs::write(forwarding_marker()?, "")?;
        fs::write(FORWARDING, "1")?;
    }
    Ok(())
}

fn restore_forwarding(own_bridge: &str) -> io::Result<()> {
    let marker = forwarding_marker()?;
    let has_other_homes = interfaces()?.iter().any(|name| name.starts_with(BRIDGE_PREFIX) && name != own_bridge);
    if !has_other_homes && marker.exists() {
        fs::write(FORWARDING, "0")?;
        fs::remove_file(marker)?;
    }
    Ok(())
}
