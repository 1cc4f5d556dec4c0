//! Image garbage collection: which images go when the disk fills, decided purely, and the store's act of it.
//!
//! As in the kubelet: nothing happens below the high mark; above it the images unused for longest go until the low
//! mark is reached. Images in use, and those younger than the minimum age, stay.

use super::digest::Digest;
use super::error::ImageError;
use super::layout::{Space, off_thread, space};
use super::store::{Store, now_s};
use super::table::{Names, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Unnamed blobs and layers younger than this may belong to a pull of another process.
const UNNAMED_GRACE: Duration = Duration::from_secs(600);

/// The kubelet's image settings, with its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectPolicy {
    pub high_percent: u64,
    pub low_percent: u64,
    pub age_min: Duration,
}

impl Default for CollectPolicy {
    fn default() -> CollectPolicy {
        CollectPolicy { high_percent: 85, low_percent: 80, age_min: Duration::from_secs(120) }
    }
}

/// What a collection will do, or why it will not be enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectPlan {
    /// Names to drop, in order.
    pub remove: Vec<String>,
    pub bytes_wanted: u64,
    pub bytes_freed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    pub removed: Vec<String>,
    pub bytes_wanted: u64,
    pub bytes_freed: u64,
}

/// Facts for the plan.
pub struct Observed<'a> {
    pub names: &'a Names,
    pub space: Space,
    /// Ids of images that containers use.
    pub keep: &'a BTreeSet<Digest>,
    pub now_s: u64,
}

/// Decides. Removing an image frees only the layers that no other image has; the compressed size stands for the cost.
pub fn plan(seen: &Observed<'_>, policy: &CollectPolicy) -> CollectPlan {
    let used = seen.space.total.saturating_sub(seen.space.free);
    let mark = |percent: u64| seen.space.total / 100 * percent;
    if seen.space.total == 0 || used < mark(policy.high_percent) {
        return CollectPlan::default();
    }
    let mut plan =
        CollectPlan { bytes_wanted: used.saturating_sub(mark(policy.low_percent)), ..CollectPlan::default() };
    let mut holders: BTreeMap<&Digest, u32> = BTreeMap::new();
    for record in seen.names.names.values() {
        for layer in &record.layers {
            *holders.entry(&layer.diff_id).or_default() += 1;
        }
    }
    let is_old = |record: &Record| seen.now_s.saturating_sub(record.pulled_s) >= policy.age_min.as_secs();
    let mut candidates: Vec<(&String, &Record)> =
        seen.names.names.iter().filter(|(_, record)| is_old(record) && !seen.keep.contains(&record.config)).collect();
    candidates.sort_by_key(|(name, record)| (record.used_s, *name));
    for (name, record) in candidates {
        if plan.bytes_freed >= plan.bytes_wanted {
            break;
        }
        for layer in &record.layers {
            let count = holders.entry(&layer.diff_id).or_default();
            *count = count.saturating_sub(1);
            plan.bytes_freed += if *count == 0 { layer.size } else { 0 };
        }
        plan.remove.push(name.clone());
    }
    plan
}

impl Store {
    /// Collects if the disk is fuller than the policy allows, and sweeps what no name needs.
    pub async fn collect(&self, keep: &BTreeSet<Digest>, policy: &CollectPolicy) -> Result<Collected, ImageError> {
        let layers = self.inner.layout.layers();
        let measured = off_thread(move || space(&layers)).await?;
        self.collect_at(measured, keep, policy).await
    }

    /// The same for a disk whose fullness the caller knows.
    pub async fn collect_at(
        &self,
        space: Space,
        keep: &BTreeSet<Digest>,
        policy: &CollectPolicy,
    ) -> Result<Collected, ImageError> {
        let (inner, keep, policy) = (self.inner.clone(), keep.clone(), policy.clone());
        off_thread(move || {
            let decided = inner.table.update(|names| {
                let decided = plan(&Observed { names, space, keep: &keep, now_s: now_s() }, &policy);
                names.names.retain(|name, _| !decided.remove.contains(name));
                decided
            })?;
            // What was just unnamed is ours to remove; other things without a name get their grace.
            let grace = if decided.remove.is_empty() { UNNAMED_GRACE } else { Duration::ZERO };
            let bytes_freed = inner.sweep_unnamed(grace)?;
            Ok(Collected { removed: decided.remove, bytes_wanted: decided.bytes_wanted, bytes_freed })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::LayerRecord;
    use super::*;

    fn record(id: &str, used_s: u64, layers: &[(&str, u64)]) -> Record {
        let digest = |text: &str| Digest::of(text.as_bytes());
        let layer = |(name, size): &(&str, u64)| LayerRecord { blob: digest(name), size: *size, diff_id: digest(name) };
        Record {
            target: digest(id),
            manifest: digest(id),
            config: digest(id),
            layers: layers.iter().map(layer).collect(),
            pulled_s: 0,
            used_s,
        }
    }

    fn names(records: &[(&str, u64, &[(&str, u64)])]) -> Names {
        Names {
            names: records.iter().map(|(id, used, layers)| ((*id).to_owned(), record(id, *used, layers))).collect(),
        }
    }

    fn check(names: &Names, free: u64, keep: &[&str], wanted: &[&str]) -> CollectPlan {
        let keep: BTreeSet<Digest> = keep.iter().map(|id| Digest::of(id.as_bytes())).collect();
        let seen = Observed { names, space: Space { total: 1000, free }, keep: &keep, now_s: 1000 };
        let plan = plan(&seen, &CollectPolicy::default());
        assert_eq!(plan.remove, wanted);
        plan
    }

    #[test]
    fn the_images_unused_for_longest_go_until_the_low_mark() {
        let names = names(&[("a", 30, &[("l1", 60)]), ("b", 10, &[("l2", 60)]), ("c", 20, &[("l3", 60)])]);
        check(&names, 200, &[], &[]);
        check(&names, 150, &[], &["b"]);
        check(&names, 100, &[], &["b", "c"]);
        check(&names, 100, &["b"], &["c", "a"]);
        let short = check(&names, 0, &["a", "b", "c"], &[]);
        assert_eq!((short.bytes_wanted, short.bytes_freed), (200, 0));
    }

    #[test]
    fn a_shared_layer_is_freed_only_with_its_last_image() {
        let names = names(&[("a", 1, &[("base", 50), ("x", 10)]), ("b", 2, &[("base", 50), ("y", 10)])]);
        let plan = check(&names, 150, &[], &["a", "b"]);
        assert_eq!(plan.bytes_freed, 70);
    }

    #[test]
    fn young_images_stay_and_planning_again_changes_nothing() {
        let mut all = names(&[("old", 1, &[("x", 100)]), ("young", 0, &[("y", 100)])]);
        all.names.get_mut("young").expect("there").pulled_s = 999;
        check(&all, 0, &[], &["old"]);
        all.names.remove("old");
        check(&all, 0, &[], &[]);
    }
}
