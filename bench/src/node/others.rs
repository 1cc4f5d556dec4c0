//! The references: crun and runc run the same bundle, without anything around it.
//!
//! A shell that reads lines starts them, so that a start costs one fork and one exec, as in any caller. crun refuses to run
//! where both generations of cgroups have controllers, so its shell does not see the newer one.

use super::bell::Bell;
use super::bundle::Bundle;
use super::starts::{Taken, WAVE_MAX};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const SCRIPT: &str = "umount /sys/fs/cgroup/unified 2>/dev/null; while read -r line; do eval \"$line\"; done";

pub struct Other {
    name: &'static str,
    /// As the table calls it.
    pub words: &'static str,
    folder: PathBuf,
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Those of the two that are on the machine, with bundles for as many containers as are ever started at once.
    pub fn installed(folder: &Path, bundle: &Bundle) -> Result<Vec<Other>> {
        let is_there =
            |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        let mut others = Vec::new();
        for (name, words) in [("crun", "crun run, same bundle"), ("runc", "runc run, same bundle")] {
            if !is_there(name) {
                eprintln!("no {name} here to compare with; `tests/setup.sh bench` installs it");
                continue;
            }
            let folder = folder.join(name);
            for number in 0..WAVE_MAX {
                bundle.write(&folder.join(id(name, number)), &id(name, number))?;
            }
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = command.spawn()?;
            let input = shell.stdin.take().context("its input is piped")?;
            let output = BufReader::new(shell.stdout.take().context("its output is piped")?);
            others.push(Other { name, words, folder, shell, input, output });
        }
        Ok(others)
    }

    /// Starts so many at once, and removes them when all run.
    pub async fn wave(&mut self, count: usize, bell: &mut Bell) -> Result<Taken> {
        let (name, folder) = (self.name, self.folder.display().to_string());
        let first = Instant::now();
        let mut begun = Vec::new();
        for number in 0..count {
            let id = id(name, number);
            begun.push((id.clone(), Instant::now()));
            self.say(&format!(
                "{name} --root {folder}/state run --bundle {folder}/{id} {id} >/dev/null 2>>{folder}/errors &"
            ))?;
        }
        let heard = bell.hear(count).await;
        for (id, _) in &begun {
            self.say(&format!("{name} --root {folder}/state delete --force {id} 2>/dev/null"))?;
        }
        self.say("wait; echo gone")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let errors = || std::fs::read_to_string(self.folder.join("errors")).unwrap_or_default();
        let heard = heard.with_context(|| format!("`{name} run`: {}", errors()))?;
        ensure!(line == "gone\n", "the shell of {name} has ended");
        let mut taken = Taken::default();
        for (id, begun) in begun {
            let at = heard.get(&id).context("a container rang under another name")?;
            taken.running.push((*at - begun).as_secs_f64() * 1000.0);
        }
        taken.whole_ms = heard.values().max().map_or(0.0, |last| (*last - first).as_secs_f64() * 1000.0);
        Ok(taken)
    }

    fn say(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.input, "{line}")?)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ended_already = self.shell.kill();
        let _ended_already = self.shell.wait();
    }
}

/// Of this process alone: containers have cgroups by their ids.
fn id(name: &str, number: usize) -> String {
    format!("bench-{}-{name}-{number}", std::process::id())
}
