//! Commands run by the tests: to their end, or beside the test while they print; and waiting for what comes about.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a condition may take to come true; far above what any of them needs, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// A command that prints while it runs.
pub struct Running {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Running {
    /// Starts a command that is killed when this is dropped.
    pub fn start(mut command: Command) -> Running {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("the command starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)).map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Running { child, lines }
    }

    /// The next line it prints.
    #[track_caller]
    pub fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line is printed in time")
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code().unwrap_or(-1);
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        panic!("the command does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, with text on its standard input.
pub fn finish(mut command: Command, stdin: &str) -> Output {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("the command starts");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    let text = stdin.to_owned();
    // A command that reads no input closes the pipe early, which is its right.
    let writer = std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("the command ends");
    writer.join().expect("the writer does not panic");
    Output {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// Asks again until the answer is there; for conditions that nothing can be watched for.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
