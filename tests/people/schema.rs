//! The schema as its introspection tells it, and requests for every field of it.
//!
//! For every type the shortest way to it is found, and one request asks there for all fields. An argument that must be
//! given and that nobody taught this file to make fails the test: whoever adds a field says here how it is asked for.

use crate::http::graphql;
use crate::support::Running;
use crate::world::{CANARY, Names, PROJECT};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub struct Schema {
    types: BTreeMap<String, Type>,
}

struct Type {
    kind: String,
    fields: Vec<Field>,
    inputs: Vec<Input>,
    possible: Vec<String>,
    words: Vec<String>,
}

struct Field {
    name: String,
    arguments: Vec<Input>,
    kind: Kind,
}

struct Input {
    name: String,
    kind: Kind,
}

/// A type as a field names it.
#[derive(Clone, Debug)]
struct Kind {
    name: String,
    is_required: bool,
    lists: usize,
}

/// One request: what it is about, and its text.
pub struct Request {
    pub about: String,
    pub text: String,
}

const TYPE: &str = "kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } }";

impl Schema {
    pub fn ask(running: &Running, key: &str) -> Schema {
        let query = format!(
            "{{ __schema {{ types {{ kind name fields {{ name args {{ name type {{ {TYPE} }} }} type {{ {TYPE} }} }} \
             inputFields {{ name type {{ {TYPE} }} }} possibleTypes {{ name }} enumValues {{ name }} }} }} }}"
        );
        let answer = graphql(running, key, &query);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let types = answer.json()["data"]["__schema"]["types"].take();
        let known = list(&types).iter().filter(|one| !text(&one["name"]).starts_with("__"));
        Schema { types: known.map(|one| (text(&one["name"]), Type::read(one))).collect() }
    }

    /// Every field of every type that a query leads to.
    pub fn queries(&self, names: &Names) -> Vec<Request> {
        let mut requests = Vec::new();
        for (kind, way) in self.ways(names) {
            let Some(selection) = self.fields(&kind, names) else { continue };
            let text = way.iter().rev().fold(selection, |inner, step| format!("{step} {{ {inner} }}"));
            requests.push(Request { about: kind, text: format!("{{ {text} }}") });
        }
        requests
    }

    /// Types that no query leads to, other than what mutations answer with, which they are asked for.
    pub fn unreached(&self, names: &Names) -> Vec<String> {
        let mut asked: BTreeSet<String> = self.ways(names).into_iter().map(|(kind, _)| kind).collect();
        for answer in &self.types["Mutation"].fields {
            asked.insert(answer.kind.name.clone());
            asked.extend(self.types[&answer.kind.name].fields.iter().map(|field| field.kind.name.clone()));
        }
        asked.insert("Mutation".to_owned());
        let objects = self.types.iter().filter(|(_, one)| !one.fields.is_empty()).map(|(name, _)| name.clone());
        objects.filter(|name| !asked.contains(name)).collect()
    }

    pub fn mutations(&self, names: &Names) -> Vec<Request> {
        let request = |field: &Field| {
            let selection = self.fields(&field.kind.name, names).unwrap_or_else(|| "__typename".to_owned());
            let text = format!("mutation {{ {} {{ {selection} }} }}", self.call("Mutation", field, names));
            Request { about: field.name.clone(), text }
        };
        self.types["Mutation"].fields.iter().map(request).collect()
    }

    /// The shortest way from the query to each type: fields with their arguments, and choices among types.
    fn ways(&self, names: &Names) -> Vec<(String, Vec<String>)> {
        let mut found = BTreeMap::from([("Query".to_owned(), Vec::new())]);
        let mut open = VecDeque::from(["Query".to_owned()]);
        let mut order = vec!["Query".to_owned()];
        while let Some(kind) = open.pop_front() {
            let way: Vec<String> = found[&kind].clone();
            let one = &self.types[&kind];
            let fields = one.fields.iter().map(|field| (field.kind.name.clone(), self.call(&kind, field, names)));
            let choices = one.possible.iter().map(|name| (name.clone(), format!("... on {name}")));
            for (next, step) in fields.chain(choices).collect::<Vec<_>>() {
                if self.is_composite(&next) && !found.contains_key(&next) {
                    found.insert(next.clone(), [way.clone(), vec![step]].concat());
                    order.push(next.clone());
                    open.push_back(next);
                }
            }
        }
        order.into_iter().map(|kind| (kind.clone(), found.remove(&kind).unwrap_or_default())).collect()
    }

    /// All fields of a type; of objects, their plain fields.
    fn fields(&self, kind: &str, names: &Names) -> Option<String> {
        let one = &self.types[kind];
        if one.fields.is_empty() {
            return None;
        }
        let field = |field: &Field| {
            let call = self.call(kind, field, names);
            let next = &field.kind.name;
            match self.is_composite(next) {
                true => format!("{call} {{ {} }}", self.plain(next, names)),
                false => call,
            }
        };
        Some(one.fields.iter().map(field).collect::<Vec<_>>().join(" "))
    }

    fn plain(&self, kind: &str, names: &Names) -> String {
        let fields = self.types[kind].fields.iter().filter(|field| !self.is_composite(&field.kind.name));
        let calls = fields.map(|field| self.call(kind, field, names));
        ["__typename".to_owned()].into_iter().chain(calls).collect::<Vec<_>>().join(" ")
    }

    fn call(&self, owner: &str, field: &Field, names: &Names) -> String {
        let place = format!("{owner}.{}", field.name);
        let arguments: Vec<String> = field
            .arguments
            .iter()
            .filter_map(|one| Some(format!("{}: {}", one.name, self.value(&place, one, names)?)))
            .collect();
        if arguments.is_empty() { field.name.clone() } else { format!("{}({})", field.name, arguments.join(", ")) }
    }

    /// What is sent for an argument; nothing for one that may be left out and that nobody knows.
    fn value(&self, place: &str, input: &Input, names: &Names) -> Option<String> {
        let one = match taught(place, &input.name, names) {
            Some(taught) => taught,
            None => self.made(place, input, names)?,
        };
        Some((0..input.kind.lists).fold(one, |inner, _| format!("[{inner}]")))
    }

    fn made(&self, place: &str, input: &Input, names: &Names) -> Option<String> {
        let known = &self.types[&input.kind.name];
        if !input.kind.is_required {
            return None;
        }
        Some(match known.kind.as_str() {
            "INPUT_OBJECT" => {
                let fields = known.inputs.iter();
                let set = fields.filter_map(|field| {
                    Some(format!("{}: {}", field.name, self.value(&input.kind.name, field, names)?))
                });
                format!("{{{}}}", set.collect::<Vec<_>>().join(", "))
            }
            "ENUM" => known.words[0].clone(),
            other => panic!("nobody taught this test what `{}` of {place} is ({other}); see `taught`", input.name),
        })
    }

    fn is_composite(&self, kind: &str) -> bool {
        matches!(self.types[kind].kind.as_str(), "OBJECT" | "INTERFACE" | "UNION")
    }
}

/// Values by name, where needed by place and name.
fn taught(place: &str, name: &str, names: &Names) -> Option<String> {
    let quoted = |text: &str| Some(Value::from(text).to_string());
    let id = match place {
        "Query.launchAgent" => Some(&names.agent),
        "Query.artifact" => Some(&names.artifact),
        "Query.artifactCollection" => Some(&names.collection),
        "RunQueue.runQueueItem" => Some(&names.item),
        "Entity.defaultResourceConfig" => Some(&names.config),
        "DeleteRunInput" | "StopRunInput" | "UpdateRunStateInput" => Some(&names.run_id),
        "AgentHeartbeatInput" => Some(&names.sweep_agent),
        "DeleteModelInput" => Some(&names.project_id),
        "DeleteInviteInput" => Some(&names.member),
        "DeleteApiKeyInput" => Some(&names.key),
        _ => None,
    };
    match (place, name) {
        (_, "id") if id.is_some() => quoted(id?),
        ("Query.entity", "name") => quoted(&names.entity),
        ("Query.users", "query") => quoted("olga"),
        ("Query.project" | "Query.model" | "UpsertModelInput", "name") => quoted(PROJECT),
        ("Project.run" | "Project.bucket" | "UpsertBucketInput", "name") => quoted("r"),
        ("Project.runQueue", "name") => quoted("q"),
        ("Project.artifactType", "name") => quoted("t"),
        ("Project.artifact" | "Project.artifactCollectionMembership" | "ArtifactType.artifact", "name") => {
            quoted("c:latest")
        }
        ("CreateArtifactTypeInput", "name") => quoted("t2"),
        ("CreateTeamInput", "teamName") => quoted("fresh"),
        ("CreateUserInput", "email") => quoted("somebody@x"),
        ("CreateInviteInput", "username") => quoted("bob"),
        ("CreateArtifactManifestInput", "name") => quoted("wandb_manifest.json"),
        ("CreateArtifactFileSpecInput" | "ArtifactManifestEntryInput", "name") => quoted("a.bin"),
        ("Query.organization" | "Project.artifactCollection", "name") => quoted("c"),
        ("ArtifactType.artifactCollection" | "ArtifactType.artifactSequence", "name") => quoted("c"),
        (_, "artifactSequenceID" | "artifactPortfolioID") => quoted(&names.collection),
        (_, "destinationArtifactTypeName") => quoted("t2"),
        (_, "oldProjectName") => quoted(PROJECT),
        (_, "newProjectName") => quoted("renamed"),
        (_, "artifactCollectionName" | "artifactPortfolioName") => quoted("c"),
        ("CreateRunFilesInput" | "MarkRunFilesUploadedInput", "files") => quoted("f.txt"),
        ("DeleteFilesInput", "files") => quoted(&names.file),
        ("Run.sampledHistory" | "Run.parquetHistory", _) => quoted("{\"keys\":[\"_step\"],\"samples\":10}"),
        (_, "clientID") if place.starts_with("Query") || place == "LinkArtifactInput" => quoted(&names.client_id),
        ("CreateArtifactInput", "clientID") => None,
        (_, "entityName") => quoted(&names.entity),
        (_, "projectName" | "modelName") => quoted(PROJECT),
        (_, "runName") => quoted("r"),
        (_, "queueName") => quoted("q"),
        ("CreateRunQueueInput", "defaultResourceConfigID") => quoted(&names.config),
        (_, "queueID" | "queueIDs" | "runQueues") => quoted(&names.queue_id),
        (_, "runQueueItemId") => quoted(&names.item),
        (_, "launchAgentId") => quoted(&names.agent),
        (_, "artifactID" | "birthArtifactID" | "baseArtifactID") => quoted(&names.artifact),
        (_, "artifactManifestID") => quoted(&names.manifest),
        (_, "sweep" | "sweepName") => quoted(&names.sweep),
        ("UpsertSweepInput", "config") => quoted("{\"method\":\"random\",\"parameters\":{\"x\":{\"values\":[1]}}}"),
        (_, "runSpec" | "config" | "resourceConfig") => quoted("{}"),
        (_, "state") if place == "UpdateRunStateInput" => quoted("failed"),
        (_, "artifactTypeName" | "type") if place != "CreateArtifactManifestInput" => quoted("t"),
        (_, "resource" | "resourceType") => quoted("kubernetes"),
        (_, "aliasName" | "alias") => quoted("latest"),
        (_, "tagName" | "digest" | "title" | "text" | "message" | "stage" | "host" | "hostname" | "description") => {
            quoted("x")
        }
        (_, "md5") => quoted("1B2M2Y8AsgTpgAmY7PhCfg=="),
        (_, "hexMD5") => quoted("d41d8cd98f00b204e9800998ecf8427e"),
        (_, "storageLayout") if place == "Artifact.filesByManifestEntries" => quoted("V2"),
        (_, "manifestVersion") => quoted("1"),
        ("RewindRunInput", "metricName") => quoted("_step"),
        (_, "storagePath" | "uploadID" | "metricName") => quoted("x"),
        (_, "partNumber" | "metricValue") => Some("1".to_owned()),
        ("Sweep.agent", "agentName") => quoted(&names.sweep_agent_name),
        _ => None,
    }
}

impl Type {
    fn read(one: &Value) -> Type {
        let names = |of: &Value| list(of).iter().map(|one| text(&one["name"])).collect();
        let kind = text(&one["kind"]);
        // An interface's own fields are asked for on it; who implements it is asked for on its own.
        let possible = if kind == "OBJECT" { Vec::new() } else { names(&one["possibleTypes"]) };
        let field = |field: &Value| Field {
            name: text(&field["name"]),
            arguments: list(&field["args"]).iter().map(Input::read).collect(),
            kind: Kind::read(&field["type"]),
        };
        Type {
            kind,
            fields: list(&one["fields"]).iter().map(field).collect(),
            inputs: list(&one["inputFields"]).iter().map(Input::read).collect(),
            possible,
            words: names(&one["enumValues"]),
        }
    }
}

impl Input {
    fn read(one: &Value) -> Input {
        Input { name: text(&one["name"]), kind: Kind::read(&one["type"]) }
    }
}

impl Kind {
    fn read(one: &Value) -> Kind {
        let mut kind = Kind { name: String::new(), is_required: one["kind"] == "NON_NULL", lists: 0 };
        let mut at = one;
        while at["ofType"].is_object() {
            kind.lists += usize::from(at["kind"] == "LIST");
            at = &at["ofType"];
        }
        kind.name = text(&at["name"]);
        kind
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Whether an answer has something in it that only the team may know.
pub fn leaks(body: &str) -> bool {
    body.contains(CANARY) || body.contains("/blobs/")
}
