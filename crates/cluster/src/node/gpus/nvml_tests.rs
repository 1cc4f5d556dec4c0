//! A library of the driver's name and interface that answers as `double.c` says, loaded as the real one is.

use super::card::Body;
use super::nvml::cards;
use super::{Gpus, driver};
use nvml_wrapper::Nvml;
use std::fs;
use std::process::Command;

struct Double {
    folder: tempfile::TempDir,
}

impl Double {
    /// Compiled with the compiler that links Rust programs.
    fn new() -> Double {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("double.c");
        fs::write(&source, include_str!("double.c")).unwrap();
        let library = folder.path().join(driver::FOLDERS[0]).join("libnvidia-ml.so.1");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        let lost = format!("-DLOST=\"{}\"", folder.path().join("lost").display());
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(lost).arg(&source).status();
        assert!(compiled.unwrap().success());
        Double { folder }
    }

    fn nvml(&self) -> Nvml {
        let library = self.folder.path().join(driver::FOLDERS[0]).join("libnvidia-ml.so.1");
        Nvml::builder().lib_path(library.as_os_str()).init().unwrap()
    }

    fn gpus(&self) -> Gpus {
        let (root, nvml) = (self.folder.path(), self.nvml());
        let cards = cards(&nvml, root).unwrap();
        Gpus { nvml: Some(nvml), ..Gpus::new(root, cards, 2, driver::Files::default()) }
    }
}

#[test]
fn a_broken_gpu_takes_nothing_from_the_others_and_a_divided_one_is_its_parts() {
    let double = Double::new();
    let devices = double.gpus().inventory().devices;
    let found: Vec<_> =
        devices.iter().map(|device| (device.id.0.as_str(), device.resource.as_str(), device.board)).collect();
    let parts = [("MIG-1", "nvidia.com/mig-1g.5gb", 2), ("MIG-9", "nvidia.com/mig-1g.5gb.me", 2)];
    assert_eq!(found, [("GPU-a", "nvidia.com/gpu", 0), parts[0], parts[1]]);
    let cards = cards(&double.nvml(), double.folder.path()).unwrap();
    let Body::Part(place, part) = &cards[2].body else { unreachable!("it is a part: {cards:?}") };
    assert_eq!((place.minor, place.bus.as_str()), (2, "0000:af:00.0"));
    assert_eq!((part.parent.as_str(), part.gpu_instance, part.compute_instance), ("GPU-c", 9, 0));
}

#[test]
fn usage_is_what_the_driver_tells() {
    let usage = Double::new().gpus().usage();
    let whole = &usage[0];
    assert_eq!((whole.memory_used_mib, whole.memory_total_mib), (512, 143_771));
    assert_eq!((whole.utilisation_percent, whole.temperature_celsius), (Some(87), Some(41)));
    assert_eq!(whole.processes, [17, 4242]);
    assert_eq!((usage[1].utilisation_percent, usage[1].mig_parent.as_deref()), (None, Some("GPU-c")));
}

#[test]
fn a_gpu_that_is_lost_is_sick_until_it_answers_again() {
    let double = Double::new();
    let gpus = double.gpus();
    let healthy = || gpus.inventory().devices.iter().filter(|device| device.is_healthy).count();
    gpus.refresh();
    assert_eq!(healthy(), 3);
    let lost = double.folder.path().join("lost");
    fs::write(&lost, "").unwrap();
    gpus.refresh();
    assert_eq!(healthy(), 0);
    fs::remove_file(lost).unwrap();
    gpus.refresh();
    assert_eq!(healthy(), 3);
}
