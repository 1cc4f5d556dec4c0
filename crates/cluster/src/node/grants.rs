//! Who holds which devices, and whether there is room for one pod more.

use super::Parts;
use super::pods::Entry;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use volley_plan::node::admission::{Room, admit};
use volley_plan::node::devices::{DeviceId, Held, Holder};
use volley_plan::node::init_names;
use volley_plan::node::seen::Rejection;

/// Devices of each container of a pod.
pub type Granted = BTreeMap<String, Vec<String>>;

#[derive(Default)]
pub struct Grants {
    held: Mutex<Held>,
    released: Notify,
}

impl Grants {
    /// Takes a pod on. `Err(None)` means that it fits once pods that are ending have ended.
    pub fn admit(&self, parts: &Parts, pod: &Pod, uid: &str) -> Result<Granted, Option<Rejection>> {
        let mut held = self.held.lock();
        let entries = parts.pods.entries();
        let others: Vec<&Arc<Entry>> =
            entries.iter().filter(|entry| entry.uid != uid && entry.is_taken() && !entry.is_over()).collect();
        let pods: Vec<Arc<Pod>> = others.iter().map(|entry| entry.pod()).collect();
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let (inventory, amounts) = (parts.gpus.inventory(), parts.machine.amounts());
        let room = Room { allocatable: &amounts.allocatable, others: &pods, inventory: &inventory, held: &held };
        match admit(pod, &room) {
            Ok(granted) => {
                for (container, devices) in &granted {
                    held.insert(holder(pod, uid, container), devices.clone());
                }
                parts.pods.take(uid);
                let names = |devices: Vec<DeviceId>| devices.into_iter().map(|device| device.0).collect();
                Ok(granted.into_iter().map(|(container, devices)| (container, names(devices))).collect())
            }
            Err(_) if others.iter().any(|entry| entry.is_ending()) => Err(None),
            Err(rejection) => Err(Some(rejection)),
        }
    }

    /// A pod of an earlier process keeps what it held.
    pub fn adopt(&self, pod: &Pod, uid: &str, granted: &Granted) {
        let mut held = self.held.lock();
        for (container, devices) in granted {
            held.insert(holder(pod, uid, container), devices.iter().cloned().map(DeviceId).collect());
        }
    }

    pub fn release(&self, uid: &str) {
        self.held.lock().retain(|holder, _| holder.pod_uid != uid);
        self.released.notify_waiters();
    }

    /// Waits until somebody has given something back.
    pub async fn changed(&self) {
        // A release between the look and this wait would be missed; the next look comes soon all the same.
        let _a_second_at_most = tokio::time::timeout(std::time::Duration::from_secs(1), self.released.notified()).await;
    }

    /// Pod uid and container by device.
    pub fn holders(&self) -> BTreeMap<String, Vec<(String, String)>> {
        let mut holders: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (holder, devices) in self.held.lock().iter() {
            for device in devices {
                holders.entry(device.0.clone()).or_default().push((holder.pod_uid.clone(), holder.container.clone()));
            }
        }
        holders
    }
}

fn holder(pod: &Pod, uid: &str, container: &str) -> Holder {
    let is_init = init_names(pod).any(|name| name == container);
    Holder { pod_uid: uid.to_owned(), container: container.to_owned(), is_init }
}
