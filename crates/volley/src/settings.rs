//! How the cluster and its node are started: the options of `up` and `cluster`, and `$VOLLEY_HOME/config.yaml`.
//!
//! The file's keys are the long options, so the command line's own parser checks them; an option that is given goes
//! before the file's. `host` turns the result into the node's options.

use crate::home::Home;
use crate::host::Listen;
use crate::host::server::ServerArgs;
use anyhow::{Context, Result, anyhow};
use clap::error::{ContextKind, ErrorKind};
use clap::{Args, CommandFactory, Parser, ValueEnum};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use volley_cluster::images::reference::{ImageMap, Reference};
use volley_cluster::images::registry::RegistryConfig;
use volley_cluster::node::gpus::GpuChoice;
use volley_cluster::node::{NodeOptions, mode_word};
use volley_cluster::runtime::client::Launcher;
use volley_cluster::runtime::spec::Mode;
use volley_plan::job::training::{self, Gang};
use volley_plan::node::pretended_nodes::Groups;
use volley_scheduler::policy::Source;

/// More than any machine has; a typing error must not make a node of a million devices.
const FAKE_GPUS_MAX: i64 = 1024;
/// Beyond that, a share of a GPU is too small to do anything with.
const GPU_SLICES_MAX: i64 = 64;

/// Everything that a start can be told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Settings {
    #[command(flatten)]
    pub listen: Listen,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub operator: OperatorArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Says that pods of Kubeflow's jobs are placed one by one, as upstream places them unless it is told otherwise.
const NO_GANGS: &str = "none";

/// How training jobs are driven, in this process and by `volley operator`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Training jobs")]
pub struct OperatorArgs {
    /// How training jobs are treated: with upstream's slips repaired, or strictly as upstream does [default: repaired]
    #[arg(long, value_name = "HOW")]
    pub compat: Option<Compat>,
    /// Who places the pods of Kubeflow's jobs together: volcano, a scheduler of scheduler-plugins, or none
    /// [default: volcano on the embedded cluster, else none]
    #[arg(long, value_name = "NAME")]
    pub gang_scheduler_name: Option<String>,
    /// How pods are placed: a configuration of Volcano's scheduler, read again when it changes
    /// [default: that in ConfigMap volcano-scheduler-configmap of namespace volcano-system, if it is there]
    #[arg(long, value_name = "FILE")]
    pub scheduler_conf: Option<PathBuf>,
}

impl OperatorArgs {
    /// What the operator is told, wherever it runs.
    pub fn options(&self) -> volley_operator::Options {
        let mut options = volley_operator::Options::default();
        if self.compat == Some(Compat::Strict) {
            options.volcano.is_strict = true;
            options.training = training::Settings::strict();
        }
        let name = self.gang_scheduler_name.as_deref().filter(|name| *name != NO_GANGS);
        options.training.gang = name.and_then(Gang::parse);
        options.scheduler = Some(self.policy());
        options
    }

    /// Where the scheduler finds its policy.
    pub fn policy(&self) -> Source {
        self.scheduler_conf.clone().map_or(Source::ConfigMap, Source::File)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    Repaired,
    Strict,
}

impl Compat {
    fn word(self) -> &'static str {
        match self {
            Compat::Repaired => "repaired",
            Compat::Strict => "strict",
        }
    }
}

/// What the node may use, and how it gets images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// GPUs that pods may have: all, none, or their numbers, such as 0,2 [default: all]
    #[arg(long, value_name = "WHICH", value_parser = gpu_choice, conflicts_with = "fake_gpus")]
    pub gpus: Option<GpuChoice>,
    /// Pretend that there are this many GPUs, to try things out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=FAKE_GPUS_MAX))]
    pub fake_gpus: Option<u32>,
    /// How many containers may share one GPU [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=GPU_SLICES_MAX))]
    pub gpu_slices: Option<u32>,
    /// Run images whose name matches on the machine's own file system (`host`), or as another image; may be repeated
    #[arg(long = "image-map", value_name = "PATTERN=host|IMAGE", value_parser = ImageMap::parse)]
    pub image_maps: Vec<ImageMap>,
    /// How pods are kept apart [default: the best that the machine allows]
    #[arg(long, value_name = "KIND")]
    pub runtime: Option<Runtime>,
    /// Serve the API only: pods stay Pending
    #[arg(long)]
    pub no_node: bool,
    /// Show nodes that are not there, on which pods run without processes, such as 5000x8gpu; may be repeated
    #[arg(long, value_name = "NxMgpu[,cpu=..]", value_parser = Groups::parse)]
    pub pretend_nodes: Vec<Groups>,
    /// Ask this address before the registry itself; may be repeated
    #[arg(long = "registry-mirror", value_name = "HOST=URL", value_parser = Mirror::parse)]
    pub registry_mirrors: Vec<Mirror>,
    /// Speak http with this registry; those on loopback need no telling; may be repeated
    #[arg(long = "plain-http-registry", value_name = "HOST", value_parser = registry_host)]
    pub plain_http_registries: Vec<String>,
    /// Take any certificate from this registry; may be repeated
    #[arg(long = "insecure-registry", value_name = "HOST", value_parser = registry_host)]
    pub insecure_registries: Vec<String>,
}

/// The runtimes by the names that users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    /// Containers; needs root
    Oci,
    /// Containers in a user namespace, on the machine's network
    Rootless,
    /// Plain processes
    Process,
}

impl Runtime {
    pub fn mode(self) -> Mode {
        match self {
            Runtime::Oci => Mode::Root,
            Runtime::Rootless => Mode::Rootless,
            Runtime::Process => Mode::Process,
        }
    }
}

/// `HOST=URL` of `--registry-mirror`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    host: String,
    url: String,
}

impl Mirror {
    fn parse(text: &str) -> Result<Mirror, String> {
        let (host, url) = text.split_once('=').ok_or("want HOST=URL, such as docker.io=http://mirror.lan:5000")?;
        let address = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        match address.is_some_and(|address| !address.trim_matches('/').is_empty()) {
            true => Ok(Mirror { host: registry_host(host)?, url: url.to_owned() }),
            false => Err(format!("`{url}` is no address that begins with http:// or https://")),
        }
    }
}

fn gpu_choice(text: &str) -> Result<GpuChoice, String> {
    match text {
        "all" => return Ok(GpuChoice::All),
        "none" => return Ok(GpuChoice::None),
        _ => {}
    }
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let number =
            part.trim().parse().map_err(|_| "want all, none or numbers as `nvidia-smi -L` shows, such as 0,2")?;
        if numbers.contains(&number) {
            return Err(format!("{number} is there twice"));
        }
        numbers.push(number);
    }
    Ok(GpuChoice::Some(numbers))
}

/// A registry's host as it stands in image names.
fn registry_host(text: &str) -> Result<String, String> {
    let is_host = Reference::parse(&format!("{text}/image")).is_ok_and(|found| found.registry() == text);
    match is_host {
        true => Ok(text.to_owned()),
        false => Err("want a registry's host as image names have it, such as registry.lan:5000".to_owned()),
    }
}

impl Settings {
    /// Fills in what the home's file says.
    pub fn with_file(self, home: &Home) -> Result<Settings> {
        let file = read(&home.config())?;
        let listen = Listen {
            listen: self.listen.listen.or(file.listen.listen),
            names: or_else(self.listen.names, file.listen.names),
        };
        let operator = OperatorArgs {
            compat: self.operator.compat.or(file.operator.compat),
            gang_scheduler_name: self.operator.gang_scheduler_name.or(file.operator.gang_scheduler_name),
            scheduler_conf: self.operator.scheduler_conf.or(file.operator.scheduler_conf),
        };
        let server = ServerArgs { server_listen: self.server.server_listen.or(file.server.server_listen) };
        Ok(Settings { listen, node: self.node.or(file.node), operator, server })
    }

    /// The options as words, to start this program again with.
    pub fn words(&self) -> Vec<String> {
        let node = &self.node;
        let mut words = Vec::new();
        let mut add = |option: &str, value: String| words.push(format!("--{option}={value}"));
        self.listen.listen.iter().for_each(|address| add("listen", address.to_string()));
        self.listen.names.iter().for_each(|name| add("name", name.clone()));
        node.gpus.iter().for_each(|choice| add("gpus", gpu_words(choice)));
        node.fake_gpus.iter().for_each(|count| add("fake-gpus", count.to_string()));
        node.gpu_slices.iter().for_each(|count| add("gpu-slices", count.to_string()));
        node.image_maps.iter().for_each(|map| add("image-map", map.to_string()));
        node.runtime.iter().for_each(|runtime| add("runtime", mode_word(runtime.mode()).to_owned()));
        node.pretend_nodes.iter().for_each(|groups| add("pretend-nodes", groups.to_string()));
        node.registry_mirrors
            .iter()
            .for_each(|mirror| add("registry-mirror", format!("{}={}", mirror.host, mirror.url)));
        node.plain_http_registries.iter().for_each(|host| add("plain-http-registry", host.clone()));
        node.insecure_registries.iter().for_each(|host| add("insecure-registry", host.clone()));
        self.operator.compat.iter().for_each(|compat| add("compat", compat.word().to_owned()));
        self.operator.gang_scheduler_name.iter().for_each(|name| add("gang-scheduler-name", name.clone()));
        // The one who reads it may stand elsewhere.
        let conf = self.operator.scheduler_conf.iter().filter_map(|path| std::path::absolute(path).ok());
        conf.for_each(|path| add("scheduler-conf", path.display().to_string()));
        self.server.server_listen.iter().for_each(|address| add("server-listen", address.to_string()));
        if node.no_node {
            words.push("--no-node".to_owned());
        }
        words
    }
}

fn gpu_words(choice: &GpuChoice) -> String {
    match choice {
        GpuChoice::All => "all".to_owned(),
        GpuChoice::None => "none".to_owned(),
        GpuChoice::Some(numbers) => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        // Another option says it; here it is complete for its type's sake.
        GpuChoice::Fake(_) => "none".to_owned(),
    }
}

fn or_else<T>(given: Vec<T>, other: Vec<T>) -> Vec<T> {
    if given.is_empty() { other } else { given }
}

impl NodeArgs {
    fn or(self, file: NodeArgs) -> NodeArgs {
        // The two exclude each other, so one that is given hides both of the file's.
        let has_gpus = self.gpus.is_some() || self.fake_gpus.is_some();
        let (gpus, fake_gpus) = if has_gpus { (self.gpus, self.fake_gpus) } else { (file.gpus, file.fake_gpus) };
        NodeArgs {
            gpus,
            fake_gpus,
            gpu_slices: self.gpu_slices.or(file.gpu_slices),
            image_maps: or_else(self.image_maps, file.image_maps),
            runtime: self.runtime.or(file.runtime),
            no_node: self.no_node || file.no_node,
            pretend_nodes: or_else(self.pretend_nodes, file.pretend_nodes),
            registry_mirrors: or_else(self.registry_mirrors, file.registry_mirrors),
            plain_http_registries: or_else(self.plain_http_registries, file.plain_http_registries),
            insecure_registries: or_else(self.insecure_registries, file.insecure_registries),
        }
    }

    /// What the node is started with; `None` when there is to be none. `maps` come after the options' own.
    pub fn options(&self, maps: Vec<ImageMap>) -> Result<Option<NodeOptions>> {
        if self.no_node {
            return Ok(None);
        }
        Ok(Some(NodeOptions {
            launcher: Launcher::own().context("failed to find this program")?,
            mode: self.runtime.map(Runtime::mode),
            gpus: self.fake_gpus.map(GpuChoice::Fake).or(self.gpus.clone()).unwrap_or(GpuChoice::All),
            gpu_slices: self.gpu_slices.unwrap_or(1),
            image_maps: [self.image_maps.clone(), maps].concat(),
            registries: self.registries(),
        }))
    }

    /// Nodes that are not there.
    pub fn pretended(&self) -> Result<Groups> {
        Groups::joined(self.pretend_nodes.clone()).map_err(|problem| anyhow!("--pretend-nodes: {problem}"))
    }

    pub fn registries(&self) -> RegistryConfig {
        let mut config = RegistryConfig::default();
        for mirror in &self.registry_mirrors {
            config.hosts.entry(mirror.host.clone()).or_default().mirrors.push(mirror.url.clone());
        }
        for host in &self.plain_http_registries {
            config.hosts.entry(host.clone()).or_default().plain_http = true;
        }
        for host in &self.insecure_registries {
            config.hosts.entry(host.clone()).or_default().skip_verify = true;
        }
        config
    }
}

/// The settings alone, as the command line's parser sees them.
#[derive(Parser)]
#[command(disable_help_flag = true, no_binary_name = true)]
struct Alone {
    #[command(flatten)]
    settings: Settings,
}

/// The file's entries, in its order.
struct Entries(Vec<(Spanned<String>, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct Mapping;
        impl<'de> Visitor<'de> for Mapping {
            type Value = Entries;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a mapping of settings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Mapping)
    }
}

/// Reads the file; one that is not there says nothing. All that is wrong with it is told at once.
fn read(path: &Path) -> Result<Settings> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Settings::default()),
        Err(error) => return Err(error).with_context(|| format!("failed to read `{}`", path.display())),
    };
    let is_empty = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if is_empty {
        return Ok(Settings::default());
    }
    let entries: Entries =
        serde_saphyr::from_str(&text).with_context(|| format!("`{}` is not a mapping in YAML", path.display()))?;
    parse(&entries).map_err(|problems| {
        let command = Alone::command();
        let keys: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
        anyhow!(
            "`{}` cannot be used\n  {}\nhint: its keys are the options of `volley up`: {}",
            path.display(),
            problems.join("\n  "),
            keys.join(", ")
        )
    })
}

fn parse(entries: &Entries) -> Result<Settings, Vec<String>> {
    let (mut words, mut problems) = (Vec::new(), Vec::new());
    for (key, value) in &entries.0 {
        let option = option_words(&key.value, value);
        let checked = option.and_then(|option| match Alone::try_parse_from(&option) {
            Ok(_) => Ok(option),
            Err(error) => Err(reason(&key.value, &error)),
        });
        match checked {
            Ok(option) => words.extend(option),
            Err(problem) => problems.push(format!("line {}: {problem}", key.defined.line())),
        }
    }
    if problems.is_empty() {
        return Alone::try_parse_from(&words).map(|alone| alone.settings).map_err(|error| vec![first_line(&error)]);
    }
    Err(problems)
}

/// One entry as words of a command line.
fn option_words(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Ok(format!("--{key}={text}")),
        Value::Number(number) => Ok(format!("--{key}={number}")),
        _ => Err(format!("`{key}` wants text or a number, or a list of them")),
    };
    match value {
        Value::Bool(true) => Ok(vec![format!("--{key}")]),
        Value::Bool(false) if key == "no-node" => Ok(Vec::new()),
        // The one option whose list is a single value.
        Value::Array(numbers) if key == "gpus" => {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            Ok(vec![format!("--gpus={}", numbers.join(","))])
        }
        Value::Array(values) => values.iter().map(scalar).collect(),
        single => Ok(vec![scalar(single)?]),
    }
}

fn reason(key: &str, error: &clap::Error) -> String {
    if error.kind() != ErrorKind::UnknownArgument {
        return first_line(error);
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(meant) => format!("`{key}` is no setting; `{}` is", meant.to_string().trim_start_matches('-')),
        None => format!("`{key}` is no setting"),
    }
}

/// What is wrong, without the advice that is meant for a command line.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    match lines.next().filter(|line| line.starts_with('[')) {
        Some(values) => format!("{first} {values}"),
        None => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(words: &[&str]) -> Settings {
        Alone::try_parse_from(words).unwrap().settings
    }

    fn file(text: &str) -> Result<Settings> {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(folder.path())).unwrap();
        fs::write(home.config(), text).unwrap();
        Settings::default().with_file(&home)
    }

    #[test]
    fn nothing_given_is_all_gpus_unshared_on_the_best_runtime() {
        let options = file("# nothing yet\n").unwrap().node.options(Vec::new()).unwrap().unwrap();
        assert_eq!((options.gpus, options.gpu_slices, options.mode), (GpuChoice::All, 1, None));
        assert!(options.image_maps.is_empty());
    }

    #[test]
    fn a_second_start_by_words_is_told_the_same() {
        let all = [
            "--listen=127.0.0.1:0",
            "--name=box.lan",
            "--gpus=0,2",
            "--gpu-slices=4",
            "--image-map=pytorch/*=host",
            "--image-map=*=registry.lan:5000/base:1",
            "--runtime=rootless",
            "--registry-mirror=docker.io=http://mirror.lan:5000",
            "--plain-http-registry=registry.lan:5000",
            "--insecure-registry=other.lan",
            "--compat=strict",
            "--gang-scheduler-name=volcano",
            "--pretend-nodes=100x8gpu,label.zone=a,50x",
            "--pretend-nodes=3x1gpu,name=small",
            "--no-node",
        ];
        for words in [&all[..], &["--fake-gpus=4"], &["--gpus=all"], &["--gpus=none"], &[]] {
            let given = settings(words);
            let again: Vec<String> = given.words();
            assert_eq!(settings(&again.iter().map(String::as_str).collect::<Vec<_>>()), given);
            assert_eq!(again.len(), words.len());
        }
    }

    #[test]
    fn the_file_says_the_same_as_options_do() {
        let text = "\
listen: 127.0.0.1:0
gpus: [0, 2]
gpu-slices: 2
runtime: process
image-map: ['pytorch/*=host', 'a=b']
registry-mirror: docker.io=http://mirror.lan:5000
no-node: false
compat: strict
gang-scheduler-name: volcano
";
        let words = [
            "--listen=127.0.0.1:0",
            "--gpus=0,2",
            "--gpu-slices=2",
            "--runtime=process",
            "--image-map=pytorch/*=host",
            "--image-map=a=b",
            "--registry-mirror=docker.io=http://mirror.lan:5000",
            "--compat=strict",
            "--gang-scheduler-name=volcano",
        ];
        assert_eq!(file(text).unwrap(), settings(&words));
    }

    #[test]
    fn options_go_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(folder.path())).unwrap();
        fs::write(home.config(), "fake-gpus: 4\ngpu-slices: 2\nimage-map: a=host\n").unwrap();
        let merged = settings(&["--gpus=none", "--image-map=b=host"]).with_file(&home).unwrap();
        assert_eq!(merged, settings(&["--gpus=none", "--gpu-slices=2", "--image-map=b=host"]));
    }

    #[test]
    fn all_that_is_wrong_with_the_file_is_told_at_once() {
        let text = "gpu: all\n# a comment\nruntime: docker\ngpu-slices: 0\nimage-map: [x]\nregistry-mirror: {a: b}\n";
        let told = file(text).unwrap_err().to_string();
        let expected = [
            "line 1: `gpu` is no setting; `gpus` is",
            "line 3: invalid value 'docker' for '--runtime <KIND>' [possible values: oci, rootless, process]",
            "line 4: invalid value '0' for '--gpu-slices <N>': 0 is not in 1..=64",
            "line 5: invalid value 'x' for '--image-map <PATTERN=host|IMAGE>': invalid image map \"x\": want \
             PATTERN=host or PATTERN=IMAGE",
            "line 6: `registry-mirror` wants text or a number, or a list of them",
        ];
        for line in expected {
            assert!(told.contains(line), "{line}\n{told}");
        }
        assert!(told.contains("hint: its keys are the options of `volley up`: listen, name, gpus,"), "{told}");
    }

    #[test]
    fn real_and_pretended_gpus_exclude_each_other_in_the_file_too() {
        let told = file("gpus: all\nfake-gpus: 2\n").unwrap_err().to_string();
        assert!(told.contains("cannot be used with"), "{told}");
    }

    #[test]
    fn a_broken_file_is_told_with_its_place() {
        let told = format!("{:#}", file("gpus: [\n").unwrap_err());
        assert!(told.contains("config.yaml` is not a mapping in YAML"), "{told}");
        assert!(told.contains("line"), "{told}");
    }

    #[test]
    fn hosts_and_mirrors_that_cannot_be_are_refused() {
        for wrong in ["docker.io", "docker.io=mirror", "docker.io=ftp://x", "docker.io=http://", "a b=http://x"] {
            assert!(Mirror::parse(wrong).is_err(), "{wrong}");
        }
        assert!(registry_host("registry").is_err());
        assert!(registry_host("localhost").is_ok());
        for wrong in ["", "0,0", "one", "0,", "-1"] {
            assert!(gpu_choice(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn registries_are_gathered_by_host() {
        let words =
            ["--registry-mirror=r.lan=http://a", "--registry-mirror=r.lan=http://b", "--plain-http-registry=r.lan"];
        let registries = settings(&words).node.registries();
        let host = &registries.hosts["r.lan"];
        assert_eq!(host.mirrors, ["http://a", "http://b"]);
        assert!(host.plain_http && !host.skip_verify);
    }
}
