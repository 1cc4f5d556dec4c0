//! `volley image`: the images that pods run from, and which names mean something else here.
//!
//! A running process does the work, since it knows what is in use; without one it is done on the files. `work` is the
//! same for both, `progress` shows it, `map` is about names only.

pub mod map;
mod progress;
pub mod work;

use crate::control::{self, Answer, Ask};
use crate::failure;
use crate::home::Home;
use crate::output::{self, Output, Show};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use map::Map;
use progress::Progress;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use work::{ImageAsk, Listed};

const EXAMPLES: &str = "\
Examples:
  volley image ls
  volley image pull busybox:1.36
  docker save my/train:7 | volley image load -
  volley image map 'pytorch/*=host'          run them on this machine's own environment";

const LS_EXAMPLES: &str = "\
Examples:
  volley image ls
  volley image ls -o wide
  volley image ls -o json | jq -r '.[] | select(.usedBy == []) | .name'";

const PULL_EXAMPLES: &str = "\
Examples:
  volley image pull busybox
  volley image pull registry.lan:5000/train:7 python:3.13-slim
  DOCKER_CONFIG=/etc/registry volley image pull registry.lan:5000/private

Credentials are those of `docker login`: config.json in $DOCKER_CONFIG, else in ~/.docker. Mirrors and plain-http
registries are options of `volley up`, or keys of config.yaml in the home.";

const LOAD_EXAMPLES: &str = "\
Examples:
  volley image load train.tar
  docker save my/train:7 | volley image load -
  volley image load --name my/train:7 layout.tar.zst

Archives of docker, podman, skopeo and buildah are understood, also compressed with gzip or zstd.";

const SAVE_EXAMPLES: &str = "\
Examples:
  volley image save busybox -o busybox.tar
  volley image save my/train:7 my/train:8 -o both.tar --format oci";

const RM_EXAMPLES: &str = "\
Examples:
  volley image rm busybox
  volley image rm $(volley image ls -o name)";

/// List, fetch, move and remove images, or map their names
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ImageVerb {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Ls(Ls),
    Pull(Pull),
    Load(Load),
    Save(Save),
    Rm(Rm),
    Map(Map),
}

/// List the images that are here
#[derive(Args)]
#[command(after_help = LS_EXAMPLES)]
struct Ls {
    #[command(flatten)]
    output: Output,
}

/// Fetch images from their registries
#[derive(Args)]
#[command(after_help = PULL_EXAMPLES)]
struct Pull {
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Add the images of an archive
#[derive(Args)]
#[command(after_help = LOAD_EXAMPLES)]
struct Load {
    /// The archive; `-` reads it from standard input
    file: PathBuf,
    /// The name of an image that has none in the archive
    #[arg(long, value_name = "IMAGE")]
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// Write images to an archive
#[derive(Args)]
#[command(after_help = SAVE_EXAMPLES)]
struct Save {
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
    /// The archive to write; one that is there is replaced
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    file: PathBuf,
    /// What `docker load` reads, which is an OCI layout too, or a plain OCI layout
    #[arg(long, value_name = "FORMAT", default_value = "docker")]
    format: SaveFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SaveFormat {
    Docker,
    Oci,
}

/// Remove images
#[derive(Args)]
#[command(after_help = RM_EXAMPLES)]
struct Rm {
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<String>,
}

impl ImageVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        match self.what {
            What::Ls(verb) => verb.run(home),
            What::Pull(verb) => verb.run(home),
            What::Load(verb) => verb.run(home),
            What::Save(verb) => verb.run(home),
            What::Rm(verb) => verb.run(home),
            What::Map(verb) => verb.run(home),
        }
    }
}

impl Ls {
    fn run(self, home: &Home) -> Result<ExitCode> {
        let listed = ask(home, &ImageAsk::List, "")?;
        self.output.print(&listed)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Pull {
    fn run(self, home: &Home) -> Result<ExitCode> {
        let docker_config = docker_config();
        let pull = |image: &String| {
            let question = ImageAsk::Pull { image: image.clone(), docker_config: docker_config.clone() };
            ask(home, &question, &format!("pulling {image}"))
        };
        self.output.each(&self.images, pull)
    }
}

impl Load {
    fn run(self, home: &Home) -> Result<ExitCode> {
        let is_stdin = self.file == Path::new("-");
        let spool = if is_stdin { Some(Spool::of_stdin(home)?) } else { None };
        let archive = match &spool {
            Some(spool) => spool.path(),
            // The running process works in another folder.
            None => std::path::absolute(&self.file)?,
        };
        let question = ImageAsk::Load { archive, name: self.name };
        let mut loaded = ask(home, &question, &format!("loading {}", self.file.display()));
        if is_stdin {
            loaded = loaded.context("failed to load what came from standard input");
        }
        let loaded = loaded?;
        self.output.print_named(&loaded)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Save {
    fn run(self, home: &Home) -> Result<ExitCode> {
        let archive = std::path::absolute(&self.file)?;
        let question = ImageAsk::Save { images: self.images, format: self.format, archive };
        ask(home, &question, &format!("saving to {}", self.file.display()))?;
        output::print(&format!("{}\n", self.file.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Rm {
    fn run(self, home: &Home) -> Result<ExitCode> {
        let remove = |image: &String| ask(home, &ImageAsk::Remove { image: image.clone() }, "");
        Output { format: None }.each(&self.images, remove)
    }
}

impl Output {
    /// Does one after the other, whatever became of those before; the exit code tells whether all went well.
    fn each(self, images: &[String], act: impl Fn(&String) -> Result<Vec<Listed>>) -> Result<ExitCode> {
        let (mut done, mut code) = (Vec::new(), ExitCode::SUCCESS);
        for image in images {
            match act(image) {
                Ok(listed) => done.extend(listed),
                Err(error) => code = failure::tell(error),
            }
        }
        self.print_named(&done)?;
        Ok(code)
    }

    /// Without `-o`, the names alone.
    fn print_named(self, listed: &Vec<Listed>) -> Result<()> {
        match self.format {
            Some(_) => self.print(listed),
            None => output::print(&listed.names().into_iter().map(|name| name + "\n").collect::<String>()),
        }
    }
}

/// Has the running process do it, or does it here when there is none.
fn ask(home: &Home, question: &ImageAsk, label: &str) -> Result<Vec<Listed>> {
    let progress = Progress::new(label);
    let answer = control::ask_with(home, &Ask::Image(question.clone()), |step| progress.show(&step))?;
    match answer {
        Some(Answer::Images(listed)) => Ok(listed),
        Some(other) => bail!("the running process answered `{other:?}` to a request about images"),
        None => work::at_rest(home, question, progress),
    }
}

/// Where `docker login` keeps what it knows.
fn docker_config() -> Option<PathBuf> {
    let set = std::env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = set.or_else(|| std::env::home_dir().map(|home| home.join(".docker")))?;
    std::path::absolute(folder.join("config.json")).ok()
}

/// Standard input as a file without a name, since the process that loads it may be another one. It goes with us.
struct Spool {
    file: File,
}

impl Spool {
    fn of_stdin(home: &Home) -> Result<Spool> {
        if io::stdin().is_terminal() {
            bail!("standard input is a terminal\nhint: `docker save IMAGE | volley image load -`");
        }
        home.create()?;
        let path = home.folder().join(format!("volley.stdin-{}", std::process::id()));
        let spooled = File::create_new(&path).and_then(|mut file| {
            fs::remove_file(&path)?;
            io::copy(&mut io::stdin().lock(), &mut file)?;
            Ok(file)
        });
        let file =
            spooled.with_context(|| format!("failed to copy standard input to `{}`", home.folder().display()))?;
        Ok(Spool { file })
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
}

impl Show for Vec<Listed> {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let mut headings = vec!["REPOSITORY", "TAG", "DIGEST", "SIZE", "AGE", "USED BY"];
        if wide {
            headings.extend(["ID", "LAST USED"]);
        }
        let mut rows = vec![headings.into_iter().map(str::to_owned).collect()];
        rows.extend(self.iter().map(|image| image.row(wide)));
        rows
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|image| image.name.clone()).collect()
    }
}
