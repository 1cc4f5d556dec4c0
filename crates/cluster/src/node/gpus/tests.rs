//! GPUs without one: fakes, and what containers get of a made-up driver.

use super::card::{Body, Part, Place};
use super::*;
use crate::runtime::spec::MountSource;
use std::fs;

const VERSION: &str = "580.1";

#[test]
fn a_machine_without_a_driver_has_no_gpus() {
    let driver_answers = nvml::open(Path::new("/")).is_ok();
    let gpus = Gpus::discover(&GpuChoice::All, 1).unwrap();
    assert_eq!(gpus.inventory().devices.is_empty(), !driver_answers);
    assert_eq!(gpus.usage().len(), gpus.inventory().devices.len());
    let error = Gpus::discover(&GpuChoice::Some(vec![97, 98]), 1).err().unwrap().to_string();
    assert!(error.starts_with("GPU 97, 98 cannot be used: "), "{error}");
    assert_eq!(error.contains("the NVIDIA driver does not answer"), !driver_answers, "{error}");
}

#[test]
fn nothing_is_looked_for_when_none_are_wanted() {
    let gpus = Gpus::discover(&GpuChoice::None, 1).unwrap();
    assert!(gpus.inventory().devices.is_empty() && gpus.labels().is_empty());
    assert_eq!(gpus.gear(&[], true), Gear::default());
}

#[test]
fn a_number_that_is_not_there_is_an_error_that_tells_what_is() {
    let found = || Ok(vec![whole(0, 0), whole(1, 1)]);
    assert_eq!(choose(found(), None).unwrap().len(), 2);
    let chosen = choose(found(), Some(&vec![1])).unwrap();
    assert_eq!(chosen.iter().map(|card| card.index).collect::<Vec<_>>(), [1]);
    let error = choose(found(), Some(&vec![1, 2])).unwrap_err().to_string();
    let expected = "GPU 2 cannot be used: this machine has 0 (NVIDIA H200), 1 (NVIDIA H200); \
                    choose others with --gpus, or `--gpus all`";
    assert_eq!(error, expected);
}

fn ids(names: &[&str]) -> Vec<DeviceId> {
    names.iter().map(|name| DeviceId((*name).to_owned())).collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn fake_gpus_are_told_in_variables_and_need_nothing_else() {
    let gpus = Gpus::discover(&GpuChoice::Fake(4), 1).unwrap();
    assert_eq!(gpus.inventory().allocatable(), BTreeMap::from([(GPU.to_owned(), 4)]));
    let gear = gpus.gear(&ids(&["GPU-fake-0", "GPU-fake-2"]), false);
    let both = "GPU-fake-0,GPU-fake-2";
    let environment = vec![pair("NVIDIA_VISIBLE_DEVICES", both), pair("CUDA_VISIBLE_DEVICES", both)];
    assert_eq!(gear, Gear { environment: environment.clone(), ..Gear::default() });
    assert_eq!(gear.for_plain_process().environment, environment);
    let none = gpus.gear(&[], true);
    assert_eq!(none.environment, [pair("NVIDIA_VISIBLE_DEVICES", "void")]);
    assert_eq!(none.for_plain_process().environment[1], pair("CUDA_VISIBLE_DEVICES", ""));
    let usage = &gpus.usage()[3];
    assert_eq!((usage.index, usage.utilisation_percent, usage.is_fake, usage.is_healthy), (3, Some(0), true, true));
    let labels = gpus.labels();
    assert_eq!(labels["volley.dev/fake-gpus"], "4");
    assert_eq!(labels["nvidia.com/gpu.count"], "4");
    assert!(!labels.contains_key("nvidia.com/gpu.memory"));
}

#[test]
fn a_usage_reads_back_from_json() {
    let usage = Gpus::discover(&GpuChoice::Fake(1), 1).unwrap().usage();
    let text = serde_json::to_string(&usage).unwrap();
    assert!(text.contains(r#""memoryTotalMib":0,"memoryUsedMib":0,"utilisationPercent":0"#), "{text}");
    assert_eq!(serde_json::from_str::<Vec<GpuUsage>>(&text).unwrap(), usage);
}

fn whole(index: u32, minor: u32) -> Card {
    Card {
        index,
        uuid: format!("GPU-{index}"),
        name: "NVIDIA H200".to_owned(),
        memory_mib: 143_771,
        numa_node: None,
        body: Body::Whole(Place { minor, bus: format!("0000:0{index}:00.0") }),
    }
}

/// The second part of the GPU with index 2, which is divided.
fn part() -> Card {
    let Body::Whole(place) = whole(2, 2).body else { unreachable!("it is whole") };
    let part = Part { parent: "GPU-2".to_owned(), profile: "1g.5gb".to_owned(), gpu_instance: 9, compute_instance: 0 };
    let name = "NVIDIA A100 MIG 1g.5gb".to_owned();
    Card { uuid: "MIG-7".to_owned(), name, memory_mib: 4864, body: Body::Part(place, part), ..whole(2, 2) }
}

/// A machine with three GPUs, the first two of which have their nodes the other way round.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let machine = Machine { root: tempfile::tempdir().unwrap() };
        for node in ["nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap12"] {
            machine.write(&format!("dev/{node}"), "");
        }
        machine.write("dev/nvidia-caps/nvidia-cap75", "");
        machine.write("dev/nvidia-caps/nvidia-cap76", "");
        let minors =
            "config 1\ngpu2/gi1/access 12\ngpu2/gi9/access 75\ngpu2/gi9/ci0/access 76\ngpu2/gi9/ci1/access 77\n";
        machine.write("proc/driver/nvidia-caps/mig-minors", minors);
        for index in 0..3 {
            machine.write(&format!("proc/driver/nvidia/gpus/0000:0{index}:00.0/information"), "");
        }
        machine.write("usr/lib64/libcuda.so.580.1", "");
        machine.write("usr/lib64/libnvidia-ml.so.580.1", "");
        machine.write("usr/bin/nvidia-smi", "\x7fELF");
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn gpus(&self) -> Gpus {
        let root = self.root.path();
        Gpus::new(root, vec![whole(0, 1), whole(1, 0), part()], 2, driver::Files::find(root, VERSION, None))
    }

    /// What is mounted where, relative to the machine's root; file systems of its own are `tmpfs`.
    fn mounts(&self, gear: &Gear) -> Vec<(String, String)> {
        let root = self.root.path();
        let canonical = root.canonicalize().unwrap();
        let source = |path: &Path| match path.strip_prefix(root).or_else(|_| path.strip_prefix(&canonical)) {
            Ok(below) => below.display().to_string(),
            Err(_) => path.display().to_string(),
        };
        let mounts = gear.mounts.iter().map(|mount| {
            let source = match &mount.source {
                MountSource::Bind { path, .. } => source(path),
                MountSource::Tmpfs { .. } => "tmpfs".to_owned(),
            };
            (mount.target.display().to_string(), source)
        });
        mounts.collect()
    }
}

fn nodes(gear: &Gear) -> Vec<&str> {
    let nodes = gear.devices.iter().map(|device| device.container_path.to_str().unwrap());
    nodes.map(|path| path.strip_prefix("/dev/").unwrap()).collect()
}

#[test]
fn a_container_gets_its_own_nodes_and_those_that_all_need() {
    let machine = Machine::new();
    let gear = machine.gpus().gear(&ids(&["GPU-0", "GPU-0"]), true);
    assert_eq!(nodes(&gear), ["nvidiactl", "nvidia-uvm", "nvidia1"], "by minor number, not by index");
    assert!(gear.devices.iter().all(|device| device.access == "rw"));
    assert_eq!(gear.environment, [pair("NVIDIA_VISIBLE_DEVICES", "GPU-0")]);
    let covered = pair("/proc/driver/nvidia/gpus", "tmpfs");
    let own = pair("/proc/driver/nvidia/gpus/0000:00:00.0", "proc/driver/nvidia/gpus/0000:00:00.0");
    assert_eq!(machine.mounts(&gear), [covered, own]);
    assert!(gear.environment_defaults.is_empty(), "the host image's loader finds the driver");
    assert_eq!(machine.gpus().gear(&ids(&["GPU-0", "GPU-1", "MIG-7"]), true).mounts, [], "it may see all boards");
}

#[test]
fn a_container_without_a_grant_sees_no_gpu() {
    let machine = Machine::new();
    let gear = machine.gpus().gear(&[], false);
    assert_eq!(gear.environment, [pair("NVIDIA_VISIBLE_DEVICES", "void")]);
    assert_eq!(machine.mounts(&gear), [pair("/proc/driver/nvidia/gpus", "tmpfs")]);
    assert!(gear.devices.is_empty());
}

#[test]
fn a_part_of_a_gpu_is_opened_by_its_capabilities() {
    let machine = Machine::new();
    let gpus = machine.gpus();
    let gear = gpus.gear(&ids(&["MIG-7"]), true);
    let capabilities = ["nvidia-caps/nvidia-cap75", "nvidia-caps/nvidia-cap76"];
    assert_eq!(nodes(&gear)[2..], [&["nvidia2"][..], &capabilities].concat());
    assert_eq!(gpus.inventory().capacity()["nvidia.com/mig-1g.5gb"], 1, "parts are not shared");
    assert_eq!(gpus.usage()[2].mig_parent.as_deref(), Some("GPU-2"));
}

#[test]
fn an_image_gets_the_drivers_files_where_loaders_look() {
    let machine = Machine::new();
    let gear = machine.gpus().gear(&ids(&["GPU-1"]), false);
    let mounts = machine.mounts(&gear);
    let multiarch = format!("/{}/libcuda.so.1", gear::MULTIARCH_FOLDER);
    for target in [multiarch.as_str(), "/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"] {
        assert!(mounts.contains(&pair(target, "usr/lib64/libcuda.so.580.1")), "{target}: {mounts:?}");
    }
    assert!(mounts.contains(&pair("/usr/bin/nvidia-smi", "usr/bin/nvidia-smi")));
    assert!(gear.mounts.iter().all(|mount| mount.read_only || mount.target.starts_with("/proc")));
    assert_eq!(gear.environment_defaults, [pair("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")]);
    let plain = gear.for_plain_process();
    assert!(plain.devices.is_empty() && plain.mounts.is_empty());
    assert_eq!(plain.environment[1], pair("CUDA_VISIBLE_DEVICES", "GPU-1"));
}

const SPECIFICATION: &str = r#"
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void, NVIDIA_EXTRA=1]
  deviceNodes:
  - path: /dev/nvidiactl
    hostPath: /dev/nvidiactl
  - path: /dev/extra
    hostPath: /dev/nvidia-uvm
    permissions: r
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache]
  mounts:
  - hostPath: /opt/libcuda.so.580.1
    containerPath: /opt/libcuda.so.580.1
    options: [ro, nosuid, nodev, bind]
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
      hostPath: /dev/nvidia1
    - path: /dev/dri/card0
      hostPath: /dev/nvidia-uvm
- name: "1"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
"#;

#[test]
fn the_owners_specification_wins_where_it_fits_the_machine() {
    let machine = Machine::new();
    machine.write("opt/libcuda.so.580.1", "");
    machine.write("etc/cdi/nvidia.yaml", SPECIFICATION);
    machine.write("etc/cdi/other.json", r#"{"cdiVersion": "0.5.0", "kind": "example.org/net", "devices": []}"#);
    let gpus = machine.gpus();
    let gear = gpus.gear(&ids(&["GPU-0"]), false);
    assert_eq!(nodes(&gear), ["nvidiactl", "nvidia-uvm", "extra", "nvidia1", "dri/card0"]);
    let extra = gear.devices.iter().find(|device| device.container_path == Path::new("/dev/extra")).unwrap();
    assert_eq!(extra.access, "r");
    assert_eq!(gear.environment, [pair("NVIDIA_VISIBLE_DEVICES", "GPU-0"), pair("NVIDIA_EXTRA", "1")]);
    let mounts = machine.mounts(&gear);
    for target in ["/opt/libcuda.so.580.1", "/usr/lib64/libcuda.so.1"] {
        assert!(mounts.contains(&pair(target, "opt/libcuda.so.580.1")), "{target}: {mounts:?}");
    }
    let other = gpus.gear(&ids(&["GPU-1"]), true);
    assert!(nodes(&other).contains(&"nvidia0"), "its entry names another GPU's node, so it is not believed");
    assert!(!nodes(&other).contains(&"nvidia1"));
}

#[test]
fn a_specification_for_another_driver_is_not_used() {
    let machine = Machine::new();
    machine.write("etc/cdi/nvidia.yaml", SPECIFICATION);
    machine.write("var/run/cdi/broken.json", "{");
    let files = machine.gpus().files;
    assert_eq!(files.specification, None);
    let names: Vec<&str> = files.libraries.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1"]);
}

#[test]
fn the_node_is_labelled_as_feature_discovery_does() {
    let labels = Machine::new().gpus().labels();
    let expected = [
        ("nvidia.com/gpu.count", "2"),
        ("nvidia.com/gpu.memory", "143771"),
        ("nvidia.com/gpu.product", "NVIDIA-H200-SHARED"),
        ("nvidia.com/gpu.replicas", "2"),
        ("nvidia.com/mig-1g.5gb.count", "1"),
        ("nvidia.com/mig-1g.5gb.memory", "4864"),
        ("nvidia.com/mig-1g.5gb.product", "NVIDIA-A100-MIG-1g.5gb"),
        ("nvidia.com/mig-1g.5gb.replicas", "1"),
    ];
    assert_eq!(labels, BTreeMap::from(expected.map(|(name, value)| pair(name, value))));
    assert_eq!(label_value("NVIDIA RTX (Ada) "), "NVIDIA-RTX--Ada");
}
