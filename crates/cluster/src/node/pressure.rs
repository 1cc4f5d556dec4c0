//! Watches what the machine runs short of: shows it, frees disk space, and evicts one pod after the other.
//!
//! A look costs a few small reads; pods are only measured while something is short.

use super::machine::Machine;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_plan::node::pressure::{PodUsage, Reading, Signal, Watch, shortages};
use volley_plan::node::seen::Eviction;

/// The kubelet's period.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Watches until `stop`. `observe` measures the pods that have not ended, and may block; `evict` ends the pod with this
/// uid; `free_disk` gives back what no pod needs, such as images that are not in use, before a pod has to go.
pub async fn watch_pressure<Freed: Future<Output = ()>>(
    machine: Arc<Machine>,
    observe: impl Fn() -> Vec<PodUsage> + Send + Sync + 'static,
    evict: impl Fn(&str, Eviction),
    free_disk: impl Fn() -> Freed,
    stop: CancellationToken,
) {
    let observe = Arc::new(observe);
    let measure = || {
        let observe = observe.clone();
        // A measurement that panics has measured nothing; the next look tries again.
        async move { tokio::task::spawn_blocking(move || observe()).await.unwrap_or_default() }
    };
    let mut watch = Watch::default();
    loop {
        let reading = machine.reading();
        let pressures = watch.take_in(&shortages(&reading), Timestamp::now());
        if machine.set_pressure(pressures) {
            tracing::warn!(?pressures, ?reading, "the node is short, or no longer: pods wait while it is");
        }
        relieve(&mut watch, || machine.reading(), measure, &evict, &free_disk).await;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// One round against what is short, if anything is.
async fn relieve<Freed: Future<Output = ()>, Measured: Future<Output = Vec<PodUsage>>>(
    watch: &mut Watch,
    read: impl Fn() -> Reading,
    measure: impl Fn() -> Measured,
    evict: impl Fn(&str, Eviction),
    free_disk: impl Fn() -> Freed,
) {
    let mut reading = read();
    if shortages(&reading).iter().any(|shortage| matches!(shortage, Signal::Disk | Signal::Inodes)) {
        free_disk().await;
        reading = read();
    }
    if shortages(&reading).is_empty() {
        return;
    }
    let pods = measure().await;
    if let Some((uid, eviction)) = watch.victim(&reading, &pods, Timestamp::now()) {
        tracing::warn!(uid, message = eviction.message, "a pod is evicted");
        evict(&uid, eviction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use serde_json::json;
    use volley_plan::node::pressure::Level;

    const GIB: i64 = 1 << 30;

    fn reading(free: i64) -> Reading {
        Reading { disk: Some(Level { available: free, capacity: 100 * GIB }), ..Reading::default() }
    }

    /// How many pods go when the disk has so little left, and freeing brings so much.
    async fn evicted(free: i64, freed: i64) -> usize {
        let (disk, evicted) = (Mutex::new(free), Mutex::new(Vec::new()));
        let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": []}});
        let pod: PodUsage = PodUsage { pod: serde_json::from_value(pod).unwrap(), ..PodUsage::default() };
        let measure = || std::future::ready(vec![pod.clone()]);
        let evict = |uid: &str, _: Eviction| evicted.lock().push(uid.to_owned());
        let free_disk = || {
            *disk.lock() += freed;
            std::future::ready(())
        };
        relieve(&mut Watch::default(), || reading(*disk.lock()), measure, evict, free_disk).await;
        evicted.into_inner().len()
    }

    #[tokio::test]
    async fn a_pod_goes_only_when_freeing_the_disk_was_not_enough() {
        assert_eq!(evicted(6 * GIB, 0).await, 0);
        assert_eq!(evicted(3 * GIB, 2 * GIB).await, 0);
        assert_eq!(evicted(GIB, 2 * GIB).await, 1);
    }
}
