//! Image archives: `load` reads what `docker save`, `podman save`, `skopeo` and `buildah` write, `save` writes it.
//!
//! An archive with `index.json` is an OCI layout; one with only `manifest.json` is Docker's older form, for which a
//! manifest is composed from the image's configuration and the layers as they lie in the archive.

use super::digest::{Digest, Hasher};
use super::error::ImageError;
use super::inflate::{Compression, sniff};
use super::layout::off_thread;
use super::manifest::{self, Descriptor, Document, Index, Manifest, OCI_CONFIG, OCI_INDEX, OCI_LAYER, OCI_MANIFEST};
use super::pull::Resolved;
use super::reference::Reference;
use super::registry::DOCUMENT_SIZE_MAX;
use super::store::{Image, Inner, Store, remove_any};
use super::tape::{self, Kind, Tape};
use super::tree::clean;
use futures::FutureExt;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files in an archive: an image has at most 127 layers, an archive a few hundred images.
const MEMBERS_MAX: usize = 100_000;
const NAME_ANNOTATIONS: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// What `docker load` of any age reads; also an OCI layout, as newer `docker save` writes.
    Docker,
    Oci,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// An archive's files, each stored under its digest already.
#[derive(Default)]
struct Members {
    files: BTreeMap<PathBuf, (Digest, u64)>,
    /// Docker links repeated layers.
    links: BTreeMap<PathBuf, PathBuf>,
}

/// An image found in an archive, not yet unpacked.
struct Loaded {
    names: Vec<Reference>,
    resolved: Resolved,
}

impl Store {
    /// Loads all images of an archive; `name` is given to an image that has none in the archive.
    pub async fn load(&self, archive: &Path, name: Option<&Reference>) -> Result<Vec<Image>, ImageError> {
        let (inner, archive, name) = (self.inner.clone(), archive.to_owned(), name.cloned());
        let loaded = off_thread(move || inner.read_archive(&archive, name.as_ref())).await?;
        let mut images = Vec::new();
        for image in loaded {
            let layers = image.resolved.manifest.layers.iter().zip(&image.resolved.config.rootfs.diff_ids);
            let unpacks = layers.map(|(blob, diff_id)| self.inner.unpack_loaded(&blob.digest, diff_id));
            try_join_all(unpacks).await?;
            for name in &image.names {
                images.push(self.name(name, &image.resolved).await?);
            }
        }
        Ok(images)
    }

    /// Writes images into one archive; a failed one is removed.
    pub async fn save(
        &self,
        references: &[Reference],
        format: ArchiveFormat,
        archive: &Path,
    ) -> Result<(), ImageError> {
        let (inner, references, archive) = (self.inner.clone(), references.to_vec(), archive.to_owned());
        off_thread(move || {
            inner.write_archive(&references, format, &archive).inspect_err(|_| drop(std::fs::remove_file(&archive)))
        })
        .await
    }
}

impl Inner {
    async fn unpack_loaded(self: &Arc<Inner>, blob: &Digest, diff_id: &Digest) -> Result<(), ImageError> {
        let flight = self.flights.join(diff_id, |stage| {
            let (inner, blob, diff_id) = (self.clone(), blob.clone(), diff_id.clone());
            async move { inner.unpack_blob(&blob, &diff_id, &stage).await }.boxed()
        });
        flight.wait(|_| ()).await
    }

    fn read_archive(self: &Arc<Inner>, archive: &Path, name: Option<&Reference>) -> Result<Vec<Loaded>, ImageError> {
        let members = self.read_members(archive)?;
        let wrong = |message: &str| ImageError::malformed(archive.display().to_string(), message);
        let loaded = match (members.find("index.json"), members.find("manifest.json")) {
            (Some(index), _) => self.load_layout(&members, index, name)?,
            (None, Some(list)) => self.load_docker(&members, list, name)?,
            (None, None) => return Err(wrong("neither index.json nor manifest.json is in the archive")),
        };
        match loaded.iter().any(|image| image.names.is_empty()) {
            true => Err(wrong("an image has no name; give one")),
            false => Ok(loaded),
        }
    }

    /// Stores every file of the archive as a blob. What turns out to be unneeded has no name and is swept later.
    fn read_members(&self, archive: &Path) -> Result<Members, ImageError> {
        let failed = |error| ImageError::file("read", archive, error);
        let file = File::open(archive).map_err(failed)?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut head = [0; 4];
        let count = std::io::BufRead::fill_buf(&mut reader).map_err(failed)?.len().min(4);
        head[..count].copy_from_slice(&reader.buffer()[..count]);
        let stream: Box<dyn Read> = match sniff(&head) {
            Compression::None => Box::new(reader),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader).map_err(failed)?),
        };
        let mut tape = Tape::new(stream);
        let mut members = Members::default();
        while let Some(entry) = tape.next_entry().map_err(failed)? {
            let escapes = |refusal| ImageError::Refused { layer: archive.display().to_string(), refusal };
            let path = clean(&entry.path).map_err(escapes)?;
            match entry.kind {
                Kind::File => {
                    let stored = self.store_member(&mut tape)?;
                    members.files.insert(path, stored);
                }
                Kind::Symlink | Kind::HardLink => {
                    let target = String::from_utf8_lossy(&entry.link).into_owned();
                    let base = if entry.kind == Kind::Symlink {
                        path.parent().unwrap_or(Path::new("")).to_owned()
                    } else {
                        PathBuf::new()
                    };
                    members.links.insert(path, flatten(&base.join(target)));
                }
                Kind::Directory | Kind::Character | Kind::Block | Kind::Fifo | Kind::Sparse | Kind::Other => {}
            }
            if members.files.len() + members.links.len() > MEMBERS_MAX {
                return Err(ImageError::malformed(
                    archive.display().to_string(),
                    format!("more than {MEMBERS_MAX} files"),
                ));
            }
        }
        Ok(members)
    }

    fn store_member(&self, content: &mut impl Read) -> Result<(Digest, u64), ImageError> {
        let scratch = self.layout.scratch();
        let stored = || -> std::io::Result<(Digest, u64)> {
            let mut file = File::create_new(&scratch)?;
            let (mut hasher, mut size, mut buffer) = (Hasher::default(), 0, vec![0; 1 << 18]);
            loop {
                let count = content.read(&mut buffer)?;
                if count == 0 {
                    let digest = hasher.finish();
                    std::fs::rename(&scratch, self.layout.blob(&digest))?;
                    return Ok((digest, size));
                }
                file.write_all(&buffer[..count])?;
                hasher.update(&buffer[..count]);
                size += count as u64;
            }
        };
        let mut stored = stored;
        stored().map_err(|error| {
            drop(remove_any(&scratch));
            ImageError::file("write", &scratch, error)
        })
    }

    fn load_layout(
        self: &Arc<Inner>,
        members: &Members,
        index: &Digest,
        name: Option<&Reference>,
    ) -> Result<Vec<Loaded>, ImageError> {
        let Document::Index(index) = manifest::read(&self.document(index)?, OCI_INDEX)? else {
            return Err(ImageError::malformed("index.json", "not an index"));
        };
        // Docker's newer archives also carry the names in the older list.
        let mut tags: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if let Some(list) = members.find("manifest.json") {
            for image in self.docker_list(list)? {
                let config = image.config.rsplit('/').next().unwrap_or_default().to_owned();
                tags.entry(config).or_default().extend(image.repo_tags.unwrap_or_default());
            }
        }
        let mut loaded = Vec::new();
        for entry in &index.manifests {
            let (digest, manifest) = self.platform_manifest(entry)?;
            let config = manifest::read_config(&self.document(&manifest.config.digest)?, &manifest)?;
            let noted = NAME_ANNOTATIONS.iter().filter_map(|key| entry.annotations.get(*key)).take(1).cloned();
            let tagged = tags.get(manifest.config.digest.hex()).cloned().unwrap_or_default();
            let names = names(tagged.into_iter().chain(noted), name);
            let resolved = self.resolved(entry.digest.clone(), digest, manifest, config);
            loaded.push(Loaded { names, resolved });
        }
        Ok(loaded)
    }

    fn platform_manifest(&self, entry: &Descriptor) -> Result<(Digest, Manifest), ImageError> {
        let mut digest = entry.digest.clone();
        // An index within the layout's index is one image for several platforms.
        for _ in 0..2 {
            match manifest::read(&self.document(&digest)?, &entry.media_type)? {
                Document::Manifest(manifest) => return Ok((digest, manifest)),
                Document::Index(index) => digest = manifest::pick(&index, &self.options.platform)?.digest.clone(),
            }
        }
        Err(ImageError::malformed("the archive", "its indexes are nested too deeply"))
    }

    fn load_docker(
        self: &Arc<Inner>,
        members: &Members,
        list: &Digest,
        name: Option<&Reference>,
    ) -> Result<Vec<Loaded>, ImageError> {
        let mut loaded = Vec::new();
        for image in self.docker_list(list)? {
            let member = |path: &String| {
                members
                    .stored(Path::new(path))
                    .ok_or_else(|| ImageError::malformed("the archive", format!("{path} is missing")))
            };
            let descriptor = |kind: &str, (digest, size): (Digest, u64)| Descriptor {
                media_type: kind.to_owned(),
                digest,
                size,
                platform: None,
                annotations: BTreeMap::new(),
            };
            let mut layers = Vec::new();
            for layer in &image.layers {
                layers.push(descriptor(OCI_LAYER, member(layer)?));
            }
            let config = descriptor(OCI_CONFIG, member(&image.config)?);
            let manifest = Manifest { schema_version: 2, media_type: OCI_MANIFEST.to_owned(), config, layers };
            let bytes = serde_json::to_vec(&manifest).map_err(|error| ImageError::malformed("the manifest", error))?;
            let digest = Digest::of(&bytes);
            self.layout.write_blob(&digest, &bytes)?;
            let config = manifest::read_config(&self.document(&manifest.config.digest)?, &manifest)?;
            let names = names(image.repo_tags.unwrap_or_default().into_iter(), name);
            loaded.push(Loaded { names, resolved: self.resolved(digest.clone(), digest, manifest, config) });
        }
        Ok(loaded)
    }

    fn docker_list(&self, list: &Digest) -> Result<Vec<DockerImage>, ImageError> {
        serde_json::from_slice(&self.document(list)?).map_err(|error| ImageError::malformed("manifest.json", error))
    }

    fn document(&self, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        let path = self.layout.blob(digest);
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > DOCUMENT_SIZE_MAX) {
            return Err(ImageError::TooLarge { what: digest.to_string(), limit: DOCUMENT_SIZE_MAX });
        }
        self.layout.read_blob(digest)?.ok_or_else(|| ImageError::BlobGone(digest.clone()))
    }

    fn write_archive(&self, references: &[Reference], format: ArchiveFormat, archive: &Path) -> Result<(), ImageError> {
        let failed = |error| ImageError::file("write", archive, error);
        let mut index = Index { schema_version: 2, media_type: OCI_INDEX.to_owned(), manifests: Vec::new() };
        let mut list: Vec<DockerImage> = Vec::new();
        let mut blobs = std::collections::BTreeSet::new();
        let names = self.table.snapshot()?;
        for reference in references {
            let record = names.find(reference).ok_or_else(|| ImageError::NotFound(reference.to_string()))?;
            let manifest =
                self.manifest(&record.manifest)?.ok_or_else(|| ImageError::BlobGone(record.manifest.clone()))?;
            let size = self.document(&record.manifest)?.len() as u64;
            index.manifests.push(layout_entry(reference, &record.manifest, size));
            let path = |digest: &Digest| format!("blobs/sha256/{}", digest.hex());
            list.push(DockerImage {
                config: path(&manifest.config.digest),
                repo_tags: Some(reference.tag().map(|_| reference.familiar()).into_iter().collect()),
                layers: manifest.layers.iter().map(|layer| path(&layer.digest)).collect(),
            });
            blobs.extend([record.manifest.clone(), manifest.config.digest]);
            blobs.extend(manifest.layers.into_iter().map(|layer| layer.digest));
        }
        let mut out = BufWriter::with_capacity(1 << 18, File::create(archive).map_err(failed)?);
        let mut documents = vec![
            ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
            ("index.json", serde_json::to_value(&index).unwrap_or_default()),
        ];
        if format == ArchiveFormat::Docker {
            documents.push(("manifest.json", serde_json::to_value(&list).unwrap_or_default()));
        }
        for (name, value) in documents {
            let bytes = value.to_string().into_bytes();
            tape::write_file(&mut out, name, bytes.len() as u64, &mut bytes.as_slice()).map_err(failed)?;
        }
        for digest in blobs {
            let blob = File::open(self.layout.blob(&digest)).map_err(|_| ImageError::BlobGone(digest.clone()))?;
            let size = blob.metadata().map_err(failed)?.len();
            tape::write_file(&mut out, &format!("blobs/sha256/{}", digest.hex()), size, &mut BufReader::new(blob))
                .map_err(failed)?;
        }
        tape::write_end(&mut out).and_then(|()| out.flush()).map_err(failed)
    }
}

fn layout_entry(reference: &Reference, manifest: &Digest, size: u64) -> Descriptor {
    let tag = reference.tag().unwrap_or_default().to_owned();
    let notes = [(NAME_ANNOTATIONS[0].to_owned(), reference.to_string()), (NAME_ANNOTATIONS[1].to_owned(), tag)];
    Descriptor {
        media_type: OCI_MANIFEST.to_owned(),
        digest: manifest.clone(),
        size,
        platform: None,
        annotations: notes.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
    }
}

/// The archive's own names, else the one asked for. A bare tag is no name: it lacks the repository.
fn names(found: impl Iterator<Item = String>, fallback: Option<&Reference>) -> Vec<Reference> {
    let mut names: Vec<Reference> =
        found.filter(|name| name.contains([':', '/'])).filter_map(|name| Reference::parse(&name).ok()).collect();
    if names.is_empty() {
        names.extend(fallback.cloned());
    }
    names.sort();
    names.dedup();
    names
}

impl Members {
    fn find(&self, name: &str) -> Option<&Digest> {
        self.files.get(Path::new(name)).map(|(digest, _)| digest)
    }

    /// A file's digest, also through one link.
    fn stored(&self, path: &Path) -> Option<(Digest, u64)> {
        let path = self.links.get(path).map_or(path, PathBuf::as_path);
        self.files.get(path).cloned()
    }
}

/// `a/../b/layer.tar` names `b/layer.tar`; what climbs out of the archive names nothing in it.
fn flatten(path: &Path) -> PathBuf {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::Normal(part) => flat.push(part),
            std::path::Component::ParentDir => drop(flat.pop()),
            std::path::Component::CurDir | std::path::Component::RootDir | std::path::Component::Prefix(_) => {}
        }
    }
    flat
}
