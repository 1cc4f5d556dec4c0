//! `kubectl exec -it` from a real terminal, with every version: echo, window size, its change, and the exit code.

use crate::command::{PATIENCE, eventually};
use crate::installed::kubectls;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, pod};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// The tester's end of a terminal, and the program at the other.
struct Terminal {
    master: File,
    printed: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Terminal {
    /// Runs a command with a terminal of its own.
    fn open(command: &Command, rows: u16, columns: u16) -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave =
            OpenOptions::new().read(true).write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes())).unwrap();
        tcsetwinsize(&slave, size(rows, columns)).unwrap();
        // The command leads a session whose terminal is its standard input.
        let mut session = Command::new("setsid");
        session.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        session.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = session.spawn().unwrap();
        drop(session);
        let master = File::from(master);
        let (send, printed) = channel();
        let mut reader = master.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = reader.read(&mut buffer) {
                if count == 0 || send.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { master, printed, seen: String::new(), child }
    }

    fn types(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
    }

    /// Waits until the terminal shows a text, and forgets what came before it.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.printed.recv_timeout(rest) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(_) => panic!("the terminal does not show {text:?} but {:?}", self.seen),
            }
        }
        let end = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..end);
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

// K-EXEC-1
#[test]
fn every_kubectl_gives_a_terminal_that_can_be_resized() {
    let world = World::start(&[]);
    load_busybox(&world);
    world.create(&pod("shell", "exec sleep 1000").main(json!({"image": BUSYBOX})));
    world.until_ready("shell");
    for kubectl in kubectls() {
        let mut terminal = Terminal::open(&world.kubectl_with(kubectl, &["exec", "-it", "shell", "--", "sh"]), 31, 101);
        terminal.shows("# ");
        terminal.types("tty; stty size\n");
        terminal.shows("/dev/pts/");
        terminal.shows("31 101");
        terminal.resize(43, 77);
        // The change travels on its own; the shell is asked until it has arrived.
        terminal.types("until stty size | grep -q '43 77'; do sleep 0.05; done; echo resized $((40 + 2))\n");
        terminal.shows("resized 42");
        terminal.types("exit 7\n");
        assert_eq!(terminal.child.wait().unwrap().code(), Some(7), "kubectl 1.{}", kubectl.minor);
    }
}

#[test]
fn control_c_reaches_the_program_in_the_pod() {
    let world = World::start(&[]);
    load_busybox(&world);
    world.create(&pod("shell", "exec sleep 1000").main(json!({"image": BUSYBOX})));
    world.until_ready("shell");
    let kubectl = kubectls().last().unwrap();
    let mut terminal = Terminal::open(&world.kubectl_with(kubectl, &["exec", "-it", "shell", "--", "sh"]), 24, 80);
    terminal.shows("# ");
    terminal.types("sleep 1000; echo came back with $?\n");
    terminal.shows("sleep 1000");
    let is_asleep = || world.exec("shell", "ps | grep -c '[s]leep 1000'").stdout.trim() == "2";
    eventually("the sleep has begun", || is_asleep().then_some(()));
    terminal.types("\u{3}");
    terminal.types("echo still $((1 + 1)) here\n");
    terminal.shows("still 2 here");
    terminal.types("exit\n");
    // The shell remembers how its last command ended.
    assert!(terminal.child.wait().unwrap().code().is_some());
}
