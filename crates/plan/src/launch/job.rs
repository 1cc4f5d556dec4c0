//! A job's own file, `wandb-job.json`: what runs, and by which command (J-1, J-2).

use super::Refusal;
use super::order::{Code, CodeSource, Fetcher, Job, Order};
use serde_json::Value;
use volley_api::kube::{at, text};

const ARTIFACT: &str = "wandb-artifact://_id/";

/// What a job brings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    pub image: Option<String>,
    pub code: Option<CodeSource>,
    /// The image that its code runs in without being built into one.
    pub base_image: Option<String>,
    pub entry_point: Vec<String>,
    /// How its image is built: a folder of the source, and a file in it.
    pub build_context: Option<String>,
    pub dockerfile: Option<String>,
    /// The version of Python that it was made with.
    pub runtime: Option<String>,
}

/// Which job an order runs.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// `entity/project/name:version`, as the workload is told it.
    pub reference: &'a str,
    /// Without project and version.
    pub name: &'a str,
    pub version: &'a str,
}

/// What code runs in.
#[derive(Debug, Clone, Default)]
pub struct Bases {
    /// The agent's own image, where neither the job nor the queue names one.
    pub chosen: Option<String>,
    /// Where nobody names one.
    pub usual: Option<String>,
    pub fetcher: Fetcher,
}

impl Order {
    /// The order runs this job. Its code is brought into the job's base image, the queue's, or the agent's (section 5.4,
    /// step 6).
    pub fn add_job(&mut self, job: Named<'_>, source: Source, bases: &Bases) {
        self.job = Some(Job {
            reference: job.reference.to_owned(),
            name: job.name.to_owned(),
            version: job.version.to_owned(),
            entry_point: source.entry_point,
        });
        self.is_image_job = source.image.is_some();
        self.image = source.image;
        let Some(code) = source.code else { return };
        let of_queue = self.config.pointer("/builder/base_image").and_then(Value::as_str).map(str::to_owned);
        let chosen = source.base_image.or(of_queue).or_else(|| bases.chosen.clone());
        self.code =
            Some(Code { source: code, is_default_base: chosen.is_none(), claim: None, fetcher: bases.fetcher.clone() });
        self.image = chosen.or_else(|| bases.usual.clone());
    }

    /// Its code is in this image, and is not brought there.
    pub fn run_built(&mut self, image: &str) {
        (self.code, self.image) = (None, Some(image.to_owned()));
    }
}

pub fn read(document: &Value) -> Result<Source, Refusal> {
    let wrong = |what: String| Refusal::new("J-2", "job", what, "make the job again with `volley job create`");
    let given = |path: &str| Some(text(document, path)).filter(|text| !text.is_empty()).map(str::to_owned);
    let needed = |path: &str| given(path).ok_or_else(|| wrong(format!("its file has no `{path}`")));
    let words = |path: &str| {
        let list = at(document, path).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|word| word.as_str().map(str::to_owned)).collect::<Vec<String>>()
    };
    let (mut image, mut code) = (None, None);
    match text(document, "source_type") {
        "image" => image = Some(needed("source.image")?),
        "repo" => {
            let (remote, commit) = (needed("source.git.remote")?, needed("source.git.commit")?);
            code = Some(CodeSource::Repository { remote, commit });
        }
        "artifact" => {
            let id = needed("source.artifact")?;
            code =
                Some(CodeSource::Artifact { id: id.strip_prefix(ARTIFACT).unwrap_or(&id).to_owned(), reference: None });
        }
        other => return Err(wrong(format!("its source is `{other}`, which is unknown"))),
    }
    Ok(Source {
        image,
        code,
        base_image: given("source.base_image"),
        entry_point: words("source.entrypoint"),
        build_context: given("source.build_context"),
        dockerfile: given("source.dockerfile"),
        runtime: given("runtime"),
    })
}

/// `entity/project/name:version` taken apart; the first two may be left out.
pub fn reference<'a>(written: &'a str, entity: &'a str, project: &'a str) -> Option<[&'a str; 3]> {
    match written.split('/').collect::<Vec<_>>()[..] {
        [entity, project, name] => Some([entity, project, name]),
        [project, name] => Some([entity, project, name]),
        [name] if !name.is_empty() => Some([entity, project, name]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // J-1, J-2
    #[test]
    fn a_job_says_what_runs() {
        let image = read(&json!({"source_type": "image", "source": {"image": "a:1"}})).unwrap();
        assert_eq!((image.image.as_deref(), image.code), (Some("a:1"), None));
        let git = json!({"source_type": "repo", "source": {"git": {"remote": "https://h/r", "commit": "c"},
            "entrypoint": ["python", "t.py"], "base_image": "b:2"}});
        let git = read(&git).unwrap();
        let expected = CodeSource::Repository { remote: "https://h/r".into(), commit: "c".into() };
        assert_eq!((git.code, git.base_image.as_deref()), (Some(expected), Some("b:2")));
        assert_eq!(git.entry_point, ["python", "t.py"]);
        let code =
            json!({"source_type": "artifact", "source": {"artifact": "wandb-artifact://_id/QQ==", "entrypoint": []}});
        assert_eq!(read(&code).unwrap().code, Some(CodeSource::Artifact { id: "QQ==".into(), reference: None }));
        for wrong in [json!({}), json!({"source_type": "image"}), json!({"source_type": "repo", "source": {"git": {}}})]
        {
            assert_eq!(read(&wrong).unwrap_err().rule, "J-2");
        }
    }

    // J-3
    #[test]
    fn a_job_is_named_with_or_without_its_project() {
        assert_eq!(reference("a/b/c:v1", "e", "p"), Some(["a", "b", "c:v1"]));
        assert_eq!(reference("b/c", "e", "p"), Some(["e", "b", "c"]));
        assert_eq!(reference("c", "e", "p"), Some(["e", "p", "c"]));
        assert_eq!(reference("a/b/c/d", "e", "p"), None);
    }
}
