//! NFS shares, mounted by the kernel itself: no mount helper has to be installed.

use crate::runtime::sys;
use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use volley_plan::node::nfs::{Attempt, Share};

/// The kernel asks a silent server for minutes; a server that lives answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Mounts the share with the newest version that both sides speak.
pub fn mount(share: &Share, place: &Path) -> Result<(), String> {
    let failed = |why: String| format!("mount failed: cannot mount {} by NFS: {why}", share.source());
    let call = |attempt: &Attempt| sys::mount(&share.source(), place, "nfs", attempt.flags, &attempt.data);
    // Without any words the kernel refuses the mount, but only if it knows the file system.
    let probe = Attempt { version: String::new(), flags: 0, data: String::new() };
    if let Err(error) = call(&probe)
        && error.raw_os_error() == Some(libc::ENODEV)
    {
        return Err(failed(
            "the kernel of this machine has no NFS client; load its module (`modprobe nfs`, on Debian and Ubuntu after \
             `apt-get install nfs-common`), or mount the share by other means and use a hostPath volume"
                .to_owned(),
        ));
    }
    let (server, client) = reach(share).map_err(failed)?;
    let mut refusals: Vec<(String, String)> = Vec::new();
    for attempt in share.attempts(server, client) {
        let Err(error) = call(&attempt) else { return Ok(()) };
        let text = explained(&error);
        match refusals.last_mut() {
            Some((versions, known)) if *known == text => *versions = format!("{versions}, {}", attempt.version),
            _ => refusals.push((attempt.version, text)),
        }
        // Old servers know a path by version 3 only.
        if !matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::ENOENT)) {
            break;
        }
    }
    let refusals: Vec<String> =
        refusals.into_iter().map(|(versions, text)| format!("version {versions}: {text}")).collect();
    Err(failed(refusals.join("; ")))
}

fn explained(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT) => ": the server exports no such path",
        Some(libc::EACCES | libc::EPERM) => {
            ": the server's exports do not admit this machine, or want a port below 1024"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

/// Addresses of the server and of this machine on the way to it.
fn reach(share: &Share) -> Result<(IpAddr, IpAddr), String> {
    let (name, port) = (share.server.trim_matches(['[', ']']), share.port());
    let found = (name, port).to_socket_addrs();
    let addresses = found.map_err(|error| format!("the server's name {name:?} cannot be resolved: {error}"))?;
    let mut refusal = "its name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                let own = stream.local_addr().map_err(|error| error.to_string())?;
                return Ok((address.ip(), own.ip()));
            }
            Err(error) => refusal = format!("{address}: {error}"),
        }
    }
    Err(format!("the server does not answer ({refusal}); see that it runs and that no firewall is between"))
}
