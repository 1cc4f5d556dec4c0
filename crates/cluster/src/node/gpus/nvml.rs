//! What the NVIDIA driver tells through its management library, which is loaded at run time: machines without it have
//! no GPUs.

use super::card::{Body, Card, Part, Place};
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Loads the library by the system's own search, then from where drivers are put that the search does not know.
pub(super) fn open(root: &Path) -> Result<Nvml, NvmlError> {
    let refused = match Nvml::init() {
        Err(error) if is_absence(&error) => error,
        opened => return opened,
    };
    let places = super::driver::FOLDERS.iter().map(|folder| root.join(folder).join("libnvidia-ml.so.1"));
    match places.into_iter().find(|place| place.exists()) {
        Some(place) => Nvml::builder().lib_path(place.as_os_str()).init(),
        None => Err(refused),
    }
}

/// Where the loaded library lies: the driver's other libraries lie there too.
pub(super) fn folder() -> Option<PathBuf> {
    folder_in(&fs::read_to_string("/proc/self/maps").ok()?)
}

fn folder_in(maps: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..])));
    let mut files = paths.filter(|path| path.to_string_lossy().contains("/libnvidia-ml.so"));
    files.next()?.parent().map(Path::to_owned)
}

/// Whether the error only says that there is no driver here.
pub(super) fn is_absence(error: &NvmlError) -> bool {
    matches!(error, NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound | NvmlError::DriverNotLoaded)
}

/// All GPUs in the order of the bus; one that is divided is listed as its parts.
pub(super) fn cards(nvml: &Nvml, root: &Path) -> Result<Vec<Card>, NvmlError> {
    let mut cards = Vec::new();
    for index in 0..nvml.device_count()? {
        let found = nvml.device_by_index(index).and_then(|device| cards_of(nvml, &device, index, root));
        match found {
            Ok(found) => cards.extend(found),
            // One broken GPU takes nothing from the others.
            Err(error) => tracing::warn!(index, %error, "the GPU cannot be used"),
        }
    }
    Ok(cards)
}

fn cards_of(nvml: &Nvml, device: &Device<'_>, index: u32, root: &Path) -> Result<Vec<Card>, NvmlError> {
    let pci = device.pci_info()?;
    let place = Place { minor: device.minor_number()?, bus: bus_address(&pci.bus_id) };
    let whole = card(device, index, root, Body::Whole(place.clone()))?;
    // Those that cannot be divided answer that it is not supported.
    let is_divided = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    if !is_divided {
        return Ok(vec![whole]);
    }
    let mut parts = Vec::new();
    for number in 0..device.mig_device_count()? {
        // Numbers without an instance are errors.
        let Ok(instance) = device.mig_device_by_index(number) else { continue };
        let name = instance.name()?;
        let Some((_, profile)) = name.rsplit_once("MIG ") else { continue };
        let (gpu_instance, compute_instance) = instance_ids(nvml, &instance)?;
        let part = Part { parent: whole.uuid.clone(), profile: profile.to_owned(), gpu_instance, compute_instance };
        parts.push(card(&instance, index, root, Body::Part(place.clone(), part))?);
    }
    if parts.is_empty() {
        tracing::warn!(index, "the GPU is in MIG mode and has no instances, so it cannot be used");
    }
    Ok(parts)
}

fn card(device: &Device<'_>, index: u32, root: &Path, body: Body) -> Result<Card, NvmlError> {
    let numa_node = match &body {
        Body::Whole(place) | Body::Part(place, _) => numa_node(root, &place.bus),
        Body::Fake => None,
    };
    // A GPU that shares the machine's memory has none of its own to tell.
    let memory_mib = device.memory_info().map_or(0, |memory| memory.total / MIB);
    Ok(Card { index, uuid: device.uuid()?, name: device.name()?, memory_mib, numa_node, body })
}

/// The driver writes `00000000:3B:00.0` for the kernel's `0000:3b:00.0`.
fn bus_address(bus_id: &str) -> String {
    let lower = bus_id.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 => format!("{}:{rest}", &domain[4..]),
        _ => lower,
    }
}

/// The kernel writes -1 for machines with one node only.
fn numa_node(root: &Path, bus: &str) -> Option<u32> {
    let file = root.join("sys/bus/pci/devices").join(bus).join("numa_node");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The ids of a MIG device's GPU instance and compute instance, which name its capability files.
#[expect(unsafe_code, reason = "nvml-wrapper has no safe form of these two calls")]
fn instance_ids(nvml: &Nvml, device: &Device<'_>) -> Result<(u32, u32), NvmlError> {
    let (mut gpu_instance, mut compute_instance) = (0, 0);
    let library = nvml.lib();
    // SAFETY: the handle is of this library and lives as long as `device`; each call writes one number.
    let refusals = unsafe {
        [
            library.nvmlDeviceGetGpuInstanceId(device.handle(), &mut gpu_instance),
            library.nvmlDeviceGetComputeInstanceId(device.handle(), &mut compute_instance),
        ]
    };
    match refusals {
        [0, 0] => Ok((gpu_instance, compute_instance)),
        _ => Err(NvmlError::NotSupported),
    }
}

#[derive(Debug, Default)]
pub(super) struct Readings {
    pub memory_used_mib: u64,
    pub utilisation_percent: Option<u32>,
    pub temperature_celsius: Option<u32>,
    pub processes: Vec<u32>,
}

/// What the GPU tells now; what it does not tell is left out.
pub(super) fn readings(nvml: &Nvml, uuid: &str) -> Readings {
    let Ok(device) = nvml.device_by_uuid(uuid) else { return Readings::default() };
    let listed = [device.running_compute_processes(), device.running_graphics_processes()];
    let processes: BTreeSet<u32> = listed.into_iter().flatten().flatten().map(|process| process.pid).collect();
    Readings {
        memory_used_mib: device.memory_info().map_or(0, |memory| memory.used / MIB),
        utilisation_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        processes: processes.into_iter().collect(),
    }
}

/// A GPU that fell off the bus answers nothing.
pub(super) fn is_alive(nvml: &Nvml, uuid: &str) -> Result<(), NvmlError> {
    match nvml.device_by_uuid(uuid)?.memory_info() {
        // Some GPUs, and drivers of before 2022, have no answer to this question.
        Ok(_) | Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_address_is_the_kernels() {
        assert_eq!(bus_address("00000000:3B:00.0"), "0000:3b:00.0");
        assert_eq!(bus_address("0000:3B:00.0"), "0000:3b:00.0");
    }

    #[test]
    fn the_drivers_folder_is_where_its_library_is_mapped() {
        let maps = "55d0-55d1 r--p 0000 08:01 1 /usr/bin/volley\n7f00-7f01 rw-p 0000 00:00 0 \n\
                    7f02-7f03 r-xp 0000 08:01 2 /opt/my driver/libnvidia-ml.so.580.1\n";
        assert_eq!(folder_in(maps), Some(PathBuf::from("/opt/my driver")));
    }

    #[test]
    fn a_machine_with_one_numa_node_has_none_to_tell() {
        let root = tempfile::tempdir().unwrap();
        for (bus, text) in [("0000:3b:00.0", "1\n"), ("0000:5e:00.0", "-1\n")] {
            let folder = root.path().join("sys/bus/pci/devices").join(bus);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("numa_node"), text).unwrap();
        }
        let node = |bus| numa_node(root.path(), bus);
        assert_eq!((node("0000:3b:00.0"), node("0000:5e:00.0"), node("0000:af:00.0")), (Some(1), None, None));
    }
}
