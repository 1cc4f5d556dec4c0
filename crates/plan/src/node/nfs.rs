//! How an NFS share is mounted by the kernel alone: the words that a mount helper would otherwise put together.

use std::net::IpAddr;

const PORT: u16 = 2049;
/// Newest first, as mount helpers try them.
const VERSIONS: [&str; 4] = ["4.2", "4.1", "4.0", "3"];

/// `ro` as a bit of mount(2).
const READ_ONLY: u64 = 1;
/// Options that are bits of mount(2); the rest goes to the file system as text.
const FLAGS: [(&str, u64); 8] = [
    ("ro", READ_ONLY),
    ("nosuid", 2),
    ("nodev", 4),
    ("noexec", 8),
    ("sync", 16),
    ("noatime", 1 << 10),
    ("nodiratime", 1 << 11),
    ("relatime", 1 << 21),
];
/// Options that speak to mount helpers and boot scripts; the kernel would refuse them.
const HELPER_OPTIONS: [&str; 15] = [
    "rw", "suid", "dev", "exec", "async", "atime", "diratime", "defaults", "auto", "noauto", "_netdev", "nofail", "bg",
    "fg", "user",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub server: String,
    pub path: String,
    pub is_read_only: bool,
    options: Vec<String>,
}

/// One call of mount(2) with the type `nfs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub version: String,
    pub flags: u64,
    pub data: String,
}

impl Share {
    pub fn new(server: &str, path: &str, is_read_only: bool, options: &[String]) -> Self {
        let options = options.iter().flat_map(|option| option.split(',')).map(|option| option.trim().to_owned());
        let options = options.filter(|option| !option.is_empty()).collect();
        Share { server: server.to_owned(), path: path.to_owned(), is_read_only, options }
    }

    /// `server:/path`, as mount(2) and people name it.
    pub fn source(&self) -> String {
        let server = self.server.trim_matches(['[', ']']);
        let server = if server.contains(':') { format!("[{server}]") } else { server.to_owned() };
        format!("{server}:{}", self.path)
    }

    /// Where the server answers.
    pub fn port(&self) -> u16 {
        self.value_of(&["port"]).and_then(|port| port.parse().ok()).filter(|port| *port != 0).unwrap_or(PORT)
    }

    fn value_of(&self, names: &[&str]) -> Option<&str> {
        let pairs = self.options.iter().filter_map(|option| option.split_once('='));
        pairs.filter(|(name, _)| names.contains(name)).map(|(_, value)| value).next_back()
    }

    /// What to try in turn, until the server speaks one of the versions.
    pub fn attempts(&self, server: IpAddr, client: IpAddr) -> Vec<Attempt> {
        let mut flags = if self.is_read_only { READ_ONLY } else { 0 };
        let mut words = vec![format!("addr={server}"), format!("clientaddr={client}")];
        for option in &self.options {
            let name = option.split_once('=').map_or(option.as_str(), |(name, _)| name);
            let flag = FLAGS.iter().find(|(word, _)| word == option);
            match (flag, name) {
                (Some((_, bit)), _) => flags |= bit,
                (None, "vers" | "nfsvers" | "retry") => {}
                (None, _) if HELPER_OPTIONS.contains(&name) => {}
                (None, _) => words.push(option.clone()),
            }
        }
        let stated = self.value_of(&["vers", "nfsvers"]).map(|version| vec![version]);
        let attempt = |version: &str| {
            // Locks of version 3 need a daemon that nobody starts here; without it they hold on this machine only.
            let locks = if version == "3" && !words.iter().any(|word| word.ends_with("lock")) { ",nolock" } else { "" };
            Attempt { version: version.to_owned(), flags, data: format!("vers={version},{}{locks}", words.join(",")) }
        };
        stated.unwrap_or(VERSIONS.to_vec()).into_iter().map(attempt).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(options: &[&str], is_read_only: bool) -> Vec<(u64, String)> {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let share = Share::new("files", "/srv", is_read_only, &options);
        let (server, client) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        share.attempts(server, client).into_iter().map(|attempt| (attempt.flags, attempt.data)).collect()
    }

    #[test]
    fn versions_are_tried_from_the_newest_to_the_oldest() {
        let expected = ["vers=4.2,", "vers=4.1,", "vers=4.0,", "vers=3,"];
        let made = attempts(&[], false);
        for ((flags, data), version) in made.iter().zip(expected) {
            assert_eq!((*flags, data.starts_with(version)), (0, true), "{data}");
        }
        assert_eq!(made[0].1, "vers=4.2,addr=10.0.0.1,clientaddr=10.0.0.2");
        assert_eq!(made[3].1, "vers=3,addr=10.0.0.1,clientaddr=10.0.0.2,nolock");
    }

    #[test]
    fn mount_options_become_flags_words_or_nothing() {
        let made = attempts(&["nfsvers=4.1", "hard,noatime", "_netdev", "rsize=1048576", "retry=3"], true);
        let data = "vers=4.1,addr=10.0.0.1,clientaddr=10.0.0.2,hard,rsize=1048576";
        assert_eq!(made, [(1 | 1 << 10, data.to_owned())]);
    }

    #[test]
    fn a_share_is_named_as_the_kernel_wants_it() {
        let source = |server: &str| Share::new(server, "/srv", false, &[]).source();
        assert_eq!(source("10.0.0.1"), "10.0.0.1:/srv");
        assert_eq!(source("fd00::1"), "[fd00::1]:/srv");
        assert_eq!(source("[fd00::1]"), "[fd00::1]:/srv");
        assert_eq!(Share::new("a", "/", false, &["port=20490".to_owned()]).port(), 20490);
        assert_eq!(Share::new("a", "/", false, &[]).port(), 2049);
    }
}
