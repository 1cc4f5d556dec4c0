//! A container of a pod as a demand on the runtime: root, process, user, mounts, devices, limits.
//!
//! What the pod asks for is passed on or refused by name, never quietly dropped.

use super::keeper::Found;
use super::volumes;
use super::{Parts, paths};
use crate::runtime::spec::{
    self, CapabilityChange, Device, LogFile, Mode, Mount, MountSource, Propagation, Resources, Root, Seccomp, User,
};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, Container, EnvVar, Pod, PodSecurityContext, SeccompProfile, Secret, SecurityContext,
    Service,
};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use volley_plan::node::devices::DeviceId;
use volley_plan::node::environment::{self, ConfigError, Sources};
use volley_plan::node::resources::{container_cgroup, oom_score_adj};

/// The kubelet's defaults.
const LOG_BYTES_MAX: u64 = 10 << 20;
const LOG_FILES_MAX: u32 = 5;

/// Why a container cannot be made, in the words of its waiting state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: &'static str,
    pub message: String,
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Refusal {
        config(error.0)
    }
}

fn config(message: impl Into<String>) -> Refusal {
    Refusal { reason: "CreateContainerConfigError", message: message.into() }
}

fn unsupported(message: impl Into<String>) -> Refusal {
    Refusal { reason: "CreateContainerError", message: message.into() }
}

/// One attempt at a container of a pod.
pub struct Making<'a> {
    pub parts: &'a Parts,
    pub pod: &'a Pod,
    pub container: &'a Container,
    pub folder: &'a Path,
    pub sandbox_number: u32,
    pub id: &'a str,
    pub attempt_number: u32,
    pub found: &'a Found,
    pub granted: &'a [String],
    pub sources: &'a Sources,
}

impl Making<'_> {
    pub fn demand(&self) -> Result<spec::Container, Refusal> {
        let (pod, container) = (self.pod, self.container);
        self.refuse_what_is_not_had()?;
        let planned = environment::process(pod, container, &self.found.config(), self.sources)?;
        let mut environment = planned.environment;
        let mut mounts = volumes::mounts(pod, container, &paths::volumes(self.folder), &environment)?;
        let mut devices = Vec::new();
        self.add_gear(&mut environment, &mut mounts, &mut devices);
        let security = container.security_context.clone().unwrap_or_default();
        let read_only_root = security.read_only_root_filesystem == Some(true);
        self.add_files(&mut mounts, read_only_root)?;
        let process = spec::Process {
            args: planned.arguments,
            env: environment,
            cwd: Some(PathBuf::from(planned.working_folder)),
            tty: container.tty == Some(true),
            oom_score_adj: self.oom_score(),
            ..self.confined(&security)?
        };
        let mut demand = spec::Container::new(self.id, self.root()?, process);
        demand.name.clone_from(&container.name);
        demand.attempt = self.attempt_number;
        demand.beside = self.target();
        demand.read_only_root = read_only_root;
        self.open_paths(&security, &mut demand);
        demand.resources = self.resources();
        demand.stdin = container.stdin == Some(true);
        demand.log =
            Some(self.log().map_err(|error| unsupported(format!("failed to make the log's folder: {error}")))?);
        self.drop_mounts_of_the_process_mode(&mut mounts)?;
        (demand.mounts, demand.devices) = (mounts, devices);
        Ok(demand)
    }

    /// The container that an ephemeral one is to look at.
    fn target(&self) -> Option<String> {
        let ephemerals = self.pod.spec.as_ref()?.ephemeral_containers.as_ref()?;
        let own = ephemerals.iter().find(|ephemeral| ephemeral.name == self.container.name)?;
        own.target_container_name.clone().filter(|name| !name.is_empty())
    }

    fn mode(&self) -> Mode {
        self.parts.capabilities.mode
    }

    fn refuse_what_is_not_had(&self) -> Result<(), Refusal> {
        let own = self.container.security_context.as_ref();
        let pods = self.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let has_selinux = own.is_some_and(|own| own.se_linux_options.is_some())
            || pods.is_some_and(|pods| pods.se_linux_options.is_some());
        if has_selinux {
            return Err(unsupported("seLinuxOptions: this node does not speak SELinux; remove the field"));
        }
        let profile = own.and_then(|own| own.app_armor_profile.as_ref());
        let profile = profile.or(pods.and_then(|pods| pods.app_armor_profile.as_ref()));
        if let Some(profile) = profile.filter(|profile| profile.type_ != "Unconfined") {
            let kind = &profile.type_;
            return Err(unsupported(format!(
                "appArmorProfile {kind}: this node loads no AppArmor profiles; remove the field or choose Unconfined"
            )));
        }
        if self.mode() == Mode::Rootless && own.is_some_and(|own| own.privileged == Some(true)) {
            return Err(unsupported(
                "privileged: true asks for the machine's root, which a node without root cannot give",
            ));
        }
        if self.pod.spec.as_ref().is_some_and(|spec| spec.host_users == Some(false)) {
            return Err(unsupported(
                "hostUsers: false asks for a user namespace per pod, which this node does not make",
            ));
        }
        let has_devices = self.container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty());
        if has_devices {
            return Err(unsupported("volumeDevices: this node has no block volumes"));
        }
        Ok(())
    }

    fn root(&self) -> Result<Root, Refusal> {
        let scratch = paths::scratch(self.folder, self.sandbox_number, self.id);
        match (self.found, self.mode()) {
            (Found::Host, Mode::Process) => Ok(Root::Machine),
            (Found::Host, Mode::Root | Mode::Rootless) => Ok(Root::Host { scratch }),
            (Found::Image(_), Mode::Process) => Err(unsupported(
                "images cannot be run in the process mode: use image `host`, or map the image with --image-map PATTERN=host",
            )),
            (Found::Image(image), Mode::Root | Mode::Rootless) => {
                Ok(Root::Layers { lower: image.layers.clone(), scratch })
            }
        }
    }

    /// User, groups, capabilities, system calls.
    fn confined(&self, security: &SecurityContext) -> Result<spec::Process, Refusal> {
        let pods = self.pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
        let mut process = spec::Process::new(Vec::<String>::new());
        process.user = self.user(security, &pods)?;
        process.capabilities = capabilities(security.capabilities.as_ref());
        process.privileged = security.privileged == Some(true);
        process.no_new_privs = security.allow_privilege_escalation == Some(false);
        let profile = security.seccomp_profile.as_ref().or(pods.seccomp_profile.as_ref());
        process.seccomp = match profile {
            None if process.privileged => Seccomp::Unconfined,
            // A process of the machine keeps what the machine lets it do, unless the pod asks for less.
            None if self.mode() == Mode::Process => Seccomp::Unconfined,
            None => Seccomp::RuntimeDefault,
            Some(profile) => self.seccomp(profile)?,
        };
        Ok(process)
    }

    fn seccomp(&self, profile: &SeccompProfile) -> Result<Seccomp, Refusal> {
        match profile.type_.as_str() {
            "RuntimeDefault" => Ok(Seccomp::RuntimeDefault),
            "Unconfined" => Ok(Seccomp::Unconfined),
            "Localhost" => {
                let name = profile.localhost_profile.as_deref().unwrap_or_default();
                Ok(Seccomp::Localhost(paths::seccomp(&self.parts.home).join(name)))
            }
            other => Err(unsupported(format!("seccompProfile type {other:?} is not known"))),
        }
    }

    fn user(&self, own: &SecurityContext, pods: &PodSecurityContext) -> Result<User, Refusal> {
        let uid = own.run_as_user.or(pods.run_as_user);
        let gid = own.run_as_group.or(pods.run_as_group);
        let number = |id: i64| u32::try_from(id).map_err(|_| config(format!("{id} is not a user or group id")));
        let mut extra_groups = Vec::new();
        for id in pods.supplemental_groups.iter().flatten().copied().chain(pods.fs_group) {
            extra_groups.push(number(id)?);
        }
        let image_user = match self.found {
            Found::Host => "",
            Found::Image(image) => image.config.user.as_str(),
        };
        if own.run_as_non_root.or(pods.run_as_non_root) == Some(true) {
            self.check_not_root(uid, image_user)?;
        }
        match (uid, image_user) {
            (Some(uid), _) => Ok(User::Number { uid: number(uid)?, gid: gid.map(number).transpose()?, extra_groups }),
            (None, "") => {
                // Without root nobody but the owner of the process can be had.
                let uid = if self.mode() == Mode::Process { rustix::process::getuid().as_raw() } else { 0 };
                Ok(User::Number { uid, gid: gid.map(number).transpose()?, extra_groups })
            }
            (None, user) => match gid {
                Some(gid) => {
                    let name = user.split(':').next().unwrap_or_default();
                    Ok(User::Named { user: format!("{name}:{gid}"), extra_groups })
                }
                None => Ok(User::Named { user: user.to_owned(), extra_groups }),
            },
        }
    }

    fn check_not_root(&self, uid: Option<i64>, image_user: &str) -> Result<(), Refusal> {
        let name = self.pod.metadata.name.as_deref().unwrap_or_default();
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let pod_uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let who = format!("(pod: \"{name}_{namespace}({pod_uid})\", container: {})", self.container.name);
        let image_uid = image_user.split(':').next().unwrap_or_default();
        match (uid, image_uid.parse::<u32>()) {
            (Some(0), _) => Err(config(format!("container's runAsUser breaks non-root policy {who}"))),
            (Some(_), _) => Ok(()),
            (None, Ok(0)) => Err(config(format!("container has runAsNonRoot and image will run as root {who}"))),
            (None, Ok(_)) => Ok(()),
            (None, Err(_)) if image_uid.is_empty() => {
                Err(config(format!("container has runAsNonRoot and image will run as root {who}")))
            }
            (None, Err(_)) => Err(config(format!(
                "container has runAsNonRoot and image has non-numeric user ({image_uid}), cannot verify user is non-root {who}"
            ))),
        }
    }

    fn oom_score(&self) -> Option<i32> {
        let memory = self.parts.machine.amounts().capacity.get("memory").map_or(0, |amount| amount.value());
        let score = oom_score_adj(self.pod, self.container, u64::try_from(memory).unwrap_or(0));
        i32::try_from(score).ok()
    }

    /// Limits need a cgroup; where there is none the node says so for all pods.
    fn resources(&self) -> Resources {
        if !self.parts.has_cgroups() {
            return Resources::default();
        }
        let cgroup = container_cgroup(self.container);
        Resources {
            cpu_shares: Some(cgroup.cpu_shares),
            cpu_quota_us: cgroup.cpu_quota_us,
            memory_bytes: cgroup.memory_bytes,
            pids: cgroup.pids,
        }
    }

    fn add_gear(&self, environment: &mut Vec<(String, String)>, mounts: &mut Vec<Mount>, devices: &mut Vec<Device>) {
        let granted: Vec<DeviceId> = self.granted.iter().cloned().map(DeviceId).collect();
        let mut gear = self.parts.gpus.gear(&granted, matches!(self.found, Found::Host));
        if self.mode() == Mode::Process {
            gear = gear.for_plain_process();
        }
        for (name, value) in gear.environment_defaults {
            if !environment.iter().any(|(known, _)| *known == name) {
                environment.push((name, value));
            }
        }
        for (name, value) in gear.environment {
            let is_the_pods = self.container.env.iter().flatten().any(|variable| variable.name == name);
            if !is_the_pods {
                environment.retain(|(known, _)| *known != name);
                environment.push((name, value));
            }
        }
        mounts.extend(gear.mounts);
        devices.extend(gear.devices);
    }

    /// `/etc/hosts` and its like, and the file for the last words, unless a volume lies there.
    fn add_files(&self, mounts: &mut Vec<Mount>, read_only: bool) -> Result<(), Refusal> {
        let failed =
            |path: &Path, error: std::io::Error| unsupported(format!("failed to make {}: {error}", path.display()));
        let etc = paths::etc(self.folder);
        let mut files: Vec<(PathBuf, PathBuf, bool)> = ["hosts", "hostname", "resolv.conf"]
            .into_iter()
            .map(|name| (Path::new("/etc").join(name), etc.join(name), read_only))
            .filter(|(_, source, _)| source.exists())
            .collect();
        if self.mode() != Mode::Process {
            let message = paths::message(self.folder, &self.container.name, self.attempt_number);
            make_message_file(&message).map_err(|error| failed(&message, error))?;
            let target = self.container.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
            files.push((PathBuf::from(target), message, false));
        }
        for (target, source, read_only) in files {
            if !mounts.iter().any(|mount| mount.target == target) {
                let source = MountSource::Bind { path: source, sub_path: None };
                mounts.push(Mount { target, source, read_only, propagation: Propagation::None });
            }
        }
        Ok(())
    }

    /// A process of the machine sees the machine's files. What every pod is given goes without saying; what this one asks
    /// for is refused by name.
    fn drop_mounts_of_the_process_mode(&self, mounts: &mut Vec<Mount>) -> Result<(), Refusal> {
        if self.mode() != Mode::Process {
            return Ok(());
        }
        let is_given = |mount: &Mount| {
            mount.target.starts_with("/var/run/secrets/kubernetes.io/serviceaccount")
                || mount.target.starts_with("/etc")
        };
        mounts.retain(|mount| !is_given(mount));
        match mounts.first() {
            None => Ok(()),
            Some(mount) => Err(unsupported(format!(
                "a volume at {} cannot be had in the process mode, where containers see the machine's own files",
                mount.target.display()
            ))),
        }
    }

    fn open_paths(&self, security: &SecurityContext, demand: &mut spec::Container) {
        let is_open = security.privileged == Some(true) || security.proc_mount.as_deref() == Some("Unmasked");
        if is_open {
            demand.masked_paths.clear();
            demand.read_only_paths.clear();
        }
        // Keys, tokens and other pods' files: a container on the machine's files must not read them.
        if matches!(demand.root, Root::Host { .. }) {
            demand.masked_paths.push(self.parts.home.clone());
        }
    }

    fn log(&self) -> std::io::Result<LogFile> {
        let path = paths::log(self.folder, &self.container.name, self.attempt_number);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        Ok(LogFile { path, bytes_max: LOG_BYTES_MAX, files_max: LOG_FILES_MAX })
    }
}

fn capabilities(asked: Option<&Capabilities>) -> CapabilityChange {
    let names = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    CapabilityChange {
        add: names(asked.and_then(|asked| asked.add.as_ref())),
        drop: names(asked.and_then(|asked| asked.drop.as_ref())),
    }
}

/// Any user of the container may leave a message.
fn make_message_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, "")?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666))
}

/// The objects that a pod's containers and volumes refer to, as they are now.
pub fn sources(parts: &Parts, pod: &Pod, addresses: &[String]) -> Sources {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let referred = Referred::of(pod);
    let mut services: Vec<Service> = parts.list("services", namespace);
    if namespace != "default" {
        services.extend(parts.get::<Service>("services", "default", "kubernetes"));
    }
    let services = services.into_iter().map(|service| parts.network.as_reached(service, &parts.server)).collect();
    fn load<T: DeserializeOwned>(
        parts: &Parts,
        bucket: &str,
        namespace: &str,
        names: BTreeSet<String>,
    ) -> BTreeMap<String, T> {
        let find = |name: String| Some((parts.get::<T>(bucket, namespace, &name)?, name));
        names.into_iter().filter_map(find).map(|(object, name)| (name, object)).collect()
    }
    Sources {
        services,
        config_maps: load::<ConfigMap>(parts, "configmaps", namespace, referred.config_maps),
        secrets: load::<Secret>(parts, "secrets", namespace, referred.secrets),
        around: parts.machine.surroundings(addresses),
    }
}

/// The names of what a pod's environment and volumes are made of.
#[derive(Default, PartialEq, Eq)]
pub struct Referred {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
}

impl Referred {
    pub fn of(pod: &Pod) -> Referred {
        let mut referred = Referred::default();
        let Some(spec) = &pod.spec else { return referred };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            referred.add_environment(container.env.iter().flatten());
            for source in container.env_from.iter().flatten() {
                referred.config_maps.extend(source.config_map_ref.as_ref().map(|map| map.name.clone()));
                referred.secrets.extend(source.secret_ref.as_ref().map(|secret| secret.name.clone()));
            }
        }
        for container in spec.ephemeral_containers.iter().flatten() {
            referred.add_environment(container.env.iter().flatten());
        }
        for volume in spec.volumes.iter().flatten() {
            referred.config_maps.extend(volume.config_map.as_ref().map(|map| map.name.clone()));
            referred.secrets.extend(volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()));
            let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            for source in projected {
                referred.config_maps.extend(source.config_map.as_ref().map(|map| map.name.clone()));
                referred.secrets.extend(source.secret.as_ref().map(|secret| secret.name.clone()));
            }
        }
        referred
    }

    fn add_environment<'a>(&mut self, variables: impl Iterator<Item = &'a EnvVar>) {
        for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
            self.config_maps.extend(source.config_map_key_ref.as_ref().map(|map| map.name.clone()));
            self.secrets.extend(source.secret_key_ref.as_ref().map(|secret| secret.name.clone()));
        }
    }
}
