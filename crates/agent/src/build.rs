//! Building images of jobs, in the background and each once: the code is fetched, handed to the container engine with a
//! Dockerfile, and pushed where there is a registry. What is there already is not built again.

use crate::container::{Engine, EngineError};
use crate::kube::Wake;
use crate::runner::Failure;
use crate::source;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::AbortHandle;
use volley_client::Client;
use volley_plan::agent::life::Image;
use volley_plan::launch::build::{Needs, Recipe, dockerfile};

/// The name of a generated file, which no source has.
const GENERATED: &str = "Dockerfile.volley";
/// Of what is built; more does not belong into an image's code.
const CONTEXT_BYTES_MAX: u64 = 2 << 30;
/// Last lines of a build that failed.
const LINES_MAX: usize = 20;

enum Status {
    Building { task: AbortHandle, waiting: BTreeSet<String> },
    Ready,
    Failed(String),
}

pub struct Builds {
    client: Client,
    folder: PathBuf,
    wake: Wake,
    environment: BTreeMap<String, String>,
    images: Mutex<BTreeMap<String, Status>>,
}

impl Builds {
    pub fn new(client: Client, folder: PathBuf, wake: Wake) -> Builds {
        let environment = std::env::vars_os();
        let environment =
            environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Builds { client, folder, wake, environment: environment.collect(), images: Mutex::default() }
    }

    /// How far the image is; an item that finds it being built waits for it, too.
    pub fn image(&self, recipe: Option<&Recipe>, key: &str) -> Image {
        let Some(recipe) = recipe else { return Image::Ready };
        match self.images.lock().get_mut(&recipe.image) {
            None => Image::Missing,
            Some(Status::Building { waiting, .. }) => {
                waiting.insert(key.to_owned());
                Image::Building
            }
            Some(Status::Ready) => Image::Ready,
            Some(Status::Failed(reason)) => Image::Failed(reason.clone()),
        }
    }

    /// Begins to build, or waits for those who do.
    pub fn begin(self: &Arc<Self>, recipe: &Recipe, key: &str) {
        let mut images = self.images.lock();
        if let Some(Status::Building { waiting, .. }) = images.get_mut(&recipe.image) {
            waiting.insert(key.to_owned());
            return;
        }
        let (builds, own) = (self.clone(), recipe.clone());
        let task = tokio::spawn(async move {
            let status = match builds.make(&own).await {
                Ok(()) => Status::Ready,
                Err(error) => Status::Failed(format!("image `{}`: {error}", own.image)),
            };
            let before = builds.images.lock().insert(own.image.clone(), status);
            if let Some(Status::Building { waiting, .. }) = before {
                waiting.iter().for_each(|key| (builds.wake)(key));
            }
        });
        let waiting = BTreeSet::from([key.to_owned()]);
        images.insert(recipe.image.clone(), Status::Building { task: task.abort_handle(), waiting });
    }

    /// An item waits no more; what nobody waits for is not built.
    pub fn cancel(&self, recipe: &Recipe, key: &str) {
        let mut images = self.images.lock();
        let Some(Status::Building { task, waiting }) = images.get_mut(&recipe.image) else { return };
        waiting.remove(key);
        if waiting.is_empty() {
            task.abort();
            images.remove(&recipe.image);
        }
    }

    /// A failure is told once: the next launch of the same job builds again.
    pub fn forget_failure(&self, recipe: &Recipe) {
        let mut images = self.images.lock();
        if matches!(images.get(&recipe.image), Some(Status::Failed(_))) {
            images.remove(&recipe.image);
        }
    }

    async fn make(&self, recipe: &Recipe) -> Result<(), Failure> {
        let engine = Engine::find(&self.environment).map_err(Failure::Refused)?;
        if engine.is_published(&recipe.image, recipe.is_pushed).await? {
            return Ok(());
        }
        // A folder that goes with this build, however it ends.
        let folder = Scratch::new(&self.folder, &recipe.image)?;
        let source = folder.0.join("source");
        source::fetch(&self.client, &recipe.source, &source).await?;
        let root = recipe.context.as_deref().map_or(source.clone(), |below| source.join(below));
        let (file, generated) = dockerfile_of(recipe, &root)?;
        let packed = tokio::task::spawn_blocking(move || pack(&root, generated.as_deref())).await;
        let archive = packed.map_err(std::io::Error::other)??;
        let mut options = vec![("dockerfile", file.as_str())];
        options.extend(recipe.platform.as_deref().map(|platform| ("platform", platform)));
        engine.build(&recipe.image, &options, archive).await.map_err(shortened)?;
        if recipe.is_pushed {
            engine.push(&recipe.image).await.map_err(|error| Failure::Refused(format!("cannot be pushed: {error}")))?;
        }
        Ok(())
    }
}

/// The Dockerfile's name, and its text where it is generated.
fn dockerfile_of(recipe: &Recipe, root: &Path) -> Result<(String, Option<String>), Failure> {
    if let Some(file) = &recipe.dockerfile {
        return match root.join(file).is_file() {
            true => Ok((file.clone(), None)),
            false => Err(Failure::Refused(format!("the source has no file `{file}` to build it by"))),
        };
    }
    let needs = Needs::of(|name| root.join(name).is_file());
    if needs == Needs::Nothing {
        tracing::warn!(image = recipe.image, "nothing says which packages the code needs");
    }
    Ok((GENERATED.to_owned(), Some(dockerfile(&recipe.base, needs, &recipe.entry_point))))
}

/// A tar archive of the source, without what git keeps; beside a generated Dockerfile it is in a folder of its own.
fn pack(root: &Path, generated: Option<&str>) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    if let Some(text) = generated {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, GENERATED, text.as_bytes())?;
    }
    let top = generated.map_or(Path::new(""), |_| Path::new("src"));
    add(&mut archive, root, top, &mut 0)?;
    archive.into_inner()
}

/// Adds what is in a folder, under this name.
fn add(archive: &mut tar::Builder<Vec<u8>>, folder: &Path, name: &Path, bytes: &mut u64) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == ".git" {
            continue;
        }
        let name = name.join(entry.file_name());
        *bytes += entry.metadata()?.len();
        if *bytes > CONTEXT_BYTES_MAX {
            return Err(std::io::Error::other(format!("the source has more than {CONTEXT_BYTES_MAX} bytes")));
        }
        archive.append_path_with_name(entry.path(), &name)?;
        if entry.file_type()?.is_dir() {
            add(archive, &entry.path(), &name, bytes)?;
        }
    }
    Ok(())
}

/// The last lines of what the engine said say why.
fn shortened(error: EngineError) -> Failure {
    match error {
        EngineError::Refused { message, .. } => {
            let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
            let shown = &lines[lines.len().saturating_sub(LINES_MAX)..];
            Failure::Refused(format!("cannot be built:\n{}", shown.join("\n")))
        }
        other => Failure::from(other),
    }
}

/// A folder that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(root: &Path, image: &str) -> std::io::Result<Scratch> {
        let name = image.rsplit(':').next().unwrap_or(image);
        let path = root.join(name);
        let scratch = Scratch(path.clone());
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is removed by the next build of the same image.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    // B-4
    #[test]
    fn an_archive_has_the_source_without_what_git_keeps() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/.git")).unwrap();
        fs::write(folder.path().join("a/.git/config"), "x").unwrap();
        fs::write(folder.path().join("a/t.py"), "print()").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        assert_eq!(listed(&pack(folder.path(), None).unwrap()), ["a", "a/t.py print()", "link"]);
        let expected = ["Dockerfile.volley FROM x", "src/a", "src/a/t.py print()", "src/link"];
        assert_eq!(listed(&pack(folder.path(), Some("FROM x")).unwrap()), expected);
    }

    fn listed(bytes: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(bytes);
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            names.push(format!("{} {text}", entry.path().unwrap().display()).trim_end().to_owned());
        }
        names.sort();
        names
    }
}
