//! Image references as Docker spells them, and which of them mean the machine itself. Pure.
//!
//! The node calls `resolve` with what stands in `image:`; the result is either `host` or a full reference.

use super::digest::Digest;
use std::fmt;

/// The registry that a name without a host means, and the folder that a name without a slash means.
pub const DEFAULT_REGISTRY: &str = "docker.io";
const DEFAULT_FOLDER: &str = "library";
const DEFAULT_TAG: &str = "latest";
/// The reserved reference for the machine's own file system.
pub const HOST: &str = "host";
/// As in the distribution specification's grammar.
const NAME_LENGTH_MAX: usize = 255;
const TAG_LENGTH_MAX: usize = 128;

/// A full image reference; `Display` is the canonical spelling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// What a container's root file system is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The machine's own file system.
    Host,
    Image(Reference),
}

/// One `PATTERN=TARGET` of `--image-map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageMap {
    pattern: String,
    target: Source,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("couldn't parse image name {0:?}: invalid reference format")]
    Format(String),
    #[error("couldn't parse image name {0:?}: invalid reference format: repository name ({1}) must be lowercase")]
    Uppercase(String, String),
    #[error("couldn't parse image name {0:?}: repository name must not be more than 255 characters")]
    TooLong(String),
    #[error("invalid image map {0:?}: want PATTERN=host or PATTERN=IMAGE")]
    Map(String),
}

impl Reference {
    /// Parses what a user wrote: a missing registry, folder or tag takes Docker's default.
    pub fn parse(text: &str) -> Result<Reference, ReferenceError> {
        let invalid = || ReferenceError::Format(text.to_owned());
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(Digest::parse(digest).map_err(|_| invalid())?)),
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid());
        }
        let (registry, path) = split_registry(name);
        if !is_registry(registry) || path.is_empty() {
            return Err(invalid());
        }
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(ReferenceError::Uppercase(text.to_owned(), path.to_owned()));
        }
        if !path.split('/').all(is_path_part) {
            return Err(invalid());
        }
        let repository = match registry == DEFAULT_REGISTRY && !path.contains('/') {
            true => format!("{DEFAULT_FOLDER}/{path}"),
            false => path.to_owned(),
        };
        if registry.len() + 1 + repository.len() > NAME_LENGTH_MAX {
            return Err(ReferenceError::TooLong(text.to_owned()));
        }
        let tag = match (tag, &digest) {
            (None, None) => Some(DEFAULT_TAG.to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        Ok(Reference { registry: registry.to_owned(), repository, tag, digest })
    }

    /// The registry's host, with its port if one was written.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name within the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Registry and repository, without tag and digest.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// What registries are asked for: the digest when there is one, else the tag.
    pub fn selector(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => DEFAULT_TAG,
        }
    }

    /// The same repository, pinned; this is the `imageID` of container statuses.
    pub fn with_digest(&self, digest: &Digest) -> Reference {
        Reference { tag: None, digest: Some(digest.clone()), ..self.clone() }
    }

    /// The shortest spelling that means the same, as `docker image ls` prints names.
    pub fn familiar(&self) -> String {
        let full = self.to_string();
        let prefixes = [format!("{DEFAULT_REGISTRY}/{DEFAULT_FOLDER}/"), format!("{DEFAULT_REGISTRY}/")];
        let short = prefixes.iter().find_map(|prefix| full.strip_prefix(prefix.as_str()));
        // A repository whose first part looks like a host must keep its registry.
        match short.filter(|short| Reference::parse(short).as_ref() == Ok(self)) {
            Some(short) => short.to_owned(),
            None => full,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(out, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(out, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// The first part is a host only if it looks like one: a dot, a port, `localhost`, or an upper-case letter.
fn split_registry(name: &str) -> (&str, &str) {
    match name.split_once('/') {
        Some(("index.docker.io", path)) => (DEFAULT_REGISTRY, path),
        Some((first, path))
            if first == "localhost"
                || first.contains(['.', ':'])
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (first, path)
        }
        _ => (DEFAULT_REGISTRY, name),
    }
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (registry, None),
    };
    let has_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|host| host.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') && host.contains(':'));
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    has_port && (is_address || host.split('.').all(is_label))
}

/// Lower-case letters and digits, joined by one dot, one or two underscores, or any number of dashes.
fn is_path_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = part.bytes().next().is_some_and(is_word) && part.bytes().next_back().is_some_and(is_word);
    let joints = part.split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    ends && joints
        .filter(|joint| !joint.is_empty())
        .all(|joint| matches!(joint, "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !tag.is_empty()
        && tag.len() <= TAG_LENGTH_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

impl ImageMap {
    /// Parses `PATTERN=host` or `PATTERN=IMAGE`; in the pattern `*` stands for any letters, `?` for one.
    pub fn parse(text: &str) -> Result<ImageMap, ReferenceError> {
        match text.rsplit_once('=') {
            Some((pattern, target)) if !pattern.is_empty() => {
                Ok(ImageMap { pattern: pattern.to_owned(), target: plain(target)? })
            }
            _ => Err(ReferenceError::Map(text.to_owned())),
        }
    }

    fn matches(&self, written: &str, reference: &Reference) -> bool {
        [written, &reference.familiar(), &reference.to_string(), &reference.name()]
            .iter()
            .any(|name| matches_glob(self.pattern.as_bytes(), name.as_bytes()))
    }
}

impl fmt::Display for ImageMap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Source::Host => write!(out, "{}={HOST}", self.pattern),
            Source::Image(reference) => write!(out, "{}={reference}", self.pattern),
        }
    }
}

/// What `image:` means on this machine: the first map that matches the written, short or canonical spelling wins.
pub fn resolve(written: &str, maps: &[ImageMap]) -> Result<Source, ReferenceError> {
    match plain(written)? {
        Source::Host => Ok(Source::Host),
        Source::Image(reference) => match maps.iter().find(|map| map.matches(written, &reference)) {
            Some(map) => Ok(map.target.clone()),
            None => Ok(Source::Image(reference)),
        },
    }
}

fn plain(written: &str) -> Result<Source, ReferenceError> {
    if written == HOST { Ok(Source::Host) } else { Reference::parse(written).map(Source::Image) }
}

/// Glob match in linear space: on a mismatch the last star takes one letter more.
fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[read] => {
                at += 1;
                read += 1;
            }
            Some(_) | None => match star {
                Some((star_at, star_read)) => {
                    star = Some((star_at, star_read + 1));
                    at = star_at + 1;
                    read = star_read + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIN: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn short_names_take_dockers_defaults() {
        for (written, canonical) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("bitnami/nginx", "docker.io/bitnami/nginx:latest"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
            ("localhost/x", "localhost/x:latest"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("localhost:5000/a/b:v1", "localhost:5000/a/b:v1"),
            ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"),
            ("[::1]:5000/x", "[::1]:5000/x:latest"),
            ("a/b__c-d.e:T_1", "docker.io/a/b__c-d.e:T_1"),
        ] {
            assert_eq!(Reference::parse(written).expect(written).to_string(), canonical);
        }
        let pinned = Reference::parse(&format!("nginx@{PIN}")).expect("pinned");
        assert_eq!(pinned.to_string(), format!("docker.io/library/nginx@{PIN}"));
        assert_eq!(pinned.selector(), PIN);
        let both = Reference::parse(&format!("nginx:1@{PIN}")).expect("tag and digest");
        assert_eq!((both.tag(), both.selector()), (Some("1"), PIN));
    }

    #[test]
    fn broken_names_are_refused_with_the_kubelets_words() {
        for broken in [
            "", ":", "a:", "a b", "a//b", "/a", "a/", "-a", "a..b", "a___b", "x@sha256:12", "a:b:c", "a:-b", "x.io:y/z",
        ] {
            let error = Reference::parse(broken).expect_err(broken).to_string();
            assert_eq!(error, format!("couldn't parse image name {broken:?}: invalid reference format"));
        }
        let upper = Reference::parse("nginX").expect_err("upper case").to_string();
        assert!(upper.ends_with("repository name (nginX) must be lowercase"), "{upper}");
        assert!(matches!(Reference::parse(&"a".repeat(256)), Err(ReferenceError::TooLong(_))));
    }

    #[test]
    fn the_reserved_name_and_the_maps_mean_the_machine() {
        let maps: Vec<ImageMap> = ["pytorch/*=host", "registry.io/team/*:dev=host", "old=new:1"]
            .iter()
            .map(|map| ImageMap::parse(map).expect("map"))
            .collect();
        let image = |name: &str| Ok(Source::Image(Reference::parse(name).expect("name")));
        assert_eq!(resolve("host", &[]), Ok(Source::Host));
        assert_eq!(resolve("docker.io/library/host", &[]), image("host"));
        assert_eq!(resolve("pytorch/pytorch:2.5", &maps), Ok(Source::Host));
        assert_eq!(resolve("docker.io/pytorch/pytorch", &maps), Ok(Source::Host));
        assert_eq!(resolve("registry.io/team/a/b:dev", &maps), Ok(Source::Host));
        assert_eq!(resolve("registry.io/team/a/b:prod", &maps), image("registry.io/team/a/b:prod"));
        assert_eq!(resolve("old", &maps), image("new:1"));
        assert!(resolve("NO", &maps).is_err());
        for broken in ["", "=host", "x", "x=", "x=UPPER"] {
            assert!(ImageMap::parse(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn globs_match_across_slashes() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "ab", false),
            ("a?c", "abc", true),
            ("**/x", "a/b/x", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches_glob(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_canonical_and_the_short_spelling_parse_to_the_same(
            name in "([a-z0-9]{1,4}(\\.[a-z]{1,3})?(:[0-9]{1,4})?/)?[a-z0-9]{1,5}(/[a-z0-9]{1,4})?(:[a-z0-9]{1,4})?"
        ) {
            if let Ok(reference) = Reference::parse(&name) {
                prop_assert_eq!(&Reference::parse(&reference.to_string()).expect("canonical"), &reference);
                prop_assert_eq!(&Reference::parse(&reference.familiar()).expect("familiar"), &reference);
            }
        }
    }
}
