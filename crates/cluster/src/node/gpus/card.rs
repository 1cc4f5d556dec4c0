//! A GPU or a part of one, as it was found.

use volley_plan::node::devices::GPU;

#[derive(Debug, Clone)]
pub(super) struct Card {
    /// As `nvidia-smi` numbers them; a part has the number of its GPU.
    pub index: u32,
    pub uuid: String,
    pub name: String,
    pub memory_mib: u64,
    pub numa_node: Option<u32>,
    pub body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Fake,
    Whole(Place),
    Part(Place, Part),
}

/// Where the kernel keeps a GPU.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its node is `/dev/nvidia<minor>`.
    pub minor: u32,
    /// Its address on the bus as the kernel writes it, such as `0000:3b:00.0`.
    pub bus: String,
}

/// A MIG device: a compute instance inside a GPU instance.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub parent: String,
    /// Such as `1g.5gb`.
    pub profile: String,
    pub gpu_instance: u32,
    pub compute_instance: u32,
}

impl Card {
    pub(super) fn fake(index: u32) -> Card {
        let (uuid, name) = (format!("GPU-fake-{index}"), "Fake GPU".to_owned());
        Card { index, uuid, name, memory_mib: 0, numa_node: None, body: Body::Fake }
    }

    /// What pods ask for to get it.
    pub(super) fn resource(&self) -> String {
        match self.part() {
            None => GPU.to_owned(),
            // A profile with an attribute is `1g.10gb+me`; NVIDIA's device plugin makes the plus a dot.
            Some(part) => format!("nvidia.com/mig-{}", part.profile.replace('+', ".")),
        }
    }

    pub(super) fn is_fake(&self) -> bool {
        matches!(self.body, Body::Fake)
    }

    pub(super) fn place(&self) -> Option<&Place> {
        match &self.body {
            Body::Fake => None,
            Body::Whole(place) | Body::Part(place, _) => Some(place),
        }
    }

    pub(super) fn part(&self) -> Option<&Part> {
        match &self.body {
            Body::Fake | Body::Whole(_) => None,
            Body::Part(_, part) => Some(part),
        }
    }
}
