//! `volley kubeconfig`: prints the cluster's kubeconfig, or adds it to the user's own as the context `volley`.

use crate::home::{Home, write_private_durably};
use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  export KUBECONFIG=$(volley kubeconfig --path)
  volley kubeconfig > volley.yaml
  volley kubeconfig --merge && kubectl --context volley get nodes";

/// The name of our cluster, user and context.
const NAME: &str = "volley";
/// The parts of a kubeconfig that are lists of named entries.
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// Print the kubeconfig, or add it to your own
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Kubeconfig {
    /// Add a context `volley` to ~/.kube/config, or to the first file of $KUBECONFIG
    #[arg(long, conflicts_with = "path")]
    merge: bool,
    /// Print where the file is rather than what it says
    #[arg(long)]
    path: bool,
}

impl Kubeconfig {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let ours = home.kubeconfig();
        let text = match fs::read_to_string(&ours) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                bail!("no cluster was ever started in `{}`\nhint: `volley up` makes one", home.folder().display())
            }
            Err(error) => return Err(error).with_context(|| format!("failed to read `{}`", ours.display())),
        };
        match (self.merge, self.path) {
            (true, _) => merge_into(&users_file()?, &ours, &text)?,
            (false, true) => output::print(&format!("{}\n", ours.display()))?,
            (false, false) => output::print(&text)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The file that kubectl would write to.
fn users_file() -> Result<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    if let Some(first) = std::env::split_paths(&listed).find(|path| !path.as_os_str().is_empty()) {
        return Ok(first);
    }
    let home = std::env::home_dir().ok_or_else(|| anyhow!("this user has no home folder\nhint: set KUBECONFIG"))?;
    Ok(home.join(".kube/config"))
}

fn merge_into(target: &Path, ours: &Path, our_text: &str) -> Result<()> {
    // A link stays a link: the file that it names is replaced.
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    if fs::canonicalize(ours).is_ok_and(|ours| ours == target) {
        bail!("`{}` is volley's own file\nhint: unset KUBECONFIG, or set it to the file to add to", target.display());
    }
    let before = match fs::read_to_string(&target) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("failed to read `{}`", target.display())),
    };
    let theirs = parse(before.as_deref().unwrap_or_default(), &target)?;
    let merged = merged(theirs.clone(), &parse(our_text, ours)?)
        .with_context(|| format!("`{}` is not a kubeconfig", target.display()))?;
    if merged == theirs {
        eprintln!("`{}` has the context `{NAME}` already", target.display());
        return Ok(());
    }
    keep_copy(&target, before.is_some())?;
    write_private_durably(&target, &output::yaml(&merged)?)?;
    eprintln!("added the context `{NAME}` to `{}`", target.display());
    if merged["current-context"] != NAME {
        eprintln!("hint: `kubectl config use-context {NAME}` makes it the one in use");
    }
    Ok(())
}

fn keep_copy(target: &Path, is_there: bool) -> Result<()> {
    if !is_there {
        let folder = target.parent().unwrap_or(Path::new("."));
        return fs::create_dir_all(folder).with_context(|| format!("failed to make `{}`", folder.display()));
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".volley-backup");
    let copy = target.with_file_name(name);
    fs::copy(target, &copy).map(drop).with_context(|| format!("failed to copy to `{}`", copy.display()))
}

fn parse(text: &str, path: &Path) -> Result<Value> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    serde_saphyr::from_str(text).with_context(|| format!("`{}` is not YAML", path.display()))
}

/// Their file with our entries in it: those of our name are replaced, all else stays.
fn merged(mut theirs: Value, ours: &Value) -> Result<Value> {
    let root = theirs.as_object_mut().context("it is not a mapping")?;
    root.entry("apiVersion").or_insert_with(|| json!("v1"));
    root.entry("kind").or_insert_with(|| json!("Config"));
    for list in LISTS {
        let entry = ours[list].get(0).with_context(|| format!("our own file has no {list}"))?;
        let kept = root.entry(list).or_insert_with(|| json!([]));
        // kubectl writes an empty list as null.
        if kept.is_null() {
            *kept = json!([]);
        }
        let entries = kept.as_array_mut().with_context(|| format!("`{list}` is not a list"))?;
        match entries.iter_mut().find(|entry| entry["name"] == NAME) {
            Some(old) => *old = entry.clone(),
            None => entries.push(entry.clone()),
        }
    }
    let has_current = root.get("current-context").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !has_current {
        root.insert("current-context".to_owned(), json!(NAME));
    }
    Ok(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "\
apiVersion: v1
kind: Config
current-context: volley
clusters: [{name: volley, cluster: {server: 'https://127.0.0.1:6443'}}]
contexts: [{name: volley, context: {cluster: volley, user: volley}}]
users: [{name: volley, user: {client-key-data: YQ==}}]
";
    const THEIRS: &str = "\
apiVersion: v1
kind: Config
preferences: {}
current-context: work
clusters: [{name: work, cluster: {server: 'https://work:443', insecure-skip-tls-verify: true}}]
contexts: [{name: work, context: {cluster: work, user: me, namespace: '007'}}]
users: [{name: me, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: login, env: null, args: ['yes']}}}]
";

    fn value(text: &str) -> Value {
        parse(text, Path::new("test")).unwrap()
    }

    #[test]
    fn what_was_there_stays_and_the_context_in_use_too() {
        let merged = merged(value(THEIRS), &value(OURS)).unwrap();
        assert_eq!(merged["current-context"], "work");
        for list in LISTS {
            assert_eq!(merged[list][0], value(THEIRS)[list][0]);
            assert_eq!(merged[list][1], value(OURS)[list][0]);
        }
    }

    #[test]
    fn merging_again_changes_nothing_and_a_new_address_replaces_the_old() {
        let once = merged(value(THEIRS), &value(OURS)).unwrap();
        assert_eq!(merged(once.clone(), &value(OURS)).unwrap(), once);
        let moved = merged(once, &value(&OURS.replace("6443", "7000"))).unwrap();
        assert_eq!(moved["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(moved["clusters"][1]["cluster"]["server"], "https://127.0.0.1:7000");
    }

    #[test]
    fn empty_files_and_null_lists_take_it() {
        let merged = merged(value("clusters: null\ncurrent-context: ''\n"), &value(OURS)).unwrap();
        assert_eq!(merged, value(OURS));
    }

    #[test]
    fn the_file_survives_as_written_and_a_copy_of_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("config"));
        fs::write(&real, THEIRS).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        merge_into(&link, &folder.path().join("ours"), OURS).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(value(&fs::read_to_string(&real).unwrap()), merged(value(THEIRS), &value(OURS)).unwrap());
        assert_eq!(fs::read_to_string(folder.path().join("real.volley-backup")).unwrap(), THEIRS);
    }

    #[test]
    fn what_is_not_a_kubeconfig_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("config");
        fs::write(&target, "clusters: 7\n").unwrap();
        assert!(merge_into(&target, &folder.path().join("ours"), OURS).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "clusters: 7\n");
    }
}
