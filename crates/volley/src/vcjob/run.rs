//! `volley vcjob run`: creates jobs from a file, or one from options as vcctl does.

use super::{JOB_NAME, JOBS};
use crate::home::Home;
use crate::output::{Output, Show};
use crate::target::{Cluster, NamespaceArgs, TargetArgs};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use volley_api::kube::quantity::Quantity;

const EXAMPLES: &str = "\
Examples:
  volley vcjob run -f job.yaml
  volley vcjob run -N hello -i busybox -- echo hello
  volley vcjob run -N train -i pytorch/pytorch -r 3 -m 3 -R cpu=2,memory=4Gi -L nvidia.com/gpu=1 -- python train.py
  generate | volley vcjob run -f -";

/// Create a job from a file or from options
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// The file with the job in YAML or JSON; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// The name of the job
    #[arg(short = 'N', long, value_name = "JOB")]
    name: Option<String>,
    /// The container image
    #[arg(short, long, default_value = "busybox", conflicts_with = "filename")]
    image: String,
    /// How many pods must run for the job to start
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, conflicts_with = "filename")]
    min: i32,
    /// How many pods there are
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, conflicts_with = "filename")]
    replicas: i32,
    /// What each pod requests
    #[arg(
        short = 'R',
        long,
        value_name = "LIST",
        default_value = "cpu=1000m,memory=100Mi",
        conflicts_with = "filename"
    )]
    requests: String,
    /// What each pod may use at most
    #[arg(
        short = 'L',
        long,
        value_name = "LIST",
        default_value = "cpu=1000m,memory=100Mi",
        conflicts_with = "filename"
    )]
    limits: String,
    /// The scheduler
    #[arg(short = 'S', long, value_name = "NAME", default_value = "volcano", conflicts_with = "filename")]
    scheduler: String,
    /// The command to run in place of the image's own
    #[arg(last = true, conflicts_with = "filename")]
    command: Vec<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    target: TargetArgs,
}

/// What was created.
#[derive(Serialize)]
#[serde(transparent)]
struct Created(Value);

impl Run {
    pub async fn run(&self, home: &Home) -> Result<()> {
        let jobs = self.jobs()?;
        let cluster = self.target.connect(home).await?;
        for job in jobs {
            // One after the other is told, so that what failed is known to be the next.
            self.output.print(&Created(self.create(&cluster, job).await?))?;
        }
        Ok(())
    }

    fn jobs(&self) -> Result<Vec<Value>> {
        let Some(path) = &self.filename else {
            let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) else {
                bail!("job name cannot be left blank\nhint: -N names it, or -f gives a file");
            };
            return Ok(vec![self.job(name)?]);
        };
        let mut jobs = read(path)?;
        if let Some(name) = &self.name {
            let [job] = jobs.as_mut_slice() else {
                bail!("`{}` has {} jobs, so -N cannot name one", path.display(), jobs.len())
            };
            job["metadata"]["name"] = json!(name);
        }
        Ok(jobs)
    }

    async fn create(&self, cluster: &Cluster, mut job: Value) -> Result<Value> {
        let own = job["metadata"]["namespace"].as_str().map(str::to_owned);
        let namespace = match (own, self.namespace.namespace.as_deref()) {
            (Some(own), Some(wanted)) if own != wanted => bail!(
                "the namespace from the provided object \"{own}\" does not match the namespace \"{wanted}\"\n\
                 hint: leave -n out, or change the file"
            ),
            (Some(own), _) => own,
            (None, _) => cluster.namespace(&self.namespace).to_owned(),
        };
        job["metadata"]["namespace"] = json!(namespace);
        // A misspelt field would be dropped without a word.
        let path = format!("{}?fieldValidation=Strict", JOBS.all(Some(&namespace))?);
        let created = cluster.create(&path, &job).await;
        created.with_context(|| match &self.filename {
            Some(file) => format!("the job in `{}` was refused", file.display()),
            None => "the job was refused".to_owned(),
        })
    }

    /// The job that vcctl makes of these options.
    fn job(&self, name: &str) -> Result<Value> {
        let mut container = json!({
            "name": name,
            "image": self.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": resources(&self.requests)?, "limits": resources(&self.limits)?},
        });
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        Ok(json!({
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "minAvailable": self.min,
                "schedulerName": self.scheduler,
                "tasks": [{
                    "replicas": self.replicas,
                    "template": {
                        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
                        "spec": {"restartPolicy": "Never", "containers": [container]},
                    },
                }],
            },
        }))
    }
}

impl Show for Created {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        vec![vec![format!("run job {} successfully", name(&self.0))]]
    }

    fn names(&self) -> Vec<String> {
        vec![format!("{JOB_NAME}/{}", name(&self.0))]
    }
}

fn name(job: &Value) -> &str {
    job["metadata"]["name"].as_str().unwrap_or_default()
}

/// `cpu=1,memory=1Gi` as a map.
fn resources(list: &str) -> Result<Map<String, Value>> {
    let statements = list.split(',').filter(|_| !list.is_empty());
    let pairs = statements.map(|statement| {
        let parts: Vec<&str> = statement.split('=').collect();
        let [name, amount] = parts[..] else {
            bail!("invalid argument syntax {statement}, expected <resource>=<value>");
        };
        Quantity::parse(amount).map_err(|problem| anyhow!("`{statement}`: {problem}"))?;
        Ok((name.to_owned(), json!(amount)))
    });
    pairs.collect()
}

/// The jobs of a file, and nothing else.
fn read(path: &Path) -> Result<Vec<Value>> {
    let (shown, text) = match path.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
            ("standard input".to_owned(), text)
        }
        false => {
            let text = std::fs::read_to_string(path).with_context(|| format!("failed to read `{}`", path.display()))?;
            (path.display().to_string(), text)
        }
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| {
        let place = error.location().map(|at| format!(":{}:{}", at.line(), at.column())).unwrap_or_default();
        anyhow!("{shown}{place} is not YAML: {}", plain(&error))
    })?;
    let jobs: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
    for (position, job) in jobs.iter().enumerate() {
        check_kind(job).map_err(|problem| anyhow!("{shown}, document {}: {problem}", position + 1))?;
    }
    if jobs.is_empty() {
        bail!("{shown} has no job in it");
    }
    Ok(jobs)
}

/// The parser's words without its picture of the place, which is told already.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn check_kind(job: &Value) -> Result<()> {
    let text = |field: &str| job[field].as_str().unwrap_or("<none>");
    if (text("apiVersion"), text("kind")) != (JOBS.api_version, "Job") {
        bail!(
            "it is of kind {} ({}), not a Job ({})\nhint: `kubectl apply -f` takes every kind",
            text("kind"),
            text("apiVersion"),
            JOBS.api_version
        );
    }
    if !job["metadata"].is_object() {
        bail!("it has no metadata\nhint: a job needs at least metadata.name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.yaml");
        std::fs::write(&path, text).unwrap();
        let error = read(&path).unwrap_err();
        format!("{error:#}").replace(&folder.path().display().to_string(), "")
    }

    #[test]
    fn a_broken_file_is_told_with_its_line() {
        let text = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: x\n bad: y\n";
        let told = told(text);
        assert!(told.starts_with("/job.yaml:5:") && told.contains("is not YAML: "), "{told}");
    }

    #[test]
    fn another_kind_is_refused_by_its_name_and_place() {
        let good = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n";
        let told_kind = told(&format!("{good}---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\n"));
        assert!(told_kind.starts_with("/job.yaml, document 2: it is of kind PyTorchJob (kubeflow.org/v1), not a Job"));
        assert_eq!(told("# nothing\n"), "/job.yaml has no job in it");
    }

    #[test]
    fn resources_are_read_as_vcctl_reads_them() {
        assert_eq!(
            Value::Object(resources("cpu=1000m,nvidia.com/gpu=1").unwrap()),
            json!({"cpu": "1000m", "nvidia.com/gpu": "1"})
        );
        assert!(resources("").unwrap().is_empty());
        let told = resources("cpu").unwrap_err().to_string();
        assert_eq!(told, "invalid argument syntax cpu, expected <resource>=<value>");
        assert!(resources("cpu=lots").unwrap_err().to_string().starts_with("`cpu=lots`: "));
    }
}
