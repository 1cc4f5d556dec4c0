//! The agent's settings: `launch-config.yaml`, the environment and the command line, read once. `plan::agent::config` says
//! what they mean.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use volley_plan::agent::config::{self, Config, Flags, Problem};

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("failed to read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("`{}` cannot be used:\n{}", path.display(), listed(problems))]
    Wrong { path: PathBuf, problems: Vec<Problem> },
    #[error("{0}")]
    Given(String),
}

fn listed(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("  {problem}")).collect::<Vec<_>>().join("\n")
}

/// Where W&B's agent looks for the file.
pub fn usual_path(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = environment.get("WANDB_CONFIG_DIR").map(PathBuf::from);
    let usual = || environment.get("HOME").map(|home| Path::new(home).join(".config/wandb"));
    Some(folder.or_else(usual)?.join("launch-config.yaml"))
}

/// Docker's own file, as `docker login` writes it; null where there is none that can be read.
pub fn docker(environment: &BTreeMap<String, String>) -> Value {
    let usual = || environment.get("HOME").map(|home| Path::new(home).join(".docker"));
    let folder = environment.get("DOCKER_CONFIG").map(PathBuf::from).or_else(usual);
    let text = folder.and_then(|folder| fs::read_to_string(folder.join("config.json")).ok());
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// The settings, and what is odd about the file. A file that is named must be there, the usual one may be missing.
pub fn load(
    named: Option<&Path>,
    environment: &BTreeMap<String, String>,
    flags: &Flags,
) -> Result<(Config, Vec<String>), SettingsError> {
    let mut told = Vec::new();
    let path = named.map(Path::to_owned).or_else(|| usual_path(environment));
    let read = match &path {
        None => None,
        Some(path) => match fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => None,
            Err(source) => return Err(SettingsError::Read { path: path.clone(), source }),
        },
    };
    let mut settings = Config::default();
    if let (Some(text), Some(path)) = (read, path) {
        let read = config::read(&text).map_err(|problems| SettingsError::Wrong { path: path.clone(), problems })?;
        told.extend(read.warnings.iter().map(|problem| format!("{}: {problem}", path.display())));
        settings = read.config;
    }
    let settings = config::settle(settings, environment, flags).map_err(SettingsError::Given)?;
    Ok((settings, told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use volley_plan::agent::capacity::Limit;

    //
    #[test]
    fn the_usual_file_may_be_missing_and_a_named_one_may_not() {
        let folder = tempfile::tempdir().unwrap();
        let home = BTreeMap::from([("HOME".to_owned(), folder.path().display().to_string())]);
        let flags = Flags { queues: vec!["q".to_owned()], ..Flags::default() };
        assert_eq!(load(None, &home, &flags).unwrap().0.queues, ["q"]);
        let path = folder.path().join("mine.yaml");
        assert!(matches!(load(Some(&path), &home, &flags), Err(SettingsError::Read { .. })));
        fs::write(&path, "max_jobs: 3\nqueues: [a]\nbuilder: {odd: 1}\n").unwrap();
        let (config, told) = load(Some(&path), &home, &Flags::default()).unwrap();
        assert_eq!((config.max_jobs, config.queues), (Limit::AtMost(3), vec!["a".to_owned()]));
        assert!(told[0].contains("builder.odd"), "{told:?}");
        fs::write(&path, "max_job: 3\nverbosity: x\n").unwrap();
        let error = load(Some(&path), &home, &flags).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("line 2"), "{error}");
    }
}
