//! What the writers were told: the last acknowledged state of every object, and the one write that is in doubt.

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectList, PostParams};
use kube::{Client, Config, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use tokio::sync::watch;

/// Objects of one writer: few, so that each is created, changed and deleted often.
const OBJECTS_PER_WRITER: usize = 4;

/// The value of an object, or none when it is deleted.
type State = Option<String>;

/// One writer, its objects, and what the server acknowledged about them.
pub struct Ledger {
    writer: usize,
    random: StdRng,
    acknowledged: BTreeMap<String, State>,
    versions: BTreeMap<String, String>,
    /// The write that has no answer: it may have happened or not.
    in_doubt: Option<(String, State)>,
    count: u64,
    /// The highest revision that an answer carried.
    pub revision: u64,
}

pub fn revision_of(text: Option<String>) -> u64 {
    text.and_then(|text| text.parse().ok()).expect("a resourceVersion is a number")
}

pub fn value_of(map: &ConfigMap) -> State {
    map.data.as_ref().and_then(|data| data.get("value")).cloned()
}

impl Ledger {
    pub fn new(writer: usize, seed: u64) -> Ledger {
        Ledger {
            writer,
            random: StdRng::seed_from_u64(seed ^ (writer as u64) << 32),
            acknowledged: BTreeMap::new(),
            versions: BTreeMap::new(),
            in_doubt: None,
            count: 0,
            revision: 0,
        }
    }

    pub fn acknowledged_writes(&self) -> u64 {
        self.count
    }

    /// Writes until the server is gone; may be given up at any moment, for a write is in doubt from its beginning.
    pub async fn write_until_gone(&mut self, maps: &Api<ConfigMap>, acknowledged: &watch::Sender<u64>) {
        while self.write(maps).await {
            acknowledged.send_modify(|count| *count += 1);
        }
    }

    /// One write; false when no answer came.
    async fn write(&mut self, maps: &Api<ConfigMap>) -> bool {
        let name = format!("w{:02}-{}", self.writer, self.random.random_range(0..OBJECTS_PER_WRITER));
        let exists = self.acknowledged.get(&name).is_some_and(Option::is_some);
        let deletes = exists && self.random.random_range(0..4) == 0;
        let wanted = (!deletes).then(|| format!("{}-{}", self.writer, self.random.random::<u64>()));
        self.in_doubt = Some((name.clone(), wanted.clone()));
        let answer = match (&wanted, exists) {
            (Some(value), false) => maps.create(&PostParams::default(), &self.object(&name, value)).await.map(Some),
            (Some(value), true) => {
                maps.replace(&name, &PostParams::default(), &self.object(&name, value)).await.map(Some)
            }
            (None, _) => maps.delete(&name, &DeleteParams::default()).await.map(|_| None),
        };
        match answer {
            Ok(map) => {
                self.acknowledge(&name, wanted, map);
                true
            }
            // An answer that refuses is a fault: nobody else writes these objects.
            Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
            Err(_) => false,
        }
    }

    fn object(&self, name: &str, value: &str) -> ConfigMap {
        let mut map =
            ConfigMap { data: Some(BTreeMap::from([("value".into(), value.into())])), ..ConfigMap::default() };
        map.metadata.name = Some(name.into());
        map.metadata.resource_version = self.versions.get(name).cloned();
        map
    }

    fn acknowledge(&mut self, name: &str, state: State, map: Option<ConfigMap>) {
        self.in_doubt = None;
        self.count += 1;
        match map {
            Some(map) => {
                let revision = revision_of(map.resource_version());
                assert!(revision > self.revision, "{name}: revision {revision} after {}", self.revision);
                self.revision = revision;
                self.versions.insert(name.to_owned(), revision.to_string());
            }
            None => drop(self.versions.remove(name)),
        }
        self.acknowledged.insert(name.to_owned(), state);
    }

    /// Compares with what is there after a restart; what was in doubt is settled by it.
    pub fn check(&mut self, list: &ObjectList<ConfigMap>) {
        let prefix = format!("w{:02}-", self.writer);
        let found: BTreeMap<String, &ConfigMap> =
            list.iter().filter(|map| map.name_any().starts_with(&prefix)).map(|map| (map.name_any(), map)).collect();
        if let Some((name, wanted)) = self.in_doubt.take() {
            let state = found.get(&name).and_then(|map| value_of(map));
            let before = self.acknowledged.get(&name).cloned().flatten();
            assert!(state == wanted || state == before, "{name} is {state:?}, neither {wanted:?} nor {before:?}");
            self.acknowledged.insert(name.clone(), state);
            self.versions.remove(&name);
            self.versions.extend(found.get(&name).and_then(|map| Some((name, map.resource_version()?))));
        }
        for (name, state) in &self.acknowledged {
            let there = found.get(name).and_then(|map| value_of(map));
            assert_eq!(there, *state, "{name} was acknowledged otherwise");
            let version = found.get(name).and_then(|map| map.resource_version());
            assert_eq!(version.as_ref(), self.versions.get(name), "{name} has another version");
        }
        let known = self.acknowledged.values().filter(|state| state.is_some()).count();
        assert_eq!(found.len(), known, "objects that nobody wrote: {:?}", found.keys());
    }
}

#[tokio::test]
async fn a_write_that_was_given_up_may_have_happened_or_not() {
    let nobody = Config::new("http://127.0.0.1:1".parse().expect("a URL"));
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(nobody).expect("a client"), "default");
    for has_happened in [true, false] {
        let mut ledger = Ledger::new(0, 0);
        let unanswered = ledger.write_until_gone(&maps, &watch::Sender::new(0)).now_or_never();
        assert!(unanswered.is_none());
        let (name, value) = ledger.in_doubt.clone().expect("it has begun");
        let mut map = ledger.object(&name, &value.expect("a new object is created"));
        map.metadata.resource_version = Some("1".into());
        let items = has_happened.then_some(map).into_iter().collect();
        ledger.check(&ObjectList { types: Default::default(), metadata: Default::default(), items });
    }
}
