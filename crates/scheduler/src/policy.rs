//! The policy: Volcano's scheduler configuration, from a file or from the ConfigMap that Volcano's users edit (CFG-3, CFG-3b).
//!
//! Nothing is placed before it is known. It is read again when it changes. What has no meaning here is said once; a text
//! that cannot be read changes nothing.

use crate::watch::{News, has_code};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use volley_plan::control::{self, EventType, Target};
use volley_plan::gang::policy::{Policy, built_in};
use volley_turns::events::Reporter;

pub const NAMESPACE: &str = "volcano-system";
pub const NAME: &str = "volcano-scheduler-configmap";
const KEY: &str = "volcano-scheduler.conf";
/// A file is looked at this often; nobody waits for a policy as for a pod.
const FILE_PACE: Duration = Duration::from_secs(2);

/// Where the policy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    ConfigMap,
    File(PathBuf),
}

/// Tells of the policy, now and whenever it changes.
pub async fn follow(client: Client, source: Source, news: mpsc::Sender<News>, reporter: Arc<Reporter>) {
    let mut reader = Reader { last: None, is_told: false, news, reporter };
    match source {
        Source::ConfigMap => follow_map(client, &mut reader).await,
        Source::File(path) => follow_file(&path, &mut reader).await,
    }
}

async fn follow_map(client: Client, reader: &mut Reader) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut stream = pin!(watcher(api, config).default_backoff());
    let mut is_listed = false;
    while let Some(event) = stream.next().await {
        is_listed = match &event {
            Ok(Event::Init) => false,
            Ok(Event::InitApply(_)) => true,
            _ => is_listed,
        };
        match event {
            Ok(Event::InitApply(map) | Event::Apply(map)) => {
                let about = Target {
                    api_version: "v1".to_owned(),
                    kind: "ConfigMap".to_owned(),
                    namespace: map.namespace(),
                    name: map.name_any(),
                    uid: map.uid().unwrap_or_default(),
                };
                let text = map.data.as_ref().and_then(|data| data.get(KEY)).cloned();
                reader.take(text, Some(&about)).await;
            }
            Ok(Event::Delete(_)) => reader.take(None, None).await,
            Ok(Event::InitDone) if !is_listed => reader.take(None, None).await,
            Ok(Event::Init | Event::InitDone) => {}
            // Rights that were given before must not keep all pods waiting.
            Err(error) if has_code(&error, 403) => {
                reader.complain_once(format!("may not read ConfigMap {NAMESPACE}/{NAME}"));
                reader.tell_first().await;
            }
            Err(error) => tracing::debug!(%error, "failed to watch the scheduler's configuration, will try again"),
        }
    }
}

async fn follow_file(path: &Path, reader: &mut Reader) {
    loop {
        match tokio::fs::read_to_string(path).await {
            Ok(text) => reader.take(Some(text), None).await,
            Err(error) => {
                let text = format!("failed to read `{}`: {error}", path.display());
                reader.complain_once(text);
                reader.tell_first().await;
            }
        }
        tokio::time::sleep(FILE_PACE).await;
    }
}

struct Reader {
    /// The text that was read last, or the complaint about it.
    last: Option<String>,
    /// Whether any policy has been told: until then nothing is placed.
    is_told: bool,
    news: mpsc::Sender<News>,
    reporter: Arc<Reporter>,
}

impl Reader {
    async fn take(&mut self, text: Option<String>, about: Option<&Target>) {
        if self.last == text && self.is_told {
            return;
        }
        self.last.clone_from(&text);
        let read = match text.as_deref().map(read) {
            None => Ok((built_in(), Vec::new())),
            Some(read) => read,
        };
        let (policy, warnings) = match read {
            Ok(read) => read,
            Err(problem) => {
                let message =
                    format!("the scheduler's configuration is refused, and the one before it stays: {problem}");
                self.tell(message, about);
                return self.tell_first().await;
            }
        };
        for warning in warnings {
            self.tell(format!("in the scheduler's configuration {warning}"), about);
        }
        tracing::info!(source = if text.is_some() { KEY } else { "built in" }, "the scheduler's policy is read");
        self.send(policy).await;
    }

    /// Where no policy can be had at all, the built-in one is.
    async fn tell_first(&mut self) {
        if !self.is_told {
            self.send(built_in()).await;
        }
    }

    async fn send(&mut self, policy: Policy) {
        self.is_told = true;
        // Nobody listens any more when the scheduler stops.
        let _ = self.news.send(News::Policy(Box::new(policy))).await;
    }

    fn complain_once(&mut self, text: String) {
        if self.last.as_ref() != Some(&text) {
            tracing::warn!("{text}; the policy before it stays");
            self.last = Some(text);
        }
    }

    fn tell(&self, message: String, about: Option<&Target>) {
        tracing::warn!("{message}");
        if let Some(about) = about {
            let (kind, reason) = (EventType::Warning, "SchedulerConfiguration".to_owned());
            let about = about.clone();
            self.reporter.report(control::Event {
                kind,
                reason,
                message,
                about,
                component: "volcano",
                field_path: None,
            });
        }
    }
}

fn read(text: &str) -> Result<(Policy, Vec<String>), String> {
    let file: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let (policy, warnings) = Policy::read(&file).map_err(|error| error.to_string())?;
    Ok((policy, warnings.iter().map(ToString::to_string).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "actions: \"enqueue, allocate, preempt\"\ntiers:\n- plugins:\n  - name: priority\n  - name: tdm\n";

    #[tokio::test]
    async fn what_is_read_is_told_once_and_what_is_wrong_changes_nothing() {
        let (news, mut told) = mpsc::channel(8);
        let (reporter, mut events) = Reporter::new();
        let mut reader = Reader { last: None, is_told: false, news, reporter: Arc::new(reporter) };
        let about = Target {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            name: NAME.to_owned(),
            uid: String::new(),
        };
        for text in [GOOD, GOOD, "actions: \"dance\"", "actions: [", GOOD] {
            reader.take(Some(text.to_owned()), Some(&about)).await;
        }
        reader.take(None, None).await;
        drop(reader);
        let mut policies = Vec::new();
        while let Some(News::Policy(policy)) = told.recv().await {
            policies.push(*policy);
        }
        let good = read(GOOD).unwrap().0;
        assert_eq!(policies, [good.clone(), good, built_in()]);
        let mut messages = Vec::new();
        while let Some(event) = events.recv().await {
            messages.push(event.message);
        }
        let about = ["tdm", "minimum", "dance", "stays", "tdm", "minimum"];
        assert_eq!(messages.len(), about.len(), "{messages:?}");
        messages.iter().zip(about).for_each(|(message, word)| assert!(message.contains(word), "{message}"));
    }

    #[tokio::test]
    async fn the_first_word_is_always_told() {
        for text in [None, Some("actions: [".to_owned())] {
            let (news, mut told) = mpsc::channel(8);
            let (reporter, _events) = Reporter::new();
            let mut reader = Reader { last: None, is_told: false, news, reporter: Arc::new(reporter) };
            reader.take(text.clone(), None).await;
            reader.take(text, None).await;
            drop(reader);
            assert!(matches!(told.recv().await, Some(News::Policy(policy)) if *policy == built_in()));
            assert!(told.recv().await.is_none(), "once");
        }
    }

    // CFG-3
    #[tokio::test]
    async fn a_file_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scheduler.conf");
        std::fs::write(&path, GOOD).unwrap();
        let (news, mut told) = mpsc::channel(8);
        let (reporter, _events) = Reporter::new();
        let mut reader = Reader { last: None, is_told: false, news, reporter: Arc::new(reporter) };
        let file = path.clone();
        let task = tokio::spawn(async move { follow_file(&file, &mut reader).await });
        assert!(matches!(told.recv().await, Some(News::Policy(policy)) if policy.preempts));
        std::fs::write(&path, "actions: \"allocate\"\n").unwrap();
        assert!(matches!(told.recv().await, Some(News::Policy(policy)) if !policy.preempts));
        task.abort();
    }
}
