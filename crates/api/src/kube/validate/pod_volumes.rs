//! Volumes of a pod: one source each, with what that source needs.
//!
//! Sources stand in one table in the order in which the reference looks at them; most need only non-empty strings. Disks
//! that no pod here can mount are checked no further than that.

use super::claim::claim_template;
use super::place::{Place, quantity};
use super::pod_container::pull_policy;
use super::pod_env::{VOLUME_FIELDS, field_selector, resource_selector};
use crate::kube::{names, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Further rules of one kind of source; the pod is absent in templates.
type Check = fn(&Place, Option<&Value>);

/// A key, what the source must have, and its further rules.
type Source = (&'static str, &'static [&'static str], Check);

const NOTHING: Check = |_, _| {};

const SOURCES: &[Source] = &[
    ("emptyDir", &[], empty_dir),
    ("hostPath", &["path"], host_path),
    ("gitRepo", &["repository"], |git, _| git.descending("directory")),
    ("gcePersistentDisk", &["pdName"], NOTHING),
    ("awsElasticBlockStore", &["volumeID"], NOTHING),
    ("secret", &["secretName"], mode_and_items),
    ("nfs", &["server", "path"], nfs),
    ("iscsi", &["targetPortal", "iqn"], NOTHING),
    ("glusterfs", &["endpoints", "path"], NOTHING),
    ("flocker", &[], NOTHING),
    ("persistentVolumeClaim", &["claimName"], NOTHING),
    ("rbd", &["image", "monitors"], NOTHING),
    ("cinder", &["volumeID"], NOTHING),
    ("cephfs", &["monitors"], NOTHING),
    ("quobyte", &["registry", "volume"], NOTHING),
    ("downwardAPI", &[], downward_api),
    ("fc", &[], NOTHING),
    ("flexVolume", &["driver"], NOTHING),
    ("configMap", &["name"], mode_and_items),
    ("azureFile", &["secretName", "shareName"], NOTHING),
    ("vsphereVolume", &["volumePath"], NOTHING),
    ("photonPersistentDisk", &["pdID"], NOTHING),
    ("portworxVolume", &["volumeID"], NOTHING),
    ("azureDisk", &["diskName", "diskURI"], NOTHING),
    ("storageos", &["volumeName"], NOTHING),
    ("projected", &[], projected),
    ("scaleIO", &["gateway", "system", "volumeName"], NOTHING),
    ("csi", &[], container_storage),
    ("ephemeral", &[], ephemeral),
    ("image", &[], image),
];

/// Where a source is reported, and where a second one is; three of these are misspelt in the reference.
fn reported(key: &'static str) -> (&'static str, &'static str) {
    match key {
        "gcePersistentDisk" => ("persistentDisk", key),
        "cephfs" => (key, "cephFS"),
        "downwardAPI" => (key, "downwarAPI"),
        _ => (key, key),
    }
}

/// Checks all volumes and returns the good ones by name; mounts of others are not found, as in the reference.
pub(super) fn volumes<'v>(spec: &Place<'_, 'v>, pod: Option<&Value>) -> BTreeMap<&'v str, &'v Value> {
    let mut good = BTreeMap::new();
    for volume in spec.items("volumes") {
        let noted_before = volume.noted();
        volume_source(&volume, pod);
        volume.needs_name("name", names::dns_label);
        let name = volume.text("name");
        volume.duplicate_if(good.contains_key(name), "name", name);
        if volume.noted() == noted_before {
            good.insert(name, volume.value);
        }
        if let Some(pod) = pod {
            claim_of_ephemeral(spec, &volume, text(pod, "metadata.name"));
        }
    }
    good
}

/// A claim that the pod itself makes cannot be named by another of its volumes.
fn claim_of_ephemeral(spec: &Place, volume: &Place, pod_name: &str) {
    const CLAIM: &str = "persistentVolumeClaim.claimName";
    let made = volume.text(CLAIM).strip_prefix(pod_name).and_then(|rest| rest.strip_prefix('-'));
    let is_made = spec.items("volumes").any(|other| other.has("ephemeral") && Some(other.text("name")) == made);
    let detail = "must not reference a PVC that gets created for an ephemeral volume";
    volume.wrong_if(is_made && !pod_name.is_empty(), CLAIM, detail);
}

fn volume_source(volume: &Place, pod: Option<&Value>) {
    let mut given = SOURCES.iter().filter(|(key, _, _)| volume.has(key));
    match given.next() {
        None => volume.required("", "must specify a volume type"),
        Some((key, needed, check)) => {
            let source = volume.stand_in(reported(key).0, volume.get(key));
            source.needs(needed);
            check(&source, pod);
        }
    }
    for (key, _, _) in given {
        volume.forbidden(reported(key).1, "may not specify more than 1 volume type");
    }
    let (pod_name, name) = (pod.map_or("", |pod| text(pod, "metadata.name")), volume.text("name"));
    if volume.has("ephemeral") && !pod_name.is_empty() && !name.is_empty() {
        let claim = format!("{pod_name}-{name}");
        for complaint in names::dns_subdomain(&claim) {
            volume.wrong("name", &format!("PVC name \"{claim}\": {complaint}"));
        }
    }
}

fn empty_dir(source: &Place, _: Option<&Value>) {
    let is_negative = quantity(source.get("sizeLimit")).is_some_and(|limit| limit.is_negative());
    source.forbidden_if(is_negative, "sizeLimit", "SizeLimit field must be a valid resource quantity");
}

fn host_path(source: &Place, _: Option<&Value>) {
    const TYPES: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    source.no_backsteps("path");
    source.one_of("type", TYPES);
}

fn nfs(source: &Place, _: Option<&Value>) {
    let export = source.text("path");
    source.invalid_if(!export.starts_with('/'), "path", export, "must be an absolute path");
}

fn container_storage(source: &Place, _: Option<&Value>) {
    const DRIVER_MAX: usize = 63;
    let driver = source.text("driver");
    if driver.is_empty() {
        return source.required("driver", "");
    }
    source.too_long_if(driver.len() > DRIVER_MAX, "driver", DRIVER_MAX);
    source.complain("driver", driver, names::dns_subdomain(&driver.to_lowercase()));
    if let Some(secret) = source.given("nodePublishSecretRef") {
        secret.needs(&["name"]);
    }
}

fn ephemeral(source: &Place, _: Option<&Value>) {
    match source.given("volumeClaimTemplate") {
        None => source.required("volumeClaimTemplate", ""),
        Some(template) => claim_template(&template),
    }
}

fn image(source: &Place, pod: Option<&Value>) {
    if pod.is_some() {
        source.needs(&["reference"]);
    }
    pull_policy(source, "pullPolicy");
}

fn file_mode(holder: &Place, key: &str) {
    let is_beyond = holder.integer(key).is_some_and(|mode| !(0..=0o777).contains(&mode));
    holder.wrong_if(is_beyond, key, "must be a number between 0 and 0777 (octal), both inclusive");
}

fn mode_and_items(source: &Place, _: Option<&Value>) {
    file_mode(source, "defaultMode");
    items(source);
}

fn items(source: &Place) {
    for item in source.items("items") {
        item.needs(&["key", "path"]);
        local_path(&item, "path");
        file_mode(&item, "mode");
    }
}

fn downward_api(source: &Place, _: Option<&Value>) {
    file_mode(source, "defaultMode");
    downward_files(source);
}

/// The reference leaves the index of the file out of the path.
fn downward_files(source: &Place) {
    for file in source.list("items").iter().map(|file| source.stand_in("", file)) {
        file.needs(&["path"]);
        local_path(&file, "path");
        match (file.given("fieldRef"), file.given("resourceFieldRef")) {
            (Some(field), resource) => {
                field_selector(&field, VOLUME_FIELDS);
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                file.invalid_if(resource.is_some(), "", "resource", detail);
            }
            (None, Some(resource)) => resource_selector(&resource, true),
            (None, None) => file.required("", "one of fieldRef and resourceFieldRef is required"),
        }
        file_mode(&file, "mode");
    }
}

fn projected(volume: &Place, pod: Option<&Value>) {
    const KINDS: [&str; 6] =
        ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    file_mode(volume, "defaultMode");
    let mut taken = BTreeSet::new();
    for source in volume.items("sources") {
        for kind in KINDS {
            let Some(projection) = source.given(kind) else { continue };
            projection_of(&projection, kind, volume);
            for item in projection.items("items") {
                let file = item.text("path");
                let shown = if kind == "downwardAPI" { file } else { projection.text("name") };
                let is_taken = !file.is_empty() && !taken.insert(file);
                volume.invalid_if(is_taken, "", shown, "conflicting duplicate paths");
            }
        }
        let is_torn = KINDS.iter().filter(|kind| source.has(kind)).count() > 1;
        source.forbidden_if(is_torn, "", "may not specify more than 1 volume type per source");
        let has_no_account = pod.is_some_and(|pod| text(pod, "spec.serviceAccountName").is_empty());
        let detail = "must not be specified when serviceAccountName is not set";
        let key = "serviceAccountToken";
        source.forbidden_if(has_no_account && source.has(key), key, detail);
    }
}

fn projection_of(projection: &Place, kind: &str, volume: &Place) {
    match kind {
        "secret" | "configMap" => {
            projection.needs(&["name"]);
            items(projection);
        }
        "downwardAPI" => downward_files(projection),
        "serviceAccountToken" => {
            token_seconds(projection, "expirationSeconds");
            // The reference reports the path of the token at the volume.
            let token = volume.stand_in("", projection.value);
            token.needs(&["path"]);
            local_path(&token, "path");
        }
        _ => {
            for key in ["path", "credentialBundlePath", "keyPath", "certificateChainPath"] {
                local_path(projection, key);
            }
        }
    }
}

/// How long a token may live.
pub(super) fn token_seconds(holder: &Place, key: &str) {
    const SECONDS_MIN: i64 = 600;
    const SECONDS_MAX: i64 = 1 << 32;
    let seconds = holder.integer(key).unwrap_or(0);
    let is_short = seconds < SECONDS_MIN;
    holder.invalid_if(is_short, key, seconds, "may not specify a duration less than 10 minutes");
    let is_long = seconds > SECONDS_MAX;
    holder.invalid_if(is_long, key, seconds, "may not specify a duration larger than 2^32 seconds");
}

fn local_path(holder: &Place, key: &str) {
    holder.descending(key);
    let path = holder.text(key);
    let is_hidden = path.starts_with("..") && !path.starts_with("../") && path != "..";
    holder.wrong_if(is_hidden, key, "must not start with '..'");
}
