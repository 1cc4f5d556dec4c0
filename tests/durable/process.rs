//! `volley server` as a process: started, killed, told to stop, started again.

use crate::support::PATIENCE;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

/// `volley server …` on a home, with a database of one's own or the home's.
pub fn command(home: &Path, database: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
    command.arg("--home").arg(home).arg("server").env_remove("VOLLEY_DATABASE").stdin(Stdio::null());
    command.args(database.map(|url| format!("--database={url}")));
    command
}

impl Server {
    pub fn start(home: &Path, database: Option<&str>) -> Server {
        let mut command = command(home, database);
        let mut child = command
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("volley runs");
        let mut said = BufReader::new(child.stderr.take().expect("its words are piped"));
        let mut line = String::new();
        let mut all = String::new();
        while said.read_line(&mut line).expect("its words are read") > 0 {
            if let Some(url) = line.trim().strip_prefix("listening on http://") {
                let address = url.to_owned();
                // Whatever it says later must find a reader, else it would wait for one.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
                return Server { child, address };
            }
            all.push_str(&std::mem::take(&mut line));
        }
        child.wait().expect("waited for");
        panic!("the server ended before it listened: {all}");
    }

    /// At once, wherever it is: no handler of its own sees it.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }

    /// Asks it to end, as service managers do, and waits until it has.
    pub fn terminate(mut self) -> ExitStatus {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(asked.is_ok_and(|status| status.success()), "it is told to end");
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its state is known") {
                return status;
            }
            assert!(Instant::now() < end, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The key of the first user, which a new server leaves in its home.
pub fn key(home: &Path) -> String {
    std::fs::read_to_string(home.join("server/api-key")).expect("a key").trim().to_owned()
}

pub fn new_home(folder: &Path, name: &str) -> PathBuf {
    let home = folder.join(name);
    std::fs::create_dir(&home).expect("a home");
    home
}

pub fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
