//! Whether a job's code is built into an image, what that image is called and by which Dockerfile it is made (section 12 of
//! the specification). Code is otherwise brought into a base image when it starts (`code`).

use super::order::{CodeSource, Order};
use super::{Refusal, code, job};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Hex digits of a tag (B-3).
const TAG_DIGITS: usize = 16;
/// The Python of jobs that do not say theirs.
const PYTHON: &str = "3.12";
/// Whoever an image runs as, unless the launch says another.
const USER: u64 = 1000;
/// Of the generated file; another number makes other tags.
const EDITION: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Builder {
    /// Builds nothing: code is mounted.
    #[default]
    Noop,
    Docker {
        /// A repository without a tag; images stay on the machine where there is none.
        destination: Option<String>,
        platform: Option<String>,
    },
}

/// How an image is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// With its tag, which says all that it is made of.
    pub image: String,
    pub source: CodeSource,
    /// The folder of the source that is built.
    pub context: Option<String>,
    /// A file of that folder; without one it is generated.
    pub dockerfile: Option<String>,
    pub platform: Option<String>,
    pub is_pushed: bool,
    pub base: Base,
    pub entry_point: Vec<String>,
}

/// What a generated Dockerfile begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Major and minor.
    pub python: String,
    /// An image with an accelerator's libraries; Debian's.
    pub accelerator: Option<String>,
    pub user: u64,
}

/// What says which packages the code needs, the first that there is (B-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Requirements,
    Project,
    Frozen,
    Nothing,
}

impl Needs {
    pub fn file(self) -> Option<&'static str> {
        match self {
            Needs::Requirements => Some("requirements.txt"),
            Needs::Project => Some("pyproject.toml"),
            Needs::Frozen => Some("requirements.frozen.txt"),
            Needs::Nothing => None,
        }
    }

    pub fn of(has: impl Fn(&str) -> bool) -> Needs {
        let all = [Needs::Requirements, Needs::Project, Needs::Frozen];
        all.into_iter().find(|needs| needs.file().is_some_and(&has)).unwrap_or(Needs::Nothing)
    }
}

/// How the job's code is built, if it is; an order that is built runs the image that comes of it.
pub fn recipe(order: &Order, source: &job::Source, builder: &Builder) -> Result<Option<Recipe>, Refusal> {
    let Some(code) = &source.code else { return Ok(None) };
    let dockerfile = order.spec.overrides.dockerfile.clone().or_else(|| source.dockerfile.clone());
    let (destination, platform) = match builder {
        // A process runs in the machine's own environment.
        _ if order.spec.resource == "local-process" => return Ok(None),
        Builder::Noop if dockerfile.is_some() => {
            let what = "it is built by a Dockerfile, and this agent builds nothing";
            let hint = "set `builder.type: docker` in the agent's config, or launch an image";
            return Err(Refusal::new("B-1", "overrides.dockerfile", what, hint));
        }
        Builder::Noop => return Ok(None),
        // The job's author wants its code mounted.
        Builder::Docker { .. } if source.base_image.is_some() && dockerfile.is_none() => return Ok(None),
        Builder::Docker { destination, platform } => (destination.clone(), platform.clone()),
    };
    code::check(code)?;
    for path in dockerfile.iter().chain(&source.build_context) {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            let what = format!("`{path}` leads out of the source");
            return Err(Refusal::new("B-4", "overrides.dockerfile", what, "name a file of the source"));
        }
    }
    let mut recipe = Recipe {
        image: String::new(),
        source: code.clone(),
        context: source.build_context.clone(),
        dockerfile,
        platform,
        is_pushed: destination.is_some(),
        base: base(order, source)?,
        entry_point: source.entry_point.clone(),
    };
    let name = order.job.as_ref().map_or("", |job| job.name.as_str());
    let repository = destination.unwrap_or_else(|| format!("localhost/{}", repository(name)));
    recipe.image = format!("{repository}:{}", tag(&recipe));
    Ok(Some(recipe))
}

fn base(order: &Order, source: &job::Source) -> Result<Base, Refusal> {
    let settings = &order.config["builder"];
    let paths = ["/accelerator/base_image", "/cuda/base_image"];
    let accelerator = paths.iter().find_map(|path| settings.pointer(path));
    let accelerator = match accelerator {
        None => None,
        Some(image) => Some(image.as_str().filter(|image| is_image(image)).map(str::to_owned).ok_or_else(|| {
            let hint = "such as `nvidia/cuda:12.4.1-runtime-ubuntu22.04`";
            Refusal::new("B-8", "builder.accelerator.base_image", format!("{image} is no image"), hint)
        })?),
    };
    let python = source.runtime.as_deref().map(|version| version.split('.').take(2).collect::<Vec<_>>().join("."));
    let is_version = |version: &String| {
        version.split('.').all(|part| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()))
    };
    Ok(Base {
        python: python.filter(is_version).unwrap_or_else(|| PYTHON.to_owned()),
        accelerator,
        user: order.spec.user.unwrap_or(USER),
    })
}

/// One word that a Dockerfile can name; a digest, if any, is of SHA-256 (B-8).
fn is_image(text: &str) -> bool {
    let is_word = !text.is_empty() && !text.contains(|letter: char| letter.is_whitespace() || letter == '#');
    let is_digest = |digest: &str| {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        hex.len() == 64 && hex.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    is_word && text.split_once('@').is_none_or(|(_, digest)| is_digest(digest))
}

/// A name as repositories have them.
fn repository(name: &str) -> String {
    let made = super::names::dns(name, 100);
    if made.is_empty() { "launch".to_owned() } else { made }
}

/// Of everything that the image is made of: the source never changes under its name, so what it holds need not be read.
fn tag(recipe: &Recipe) -> String {
    let source = match &recipe.source {
        CodeSource::Artifact { id, .. } => format!("artifact {id}"),
        CodeSource::Repository { remote, commit } => format!("git {remote} {commit}"),
        CodeSource::Other(kind) => kind.clone(),
    };
    let parts = format!(
        "{EDITION}\n{source}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        recipe.context, recipe.dockerfile, recipe.platform, recipe.base, recipe.entry_point
    );
    let digest = Sha256::digest(parts.as_bytes());
    let hex = digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a text does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    hex[..TAG_DIGITS].to_owned()
}

/// The generated file: packages are installed in a stage of their own, so that a change of the code does not install them
/// again. The source is in the folder `src` of the context (B-5).
pub fn dockerfile(base: &Base, needs: Needs, entry_point: &[String]) -> String {
    let Base { python, accelerator, user } = base;
    let mut file = format!(
        "FROM python:{python} AS packages\nRUN pip install --no-cache-dir uv && uv venv --python python{python} /env\n"
    );
    let install = "uv pip install --no-cache --python /env/bin/python";
    file += &match needs {
        Needs::Requirements | Needs::Project => {
            let name = needs.file().unwrap_or_default();
            format!("COPY src/{name} /packages/{name}\nRUN cd /packages && {install} -r {name}\n")
        }
        Needs::Frozen => format!(
            "COPY src/{0} /packages/{0}\nRUN while read -r line; do {install} \"$line\" || echo \"could not install $line\"; \
             done < /packages/{0}\n",
            "requirements.frozen.txt"
        ),
        Needs::Nothing => String::new(),
    };
    match accelerator {
        None => file += &format!("FROM python:{python}-slim-bookworm\n"),
        Some(image) => {
            file += &format!(
                "FROM {image}\nRUN apt-get update && apt-get install -y --no-install-recommends python{python} \
                 && ln -sf /usr/bin/python{python} /usr/local/bin/python{python} \
                 && ln -sf /usr/bin/python{python} /usr/local/bin/python3 && rm -rf /var/lib/apt/lists/*\n"
            );
        }
    }
    let home = if *user == 0 { "/root" } else { "/home/launch" };
    file += "COPY --from=packages /env /env\n";
    file += "ENV PATH=/env/bin:$PATH VIRTUAL_ENV=/env PYTHONUNBUFFERED=1\n";
    if *user != 0 {
        file += &format!("RUN useradd --create-home --uid {user} launch\n");
    }
    file += &format!("WORKDIR {home}\nCOPY --chown={user} src/ {home}/\nUSER {user}\n");
    if !entry_point.is_empty() {
        file += &format!("ENTRYPOINT {}\n", serde_json::Value::from(entry_point.to_vec()));
    }
    file
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::order;
    use super::*;
    use serde_json::{Value, json};

    fn source() -> job::Source {
        let source = CodeSource::Repository { remote: "https://h/r".into(), commit: "abc".into() };
        job::Source { code: Some(source), entry_point: vec!["python".into(), "t.py".into()], ..job::Source::default() }
    }

    fn docker(destination: Option<&str>) -> Builder {
        Builder::Docker { destination: destination.map(str::to_owned), platform: None }
    }

    fn built(config: Value, source: &job::Source, builder: &Builder) -> Result<Option<Recipe>, Refusal> {
        recipe(&order(config), source, builder)
    }

    // B-1
    #[test]
    fn code_is_built_only_where_somebody_builds() {
        let plain = source();
        assert_eq!(built(json!({}), &plain, &Builder::Noop), Ok(None));
        assert!(built(json!({}), &plain, &docker(None)).unwrap().is_some());
        let image = job::Source { image: Some("a".into()), ..job::Source::default() };
        assert_eq!(built(json!({}), &image, &docker(None)), Ok(None));
        let based = job::Source { base_image: Some("b".into()), ..source() };
        assert_eq!(built(json!({}), &based, &docker(None)), Ok(None), "its code is mounted");
        let by_file = job::Source { dockerfile: Some("Dockerfile".into()), ..source() };
        let refusal = built(json!({}), &by_file, &Builder::Noop).unwrap_err();
        assert!(refusal.rule == "B-1" && refusal.hint.contains("builder.type: docker"), "{refusal}");
        let mut process = order(json!({}));
        process.spec.resource = "local-process".into();
        assert_eq!(recipe(&process, &plain, &docker(None)), Ok(None));
    }

    // B-2, B-3
    #[test]
    fn a_tag_says_all_that_an_image_is_made_of() {
        let image = |source: &job::Source, config: Value| built(config, source, &docker(Some("h/r"))).unwrap().unwrap();
        let first = image(&source(), json!({}));
        assert_eq!(first.image, image(&source(), json!({})).image);
        assert!(first.is_pushed && first.image.starts_with("h/r:") && first.image.len() == 4 + TAG_DIGITS);
        let mut others = vec![first.image.clone()];
        let commit = CodeSource::Repository { remote: "https://h/r".into(), commit: "def".into() };
        others.push(image(&job::Source { code: Some(commit), ..source() }, json!({})).image);
        others.push(image(&job::Source { runtime: Some("3.10.4".into()), ..source() }, json!({})).image);
        others.push(image(&job::Source { dockerfile: Some("D".into()), ..source() }, json!({})).image);
        others.push(image(&job::Source { build_context: Some("c".into()), ..source() }, json!({})).image);
        others.push(image(&source(), json!({"builder": {"accelerator": {"base_image": "cuda:1"}}})).image);
        let platform = Builder::Docker { destination: Some("h/r".into()), platform: Some("linux/arm64".into()) };
        others.push(built(json!({}), &source(), &platform).unwrap().unwrap().image);
        let count = others.len();
        others.sort();
        others.dedup();
        assert_eq!(others.len(), count);
        let local = built(json!({}), &source(), &docker(None)).unwrap().unwrap();
        assert!(local.image.starts_with("localhost/launch:") && !local.is_pushed, "{}", local.image);
    }

    // B-4, B-8
    #[test]
    fn what_leads_out_of_the_source_or_is_no_image_is_refused() {
        for path in ["/etc/passwd", "../x", "a/../../b"] {
            let wrong = job::Source { dockerfile: Some(path.into()), ..source() };
            assert_eq!(built(json!({}), &wrong, &docker(None)).unwrap_err().rule, "B-4");
        }
        for image in [json!("a b"), json!("a#b"), json!(3), json!("a@sha256:12"), json!("")] {
            let config = json!({"builder": {"accelerator": {"base_image": image}}});
            assert_eq!(built(config, &source(), &docker(None)).unwrap_err().rule, "B-8");
        }
    }

    // B-5, B-6
    #[test]
    fn the_generated_file_installs_what_the_code_needs() {
        let base = Base { python: "3.10".into(), accelerator: None, user: 1000 };
        let words = ["python".to_owned(), "a b.py".to_owned()];
        let file = dockerfile(&base, Needs::Requirements, &words);
        assert!(file.contains("FROM python:3.10-slim-bookworm\n") && file.contains("-r requirements.txt"), "{file}");
        assert!(file.ends_with("USER 1000\nENTRYPOINT [\"python\",\"a b.py\"]\n"), "{file}");
        let base = Base { accelerator: Some("cuda:1".into()), user: 0, ..base };
        let file = dockerfile(&base, Needs::Nothing, &[]);
        assert!(file.contains("FROM cuda:1\n") && file.contains("apt-get") && !file.contains("useradd"), "{file}");
        assert_eq!(Needs::of(|name| name != "requirements.txt"), Needs::Project);
        assert_eq!(Needs::of(|name| name == "requirements.frozen.txt"), Needs::Frozen);
        assert_eq!(Needs::of(|_| false), Needs::Nothing);
    }
}
