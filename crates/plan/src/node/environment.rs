//! What a container's process is started with: its arguments, its environment in order and its folder (K-POD-4).

use super::downward::{Surroundings, field, resource};
use super::expand::expand;
use super::files::kernel_hostname;
use super::namespace;
use super::service_links::service_links;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvFromSource, EnvVar, Pod, Secret, Service};
use std::collections::BTreeMap;

const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The objects that a pod may refer to, those of its namespace by name.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Of all namespaces: the API's own lies in `default`.
    pub services: Vec<Service>,
    pub config_maps: BTreeMap<String, ConfigMap>,
    pub secrets: BTreeMap<String, Secret>,
    pub around: Surroundings,
}

/// What the image says about its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    /// As `NAME=value`.
    pub environment: Vec<String>,
    pub working_folder: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub working_folder: String,
}

/// The container refers to something that is not there; its waiting reason is `CreateContainerConfigError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

pub fn process(
    pod: &Pod,
    container: &Container,
    image: &ImageConfig,
    sources: &Sources,
) -> Result<Process, ConfigError> {
    let own = Environment::of(pod, container, sources)?;
    let arguments = arguments(container, image, &own)?;
    let mut environment = Environment::default();
    environment.set("PATH", PATH_DEFAULT);
    if container.tty == Some(true) {
        environment.set("TERM", "xterm");
    }
    for variable in &image.environment {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        environment.set(name, value);
    }
    let around = &sources.around;
    environment.set("HOSTNAME", &kernel_hostname(pod, &around.cluster_domain, &around.host_name));
    for (name, value) in &own.variables {
        environment.set(name, value);
    }
    let folder = container.working_dir.as_deref().filter(|folder| !folder.is_empty());
    let folder = folder.or(Some(image.working_folder.as_str()).filter(|folder| !folder.is_empty()));
    Ok(Process { arguments, environment: environment.variables, working_folder: folder.unwrap_or("/").to_owned() })
}

/// The spec's command replaces the image's entrypoint and its arguments; the spec's arguments only the latter.
fn arguments(container: &Container, image: &ImageConfig, own: &Environment) -> Result<Vec<String>, ConfigError> {
    let expanded = |words: Option<&Vec<String>>| -> Vec<String> {
        let words = words.into_iter().flatten();
        words.map(|word| expand(word, |name| own.get(name))).collect()
    };
    let (command, arguments) = (expanded(container.command.as_ref()), expanded(container.args.as_ref()));
    let mut words = if command.is_empty() { image.entrypoint.clone() } else { command.clone() };
    let has_own = !command.is_empty() || !arguments.is_empty();
    words.extend(if has_own { arguments } else { image.command.clone() });
    if words.is_empty() {
        return Err(ConfigError("no command specified".to_owned()));
    }
    Ok(words)
}

/// Variables in the order of their first appearance; a later value replaces an earlier one in its place.
#[derive(Debug, Default)]
struct Environment {
    variables: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
}

impl Environment {
    /// `envFrom`, then `env` as declared, then what is left of the service variables.
    fn of(pod: &Pod, container: &Container, sources: &Sources) -> Result<Self, ConfigError> {
        let links = service_links(pod, &sources.services);
        let mut environment = Environment::default();
        for source in container.env_from.as_deref().unwrap_or_default() {
            environment.add_all(source, sources)?;
        }
        for variable in container.env.as_deref().unwrap_or_default() {
            let known = |name: &str| environment.get(name).or_else(|| links.get(name).map(String::as_str));
            let value = match variable.value.as_deref() {
                Some(value) if !value.is_empty() => Some(expand(value, known)),
                _ => referred(pod, container, variable, sources)?,
            };
            if let Some(value) = value {
                environment.set(&variable.name, &value);
            }
        }
        for (name, value) in &links {
            if environment.get(name).is_none() {
                environment.set(name, value);
            }
        }
        Ok(environment)
    }

    fn get(&self, name: &str) -> Option<&str> {
        let place = self.places.get(name)?;
        self.variables.get(*place).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: &str) {
        let place = *self.places.entry(name.to_owned()).or_insert(self.variables.len());
        match self.variables.get_mut(place) {
            Some(variable) => value.clone_into(&mut variable.1),
            None => self.variables.push((name.to_owned(), value.to_owned())),
        }
    }

    fn add_all(&mut self, source: &EnvFromSource, sources: &Sources) -> Result<(), ConfigError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        if let Some(reference) = &source.config_map_ref {
            let found = find(&sources.config_maps, "configmap", &reference.name, reference.optional)?;
            for (key, value) in found.and_then(|map| map.data.as_ref()).into_iter().flatten() {
                self.set(&format!("{prefix}{key}"), value);
            }
        } else if let Some(reference) = &source.secret_ref {
            let found = find(&sources.secrets, "secret", &reference.name, reference.optional)?;
            for (key, value) in found.and_then(|secret| secret.data.as_ref()).into_iter().flatten() {
                self.set(&format!("{prefix}{key}"), &String::from_utf8_lossy(&value.0));
            }
        }
        Ok(())
    }
}

/// The value of `valueFrom`; `None` when it is optional and not there.
fn referred(
    pod: &Pod,
    container: &Container,
    variable: &EnvVar,
    sources: &Sources,
) -> Result<Option<String>, ConfigError> {
    let Some(source) = &variable.value_from else { return Ok(Some(String::new())) };
    if let Some(reference) = &source.field_ref {
        return field(pod, &sources.around, &reference.field_path).map(Some).map_err(ConfigError);
    }
    if let Some(reference) = &source.resource_field_ref {
        return resource(pod, Some(container), &sources.around, reference).map(Some).map_err(ConfigError);
    }
    let missing = |key: &str, kind: &str, name: &str, optional: Option<bool>| match optional {
        Some(true) => Ok(None),
        _ => Err(ConfigError(format!("couldn't find key {key} in {kind} {}/{name}", namespace(pod)))),
    };
    if let Some(reference) = &source.config_map_key_ref {
        let Some(map) = find(&sources.config_maps, "configmap", &reference.name, reference.optional)? else {
            return Ok(None);
        };
        let value = map.data.as_ref().and_then(|data| data.get(&reference.key));
        return value.map_or_else(
            || missing(&reference.key, "ConfigMap", &reference.name, reference.optional),
            |value| Ok(Some(value.clone())),
        );
    }
    if let Some(reference) = &source.secret_key_ref {
        let Some(secret) = find(&sources.secrets, "secret", &reference.name, reference.optional)? else {
            return Ok(None);
        };
        let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
        return value.map_or_else(
            || missing(&reference.key, "Secret", &reference.name, reference.optional),
            |value| Ok(Some(String::from_utf8_lossy(&value.0).into_owned())),
        );
    }
    // A source of a kind that we do not know must not look like an empty variable.
    Err(ConfigError(format!("environment variable {} has an unsupported source", variable.name)))
}

/// An object by name; `None` when it may be missing and is.
pub(super) fn find<'a, T>(
    objects: &'a BTreeMap<String, T>,
    kind: &str,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<&'a T>, ConfigError> {
    match (objects.get(name), optional) {
        (Some(object), _) => Ok(Some(object)),
        (None, Some(true)) => Ok(None),
        (None, _) => Err(ConfigError(format!("{kind} {name:?} not found"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sources() -> Sources {
        let from = |value: Value| serde_json::from_value(value).unwrap();
        let secret: Secret = serde_json::from_value(json!({"data": {"token": "aHVudGVyMg=="}})).unwrap();
        let api = json!({"metadata": {"namespace": "default", "name": "kubernetes"},
            "spec": {"clusterIP": "10.9.0.1", "ports": [{"port": 443}]}});
        Sources {
            services: vec![serde_json::from_value(api).unwrap()],
            config_maps: BTreeMap::from([("m".to_owned(), from(json!({"data": {"k": "v", "A": "from map"}})))]),
            secrets: BTreeMap::from([("s".to_owned(), secret)]),
            around: Surroundings::default(),
        }
    }

    fn run(container: Value, image: &ImageConfig) -> Result<Process, ConfigError> {
        let mut container = container;
        container["name"] = json!("c");
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [container]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        process(&pod, &super::super::main_containers(&pod)[0], image, &sources())
    }

    fn image() -> ImageConfig {
        ImageConfig {
            entrypoint: vec!["/entry".to_owned()],
            command: vec!["serve".to_owned()],
            environment: vec!["PATH=/bin".to_owned(), "LANG=C".to_owned()],
            working_folder: "/app".to_owned(),
        }
    }

    /// The environment as lines, without the API's variables but the first.
    fn lines(process: &Process) -> Vec<String> {
        let shown = process.environment.iter().filter(|(name, _)| !name.starts_with("KUBERNETES_PORT"));
        shown.map(|(name, value)| format!("{name}={value}")).collect()
    }

    // K-POD-4
    #[test]
    fn a_plain_container_has_the_images_command_and_the_api() {
        let process = run(json!({}), &image()).unwrap();
        assert_eq!(process.arguments, ["/entry", "serve"]);
        assert_eq!(process.working_folder, "/app");
        let expected =
            ["PATH=/bin", "LANG=C", "HOSTNAME=p", "KUBERNETES_SERVICE_HOST=10.9.0.1", "KUBERNETES_SERVICE_PORT=443"];
        assert_eq!(lines(&process), expected);
    }

    // K-POD-4
    #[test]
    fn variables_keep_their_order_and_may_use_those_before_them() {
        let env = json!([
            {"name": "B", "value": "b"}, {"name": "A", "value": "$(B)-$(later)-$(KUBERNETES_SERVICE_PORT)"},
            {"name": "later", "value": "$$(B)"}, {"name": "LANG", "value": "de"}, {"name": "EMPTY", "value": ""},
        ]);
        let process = run(json!({"env": env, "envFrom": [{"configMapRef": {"name": "m"}}]}), &image()).unwrap();
        let expected = ["PATH=/bin", "LANG=de", "HOSTNAME=p", "A=b-$(later)-443", "k=v", "B=b", "later=$(B)", "EMPTY="];
        assert_eq!(lines(&process)[..8], expected);
    }

    // K-POD-4
    #[test]
    fn commands_and_arguments_replace_the_images_and_are_expanded() {
        let env = json!([{"name": "N", "value": "4"}]);
        let cases = [
            (json!({"env": env, "command": ["run", "$(N)", "$(X)"]}), vec!["run", "4", "$(X)"]),
            (json!({"env": env, "args": ["--n=$(N)"]}), vec!["/entry", "--n=4"]),
            (json!({"env": env, "command": ["run"], "args": ["$(N)"]}), vec!["run", "4"]),
        ];
        for (container, expected) in cases {
            assert_eq!(run(container, &image()).unwrap().arguments, expected);
        }
        let nothing = run(json!({}), &ImageConfig::default()).unwrap_err();
        assert_eq!(nothing.to_string(), "no command specified");
    }

    #[test]
    fn values_come_from_fields_maps_and_secrets() {
        let env = json!([
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
            {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x", "optional": true}}},
        ]);
        let from =
            json!([{"prefix": "P_", "secretRef": {"name": "s"}}, {"secretRef": {"name": "no", "optional": true}}]);
        let process = run(json!({"env": env, "envFrom": from}), &image()).unwrap();
        assert_eq!(lines(&process)[3..7], ["P_token=hunter2", "POD=p", "KEY=v", "TOKEN=hunter2"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let key = |kind: &str, name: &str, key: &str| {
            let source = json!({kind: {"name": name, "key": key}});
            json!({"env": [{"name": "X", "valueFrom": source}]})
        };
        let cases = [
            (key("configMapKeyRef", "gone", "k"), "configmap \"gone\" not found"),
            (key("configMapKeyRef", "m", "x"), "couldn't find key x in ConfigMap ns/m"),
            (key("secretKeyRef", "gone", "k"), "secret \"gone\" not found"),
            (key("secretKeyRef", "s", "x"), "couldn't find key x in Secret ns/s"),
            (json!({"envFrom": [{"secretRef": {"name": "gone"}}]}), "secret \"gone\" not found"),
        ];
        for (container, text) in cases {
            assert_eq!(run(container, &image()).unwrap_err().to_string(), text);
        }
    }
}
