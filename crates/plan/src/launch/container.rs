//! A launch as one container of a Docker or Podman engine: what its API is asked to create.
//!
//! A config's keys are long options of `docker run`. Submitters may use those that reach nothing beyond the container;
//! a queue's admin may use more, as far as the agent's policy goes.

use super::environment::{Variable, variables};
use super::layers::joined;
use super::macros::Macros;
use super::order::{Order, Station};
use super::safety::Policy;
use super::{Note, Refusal, code, kubernetes, names};
use serde_json::{Map, Value, json};
use volley_api::kube::quantity::Quantity;

/// What the engine is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub name: String,
    pub image: String,
    pub platform: Option<String>,
    pub entry_point: Vec<String>,
    pub command: Vec<String>,
    pub working_dir: Option<String>,
    pub variables: Vec<Variable>,
    /// Names of the agent's variables to be passed on.
    pub passed_on: Vec<String>,
    pub gpus: Gpus,
    /// The `HostConfig` of the engine's API, without devices.
    pub host: Value,
    pub labels: Map<String, Value>,
    /// Further fields of the container itself.
    pub own: Map<String, Value>,
    /// The source's folder on this machine is mounted here.
    pub code_folder: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gpus {
    None,
    All,
    Count(usize),
    Devices(Vec<String>),
}

/// One option: its names, the least policy that allows it, and how the engine's API calls it.
struct Option_ {
    names: &'static [&'static str],
    needs: Policy,
    field: Field,
}

#[derive(Clone, Copy)]
enum Field {
    /// Handled with the container, not the host.
    Own,
    /// A field of the container.
    Container(&'static str),
    Text(&'static str),
    Number(&'static str),
    Bytes(&'static str),
    Cpus,
    Flag(&'static str),
    List(&'static str),
    Ulimit,
    /// A list of `name=value` that the API has as an object.
    Pairs(&'static str),
    Devices,
    /// Taken, but without any effect: every container is removed once it is settled.
    Nothing,
}

const fn option(names: &'static [&'static str], needs: Policy, field: Field) -> Option_ {
    Option_ { names, needs, field }
}

use Policy::{Baseline, Privileged, Restricted};

const OPTIONS: &[Option_] = &[
    option(&["command"], Restricted, Field::Own),
    option(&["env", "e"], Restricted, Field::Own),
    option(&["gpus"], Restricted, Field::Own),
    option(&["name"], Restricted, Field::Own),
    option(&["platform"], Restricted, Field::Own),
    option(&["workdir", "w"], Restricted, Field::Own),
    option(&["cpus", "cpu"], Restricted, Field::Cpus),
    option(&["cpu-period"], Restricted, Field::Number("CpuPeriod")),
    option(&["cpu-quota"], Restricted, Field::Number("CpuQuota")),
    option(&["cpu-shares"], Restricted, Field::Number("CpuShares")),
    option(&["cpuset-cpus"], Restricted, Field::Text("CpusetCpus")),
    option(&["cpuset-mems"], Restricted, Field::Text("CpusetMems")),
    option(&["memory", "m"], Restricted, Field::Bytes("Memory")),
    option(&["memory-reservation"], Restricted, Field::Bytes("MemoryReservation")),
    option(&["memory-swap"], Restricted, Field::Bytes("MemorySwap")),
    option(&["pids-limit"], Restricted, Field::Number("PidsLimit")),
    option(&["shm-size"], Restricted, Field::Bytes("ShmSize")),
    option(&["ulimit"], Restricted, Field::Ulimit),
    option(&["cap-drop"], Restricted, Field::List("CapDrop")),
    option(&["rm"], Baseline, Field::Nothing),
    option(&["detach", "d"], Baseline, Field::Nothing),
    option(&["interactive", "i"], Baseline, Field::Nothing),
    option(&["entrypoint"], Baseline, Field::Own),
    option(&["label", "l"], Baseline, Field::Own),
    option(&["user", "u"], Baseline, Field::Container("User")),
    option(&["hostname", "h"], Baseline, Field::Container("Hostname")),
    option(&["group-add"], Baseline, Field::List("GroupAdd")),
    option(&["dns"], Baseline, Field::List("Dns")),
    option(&["tmpfs"], Baseline, Field::Pairs("Tmpfs")),
    option(&["volume", "v"], Baseline, Field::List("Binds")),
    option(&["net", "network"], Baseline, Field::Text("NetworkMode")),
    option(&["add-host"], Baseline, Field::List("ExtraHosts")),
    option(&["init"], Baseline, Field::Flag("Init")),
    option(&["read-only"], Baseline, Field::Flag("ReadonlyRootfs")),
    option(&["ipc"], Privileged, Field::Text("IpcMode")),
    option(&["pid"], Privileged, Field::Text("PidMode")),
    option(&["privileged"], Privileged, Field::Flag("Privileged")),
    option(&["cap-add"], Privileged, Field::List("CapAdd")),
    option(&["security-opt"], Privileged, Field::List("SecurityOpt")),
    option(&["device"], Privileged, Field::Devices),
    option(&["runtime"], Privileged, Field::Text("Runtime")),
    option(&["sysctl"], Privileged, Field::Pairs("Sysctls")),
    option(&["userns"], Privileged, Field::Text("UsernsMode")),
];

pub fn render(order: &Order, station: &Station, notes: &mut Vec<Note>) -> Result<Request, Vec<Refusal>> {
    let macros: Macros = kubernetes::macros(order, station);
    let config = macros.config(order, notes);
    let queue = match order.queue_config.as_ref() == Some(&order.config) {
        true => Some(config.clone()),
        false => order.queue_config.as_ref().map(|queue| macros.expand(queue, &mut Vec::new())),
    };
    let Some(image) = order.image.clone() else {
        let hint = "launch an image, or configure a builder for the agent";
        return Err(vec![Refusal::new("C-6", "", "there is no image to run", hint)]);
    };
    let mut request = request(order, station, image);
    let mut refusals = Vec::new();
    refusals.extend(order.code.as_ref().and_then(|code| code::check(&code.source).err()));
    for (key, value) in config.as_object().into_iter().flatten() {
        // The builder's settings are no option of the container (LA-Q-3).
        if key == "builder" {
            continue;
        }
        let is_admins = queue.as_ref().and_then(|queue| queue.get(key)) == Some(value);
        match take(&mut request, key, value, if is_admins { station.policy } else { station.submitter_policy }, station)
        {
            Ok(()) => (),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() { Ok(request) } else { Err(refusals) }
}

/// What is asked for where the config is silent.
fn request(order: &Order, station: &Station, image: String) -> Request {
    let overrides = &order.spec.overrides;
    let of_job = order.job.as_ref().map_or(&[][..], |job| &job.entry_point);
    let entry_point = if overrides.entry_point.is_empty() { of_job.to_vec() } else { overrides.entry_point.clone() };
    let entry_point = match order.code.as_ref().is_some_and(|code| code.is_default_base) {
        true => code::installing(entry_point),
        false => entry_point,
    };
    let mut labels = super::secrets::labels(order, station);
    labels.insert("volley.dev/item-id".to_owned(), json!(order.item));
    let is_local = ["//localhost", "//127.0.0.1", "//[::1]"].iter().any(|host| station.base_url.contains(host));
    // A server on this machine is reached over the machine's own network.
    let host = if is_local { json!({ "NetworkMode": "host" }) } else { json!({}) };
    Request {
        name: names::made(&["launch", &order.spec.entity, &order.spec.project], &order.key, order.attempt),
        image,
        platform: None,
        entry_point,
        command: overrides.args.clone(),
        working_dir: order.code.as_ref().map(|_| code::folder(order)),
        variables: variables(order, station),
        passed_on: Vec::new(),
        gpus: Gpus::None,
        host,
        labels,
        own: Map::new(),
        code_folder: order.code.as_ref().map(|_| code::FOLDER),
    }
}

fn normal(key: &str) -> String {
    key.trim().trim_matches('-').replace('_', "-").to_lowercase()
}

fn take(request: &mut Request, key: &str, value: &Value, policy: Policy, station: &Station) -> Result<(), Refusal> {
    let name = normal(key);
    let Some(option) = OPTIONS.iter().find(|option| option.names.contains(&name.as_str())) else {
        return Err(Refusal::new("C-1", key, "is no option that this agent takes", allowed(policy)));
    };
    if policy < option.needs {
        let what = format!("is not allowed under policy `{}`", policy.name());
        return Err(Refusal::new("C-1", key, what, allowed(policy)));
    }
    let texts = texts(key, value, policy, option)?;
    let wrong = |why: String| Refusal::new("C-2", key, why, "see `docker run --help` for what the option takes");
    match option.field {
        Field::Own => own(request, option.names[0], &texts).map_err(wrong)?,
        Field::Nothing => (),
        Field::Text(field) => {
            if texts[0] == "host" && policy < Privileged {
                return Err(Refusal::new("C-3", key, "`host` needs policy `privileged`", "leave it out"));
            }
            request.host[field] = json!(texts[0]);
        }
        Field::Number(field) => {
            let number: i64 = texts[0].parse().map_err(|_| wrong(format!("`{}` is no whole number", texts[0])))?;
            request.host[field] = json!(number);
        }
        Field::Bytes(field) => {
            request.host[field] = json!(bytes(&texts[0]).ok_or_else(|| wrong(format!("`{}` is no size", texts[0])))?)
        }
        Field::Cpus => {
            let cpus: f64 = texts[0].parse().map_err(|_| wrong(format!("`{}` is no number of CPUs", texts[0])))?;
            request.host["NanoCpus"] = json!((cpus * 1e9).round() as i64);
        }
        Field::Container(field) => drop(request.own.insert(field.to_owned(), json!(texts[0]))),
        Field::Pairs(field) => {
            // `tmpfs` has options behind a colon, `sysctl` a value behind `=`.
            let pair = |text: &String| {
                let (name, value) = text.split_once(['=', ':']).unwrap_or((text, ""));
                (name.to_owned(), json!(value))
            };
            request.host[field] = Value::Object(texts.iter().map(pair).collect());
        }
        Field::Devices => request.host["Devices"] = Value::Array(texts.iter().map(|text| device(text)).collect()),
        Field::Flag(field) => request.host[field] = json!(texts[0] == "true"),
        Field::List(field) => {
            if field == "Binds" {
                bound(&texts, policy, station, key)?;
            }
            request.host[field] = json!(texts);
        }
        Field::Ulimit => {
            let limits: Option<Vec<Value>> = texts.iter().map(|text| ulimit(text)).collect();
            request.host["Ulimits"] =
                json!(limits.ok_or_else(|| wrong("is no limit such as `nofile=1024`".to_owned()))?);
        }
    }
    Ok(())
}

fn allowed(policy: Policy) -> String {
    let names = OPTIONS.iter().filter(|option| option.needs <= policy).flat_map(|option| option.names);
    let mut names: Vec<&str> = names.copied().collect();
    names.sort_unstable();
    format!("options are {}", names.join(", "))
}

/// The option's values: one text or number, a list where the option may be repeated; admins may also write `true`.
fn texts(key: &str, value: &Value, policy: Policy, option: &Option_) -> Result<Vec<String>, Refusal> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_on) if policy > Restricted => Some(is_on.to_string()),
        _ => None,
    };
    let is_repeated = matches!(option.field, Field::Ulimit | Field::List(_) | Field::Pairs(_) | Field::Devices)
        || option.names.contains(&"env")
        || option.names.contains(&"label");
    let texts = match value {
        Value::Array(items) if is_repeated && !items.is_empty() => items.iter().map(one).collect(),
        other => one(other).map(|text| vec![text]),
    };
    texts.ok_or_else(|| {
        let shape = if is_repeated { "a text, a number, or a list of them" } else { "a text or a number" };
        Refusal::new("C-2", key, format!("must be {shape}"), "")
    })
}

fn own(request: &mut Request, name: &str, texts: &[String]) -> Result<(), String> {
    match name {
        "command" => request.command = texts[0].split_whitespace().map(str::to_owned).collect(),
        "env" => {
            for text in texts {
                match text.split_once('=') {
                    Some((name, value)) => put_variable(request, name, value),
                    // A name alone is passed on from the agent, but never a secret.
                    None if super::macros::is_secret(text) => {
                        return Err(format!("`{text}` is a secret; use `{text}=secret://NAME`"));
                    }
                    None => request.passed_on.push(text.clone()),
                }
            }
        }
        "entrypoint" if request.entry_point.is_empty() => {
            request.entry_point = texts[0].split_whitespace().map(str::to_owned).collect();
        }
        // The launch's own goes before the queue's (C-5).
        "entrypoint" => (),
        "label" => {
            for text in texts {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                // By ours the container is found again.
                request.labels.entry(name).or_insert_with(|| json!(value));
            }
        }
        "gpus" => request.gpus = gpus(&texts[0]).ok_or_else(|| format!("`{}` is no number of GPUs", texts[0]))?,
        "name" => request.name = texts[0].clone(),
        "platform" => request.platform = Some(texts[0].clone()),
        _ => request.working_dir = Some(texts[0].clone()),
    }
    Ok(())
}

fn put_variable(request: &mut Request, name: &str, value: &str) {
    let variable = match super::environment::secret_name(value) {
        Some(secret) => Variable {
            name: name.to_owned(),
            value: super::environment::Given::Secret(secret.to_owned()),
            is_identity: false,
        },
        None => Variable::text(name, value),
    };
    match request.variables.iter_mut().find(|own| own.name == name) {
        Some(own) if own.is_identity => (),
        Some(own) => *own = variable,
        None => request.variables.push(variable),
    }
}

fn gpus(text: &str) -> Option<Gpus> {
    if text == "all" {
        return Some(Gpus::All);
    }
    if let Some(devices) = text.trim_matches('"').strip_prefix("device=") {
        return Some(Gpus::Devices(devices.split(',').map(str::to_owned).collect()));
    }
    text.parse().ok().map(|count| if count == 0 { Gpus::None } else { Gpus::Count(count) })
}

/// Docker's sizes: a number with `b`, `k`, `m` or `g`, each 1024 of the one before; Kubernetes' spellings too.
fn bytes(text: &str) -> Option<i64> {
    let lower = text.to_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let power = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 1,
        "m" | "mb" => 2,
        "g" | "gb" => 3,
        _ => return Quantity::parse(text).ok().map(Quantity::value),
    };
    digits.parse::<f64>().ok().map(|number| (number * f64::from(1024_i32.pow(power))) as i64)
}

fn device(text: &str) -> Value {
    let mut parts = text.split(':');
    let host = parts.next().unwrap_or_default();
    let (inside, rights) = (parts.next().unwrap_or(host), parts.next().unwrap_or("rwm"));
    json!({ "PathOnHost": host, "PathInContainer": inside, "CgroupPermissions": rights })
}

pub(super) fn ulimit(text: &str) -> Option<Value> {
    let (name, limits) = text.split_once('=')?;
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    Some(json!({ "Name": name, "Soft": soft.parse::<i64>().ok()?, "Hard": hard.parse::<i64>().ok()? }))
}

/// Folders of the machine are mounted only below those that the agent names.
fn bound(binds: &[String], policy: Policy, station: &Station, key: &str) -> Result<(), Refusal> {
    for bind in binds {
        let host = bind.split(':').next().unwrap_or_default();
        let is_path = host.starts_with('/') || host.starts_with('.') || host.starts_with('~');
        let is_below = |prefix: &String| {
            let prefix = prefix.trim_end_matches('/');
            host == prefix || host.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_fine = !is_path || (station.volume_prefixes.iter().any(is_below) && !host.contains(".."));
        if !is_fine && policy < Privileged {
            let folders = station.volume_prefixes.join(", ");
            let hint =
                format!("the agent allows folders below: {}", if folders.is_empty() { "none" } else { &folders });
            return Err(Refusal::new("C-3", &joined(key, host), "may not be mounted", hint));
        }
    }
    Ok(())
}

/// The devices that a launch gets of those that are free, so that launches share a machine (C-11).
pub fn allocate(asked: &Gpus, free: &[String]) -> Result<Vec<String>, String> {
    match asked {
        Gpus::None => Ok(Vec::new()),
        Gpus::All => Ok(free.to_vec()),
        Gpus::Count(count) if *count <= free.len() => Ok(free[..*count].to_vec()),
        Gpus::Count(count) => Err(format!("{count} GPUs are asked for and {} are free", free.len())),
        Gpus::Devices(devices) => match devices.iter().find(|device| !free.contains(device)) {
            None => Ok(devices.clone()),
            Some(taken) => Err(format!("GPU {taken} is not free")),
        },
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
