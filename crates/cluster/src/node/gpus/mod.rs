//! The machine's GPUs: which there are, how they do, and what a container needs that was granted some.
//!
//! `plan::node::devices` decides who gets which; here is what it decides about. Reading order: `card` and `nvml` (what the
//! driver tells) → `driver` and `cdi` (where the driver's files are) → `gear` (device nodes, mounts and variables of a
//! container). Calls reach the driver and may take milliseconds: make them where blocking is allowed.

mod card;
mod nvml;
mod driver;
mod cdi;
mod gear;

pub use gear::Gear;

use card::Card;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use volley_plan::node::devices::{Device, DeviceId, GPU, Inventory};

/// Which of the machine's GPUs pods may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuChoice {
    All,
    None,
    /// By index, as `nvidia-smi` numbers them.
    Some(Vec<u32>),
    /// Pretend that there are this many.
    Fake(u32),
}

#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    #[error("GPU {wanted} cannot be used: {found}; choose others with --gpus, or `--gpus all`")]
    Absent { wanted: String, found: String },
}

/// How one GPU does, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuUsage {
    /// As `nvidia-smi` numbers them; a part has the number of its GPU.
    pub index: u32,
    pub uuid: String,
    pub name: String,
    /// What pods ask for to get it, such as `nvidia.com/gpu`.
    pub resource: String,
    pub memory_total_mib: u64,
    pub memory_used_mib: u64,
    /// `None` where the driver does not measure it, as for parts of a GPU.
    pub utilisation_percent: Option<u32>,
    pub temperature_celsius: Option<u32>,
    pub is_fake: bool,
    pub is_healthy: bool,
    /// The GPU that this is a part of, by its UUID.
    pub mig_parent: Option<String>,
    /// Process ids of the machine that use it.
    pub processes: Vec<u32>,
}

pub struct Gpus {
    cards: Vec<Card>,
    /// Of the card at the same place.
    healthy: Vec<AtomicBool>,
    slices: u32,
    /// `None` when no real GPU is used.
    nvml: Option<Nvml>,
    files: driver::Files,
    /// `/`, except in tests.
    root: PathBuf,
}

impl Gpus {
    /// Looks once at the machine. One without a driver has no GPUs; only those asked for by number must be there.
    pub fn discover(choice: &GpuChoice, slices: u32) -> Result<Gpus, GpuError> {
        let root = Path::new("/");
        let wanted = match choice {
            GpuChoice::None => return Ok(Gpus::new(root, Vec::new(), slices, driver::Files::default())),
            GpuChoice::Fake(count) => {
                let cards = (0..*count).map(Card::fake).collect();
                return Ok(Gpus::new(root, cards, slices, driver::Files::default()));
            }
            GpuChoice::All => None,
            GpuChoice::Some(indices) => Some(indices),
        };
        let (nvml, found) = match nvml::open(root) {
            Ok(nvml) => {
                let found = nvml::cards(&nvml, root);
                (Some(nvml), found)
            }
            Err(error) => (None, Err(error)),
        };
        let cards = choose(found, wanted)?;
        let version = nvml.as_ref().and_then(|nvml| nvml.sys_driver_version().ok());
        let files = match version {
            Some(version) if !cards.is_empty() => {
                driver::load_memory_module(root);
                driver::Files::find(root, &version, nvml::folder())
            }
            _ => driver::Files::default(),
        };
        Ok(Gpus { nvml, ..Gpus::new(root, cards, slices, files) })
    }

    fn new(root: &Path, cards: Vec<Card>, slices: u32, files: driver::Files) -> Gpus {
        let healthy = cards.iter().map(|_| AtomicBool::new(true)).collect();
        Gpus { cards, healthy, slices: slices.max(1), nvml: None, files, root: root.to_owned() }
    }

    /// What there is to grant; health is as of the last `refresh`.
    pub fn inventory(&self) -> Inventory {
        let devices = self.cards_and_health().map(|(card, is_healthy)| Device {
            id: DeviceId(card.uuid.clone()),
            resource: card.resource(),
            board: card.index,
            numa_node: card.numa_node,
            is_healthy,
        });
        Inventory { devices: devices.collect(), slices: self.slices }
    }

    /// What a container needs that was granted these devices; call it also for those that were granted none.
    pub fn gear(&self, granted: &[DeviceId], container_image_is_host: bool) -> Gear {
        Gear::new(self, granted, container_image_is_host)
    }

    /// How each GPU does now.
    pub fn usage(&self) -> Vec<GpuUsage> {
        self.cards_and_health().map(|(card, is_healthy)| self.usage_of(card, is_healthy)).collect()
    }

    fn usage_of(&self, card: &Card, is_healthy: bool) -> GpuUsage {
        let readings = self.nvml.as_ref().map(|nvml| nvml::readings(nvml, &card.uuid)).unwrap_or_default();
        let zero_if_fake = card.is_fake().then_some(0);
        GpuUsage {
            index: card.index,
            uuid: card.uuid.clone(),
            name: card.name.clone(),
            resource: card.resource(),
            memory_total_mib: card.memory_mib,
            memory_used_mib: readings.memory_used_mib,
            utilisation_percent: readings.utilisation_percent.or(zero_if_fake),
            temperature_celsius: readings.temperature_celsius,
            is_fake: card.is_fake(),
            is_healthy,
            mig_parent: card.part().map(|part| part.parent.clone()),
            processes: readings.processes,
        }
    }

    /// Asks every GPU for a sign of life.
    pub fn refresh(&self) {
        let Some(nvml) = &self.nvml else { return };
        for (card, healthy) in self.cards.iter().zip(&self.healthy) {
            let is_alive = match nvml::is_alive(nvml, &card.uuid) {
                Ok(()) => true,
                Err(error) => {
                    tracing::debug!(gpu = card.uuid, %error, "the GPU does not answer");
                    false
                }
            };
            if healthy.swap(is_alive, Ordering::Relaxed) != is_alive {
                tracing::warn!(gpu = card.uuid, index = card.index, is_alive, "the GPU's health changed");
            }
        }
    }

    /// The node's labels about its GPUs, by the names of NVIDIA's gpu-feature-discovery.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for card in &self.cards {
            let resource = card.resource();
            let count = counts.entry(resource.clone()).or_insert(0);
            *count += 1;
            labels.insert(format!("{resource}.count"), count.to_string());
            let is_first = *count == 1;
            if is_first {
                let is_shared = self.slices > 1 && resource == GPU;
                let product = format!("{}{}", card.name, if is_shared { "-SHARED" } else { "" });
                labels.insert(format!("{resource}.product"), label_value(&product));
                let replicas = if resource == GPU { self.slices } else { 1 };
                labels.insert(format!("{resource}.replicas"), replicas.to_string());
            }
            if is_first && card.memory_mib > 0 {
                labels.insert(format!("{resource}.memory"), card.memory_mib.to_string());
            }
        }
        let fakes = self.cards.iter().filter(|card| card.is_fake()).count();
        if fakes > 0 {
            labels.insert("volley.dev/fake-gpus".to_owned(), fakes.to_string());
        }
        labels
    }

    fn cards_and_health(&self) -> impl Iterator<Item = (&Card, bool)> {
        self.cards.iter().zip(self.healthy.iter().map(|healthy| healthy.load(Ordering::Relaxed)))
    }
}

/// The cards that were asked for; `wanted` is by number, none takes all.
fn choose(found: Result<Vec<Card>, NvmlError>, wanted: Option<&Vec<u32>>) -> Result<Vec<Card>, GpuError> {
    let Some(wanted) = wanted else {
        return Ok(found.unwrap_or_else(|error| {
            if nvml::is_absence(&error) {
                tracing::debug!(%error, "the machine has no NVIDIA driver");
            } else {
                tracing::warn!(%error, "the NVIDIA driver does not answer; pods get no GPUs");
            }
            Vec::new()
        }));
    };
    let (mut cards, mut reason) = match found {
        Ok(cards) => (cards, None),
        Err(error) => (Vec::new(), Some(format!("the NVIDIA driver does not answer ({error})"))),
    };
    let missing = wanted.iter().filter(|index| !cards.iter().any(|card| card.index == **index));
    let missing: Vec<String> = missing.map(u32::to_string).collect();
    if missing.is_empty() {
        cards.retain(|card| wanted.contains(&card.index));
        return Ok(cards);
    }
    let list: Vec<String> = cards.iter().map(|card| format!("{} ({})", card.index, card.name)).collect();
    let found = reason.take().unwrap_or_else(|| match list.is_empty() {
        true => "this machine has none".to_owned(),
        false => format!("this machine has {}", list.join(", ")),
    });
    Err(GpuError::Absent { wanted: missing.join(", "), found })
}

/// Letters, digits, `-`, `_` and `.`, at most 63, as label values must be.
fn label_value(text: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let value: String = text.chars().map(|letter| if is_allowed(letter) { letter } else { '-' }).take(63).collect();
    value.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod nvml_tests;
#[cfg(test)]
mod tests;
