//! Volumes of a pod: one source each, with what that source needs.
//!
//! Sources stand in one table in the order in which the reference looks at them; most need only non-empty strings.

use super::claim::claim_template;
use super::path::Path;
use super::pod::Holder;
use super::pod_env::{VOLUME_FIELDS, field_selector, resource_selector};
use super::read::{
    complain, entries, flag, given, in_range, integer, list, one_of, quantity, required, required_name, string,
};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Further rules of one kind of source.
type Check = fn(&mut Vec<FieldError>, &Value, &Path, Holder);

/// One kind of volume source.
struct Source {
    key: &'static str,
    /// Where a second source is reported; two of them are misspelt in the reference.
    conflict: &'static str,
    required: &'static [&'static str],
    check: Check,
}

const fn source(key: &'static str, required: &'static [&'static str]) -> Source {
    Source { key, conflict: key, required, check: |_, _, _, _| {} }
}

const fn checked(key: &'static str, required: &'static [&'static str], check: Check) -> Source {
    Source { key, conflict: key, required, check }
}

const SOURCES: &[Source] = &[
    checked("emptyDir", &[], empty_dir),
    checked("hostPath", &["path"], host_path),
    checked("gitRepo", &["repository"], |errors, git, path, _| descending(errors, git, path, "directory")),
    checked("gcePersistentDisk", &["pdName"], partition),
    checked("awsElasticBlockStore", &["volumeID"], partition),
    checked("secret", &["secretName"], mode_and_items),
    checked("nfs", &["server", "path"], nfs),
    checked("iscsi", &["targetPortal", "iqn"], iscsi),
    source("glusterfs", &["endpoints", "path"]),
    checked("flocker", &[], flocker),
    source("persistentVolumeClaim", &["claimName"]),
    checked("rbd", &["image"], monitors),
    checked("cinder", &["volumeID"], secret_reference),
    Source { key: "cephfs", conflict: "cephFS", required: &[], check: monitors },
    source("quobyte", &["registry", "volume"]),
    Source { key: "downwardAPI", conflict: "downwarAPI", required: &[], check: downward_api },
    checked("fc", &[], fibre_channel),
    checked("flexVolume", &["driver"], flex_options),
    checked("configMap", &["name"], mode_and_items),
    source("azureFile", &["secretName", "shareName"]),
    source("vsphereVolume", &["volumePath"]),
    source("photonPersistentDisk", &["pdID"]),
    source("portworxVolume", &["volumeID"]),
    source("azureDisk", &["diskName", "diskURI"]),
    source("storageos", &["volumeName"]),
    checked("projected", &[], projected),
    source("scaleIO", &["gateway", "system", "volumeName"]),
    checked("csi", &[], container_storage),
    checked("ephemeral", &[], ephemeral),
    checked("image", &[], image),
];

/// Checks all volumes and returns the good ones by name; mounts of others are not found, as in the reference.
pub(super) fn volumes<'a>(
    errors: &mut Vec<FieldError>,
    spec: &'a Value,
    path: &Path,
    holder: Holder,
) -> BTreeMap<&'a str, &'a Value> {
    let path = path.field("volumes");
    let mut good = BTreeMap::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(index);
        let errors_before = errors.len();
        volume_source(errors, volume, &path, holder);
        required_name(errors, &volume["name"], &path.field("name"), names::dns_label);
        let name = string(volume, "name");
        if good.contains_key(name) {
            errors.push(FieldError::duplicate(path.field("name"), name));
        }
        if errors.len() == errors_before {
            good.insert(name, volume);
        }
        claim_of_ephemeral(errors, spec, volume, &path, holder);
    }
    good
}

/// A claim that the pod itself makes cannot be named by another of its volumes.
fn claim_of_ephemeral(errors: &mut Vec<FieldError>, spec: &Value, volume: &Value, path: &Path, holder: Holder) {
    let claim = string(&volume["persistentVolumeClaim"], "claimName");
    let Some(rest) = claim.strip_prefix(holder.pod_name()).and_then(|rest| rest.strip_prefix('-')) else { return };
    let is_made = list(spec, "volumes").iter().any(|v| given(v, "ephemeral").is_some() && string(v, "name") == rest);
    if is_made && !holder.pod_name().is_empty() {
        let detail = "must not reference a PVC that gets created for an ephemeral volume";
        errors.push(FieldError::invalid(path.field("persistentVolumeClaim.claimName"), claim, detail));
    }
}

fn volume_source(errors: &mut Vec<FieldError>, volume: &Value, path: &Path, holder: Holder) {
    let mut found = false;
    for source in SOURCES {
        let Some(value) = given(volume, source.key) else { continue };
        if found {
            errors.push(FieldError::forbidden(path.field(source.conflict), "may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        let path = path.field(if source.key == "gcePersistentDisk" { "persistentDisk" } else { source.key });
        required(errors, value, &path, source.required);
        (source.check)(errors, value, &path, holder);
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    let has_claim = given(volume, "ephemeral").is_some() && !holder.pod_name().is_empty();
    if has_claim && !string(volume, "name").is_empty() {
        let claim = format!("{}-{}", holder.pod_name(), string(volume, "name"));
        for text in names::dns_subdomain(&claim) {
            let detail = format!("PVC name \"{claim}\": {text}");
            errors.push(FieldError::invalid(path.field("name"), string(volume, "name"), &detail));
        }
    }
}

fn empty_dir(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    if quantity(&source["sizeLimit"]).is_some_and(|limit| limit.is_negative()) {
        errors
            .push(FieldError::forbidden(path.field("sizeLimit"), "SizeLimit field must be a valid resource quantity"));
    }
}

fn host_path(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    const TYPES: &[&str] =
        &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    no_backsteps(errors, string(source, "path"), &path.field("path"));
    one_of(errors, source, path, "type", TYPES);
}

fn partition(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    if let Some(number) = integer(source, "partition").filter(|number| !(0..=255).contains(number)) {
        errors.push(FieldError::invalid(path.field("partition"), number, "must be between 1 and 255, inclusive"));
    }
}

fn nfs(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let export = string(source, "path");
    if !export.starts_with('/') {
        errors.push(FieldError::invalid(path.field("path"), export, "must be an absolute path"));
    }
}

fn iscsi(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let name = string(source, "iqn");
    if !name.is_empty() && !["iqn", "eui", "naa"].iter().any(|start| name.starts_with(start)) {
        errors.push(FieldError::invalid(
            path.field("iqn"),
            name,
            "must be valid format starting with iqn, eui, or naa",
        ));
    }
    in_range(errors, source, path, "lun", (0, 255));
    let needs_secret = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if needs_secret && given(source, "secretRef").is_none() {
        errors.push(FieldError::required(path.field("secretRef"), ""));
    }
}

fn flocker(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let (name, uuid) = (string(source, "datasetName"), string(source, "datasetUUID"));
    match (name.is_empty(), uuid.is_empty()) {
        (true, true) => errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(path, "resource", detail));
        }
        (true, false) | (false, true) => {}
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(path.field("datasetName"), name, "must not contain '/'"));
    }
}

fn monitors(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    if list(source, "monitors").is_empty() {
        errors.push(FieldError::required(path.field("monitors"), ""));
    }
}

fn secret_reference(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    if let Some(secret) = given(source, "secretRef") {
        required(errors, secret, &path.field("secretRef"), &["name"]);
    }
}

fn fibre_channel(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let (targets, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let at = path.field("targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(at, "must specify either targetWWNs or wwids, but not both"));
    }
    if !targets.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(at, source["targetWWNs"].clone(), detail));
    }
    if !targets.is_empty() {
        if given(source, "lun").is_none() {
            errors.push(FieldError::required(path.field("lun"), "lun is required if targetWWNs is specified"));
        }
        in_range(errors, source, path, "lun", (0, 255));
    }
}

fn flex_options(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let options = path.field("options");
    for (key, _) in entries(source, "options") {
        let domain = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(options.key(key), key, detail));
        }
    }
}

fn container_storage(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    const DRIVER_MAX: usize = 63;
    let (driver, at) = (string(source, "driver"), path.field("driver"));
    if driver.is_empty() {
        errors.push(FieldError::required(at, ""));
        return;
    }
    if driver.len() > DRIVER_MAX {
        errors.push(FieldError::too_long(at, DRIVER_MAX));
    }
    complain(errors, &at, driver, names::dns_subdomain(&driver.to_lowercase()));
    if let Some(secret) = given(source, "nodePublishSecretRef") {
        required(errors, secret, &path.field("nodePublishSecretRef"), &["name"]);
    }
}

fn ephemeral(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    let at = path.field("volumeClaimTemplate");
    match given(source, "volumeClaimTemplate") {
        None => errors.push(FieldError::required(at, "")),
        Some(template) => claim_template(errors, template, &at),
    }
}

fn image(errors: &mut Vec<FieldError>, source: &Value, path: &Path, holder: Holder) {
    if holder.is_pod() {
        required(errors, source, path, &["reference"]);
    }
    super::pod_container::pull_policy(errors, source, path, "pullPolicy");
}

fn file_mode(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str) {
    if let Some(mode) = integer(object, key).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path.field(key), mode, detail));
    }
}

fn mode_and_items(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    file_mode(errors, source, path, "defaultMode");
    items(errors, source, path);
}

fn items(errors: &mut Vec<FieldError>, source: &Value, path: &Path) {
    let path = path.field("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        let path = path.index(index);
        required(errors, item, &path, &["key", "path"]);
        local_path(errors, string(item, "path"), &path.field("path"));
        file_mode(errors, item, &path, "mode");
    }
}

fn downward_api(errors: &mut Vec<FieldError>, source: &Value, path: &Path, _: Holder) {
    file_mode(errors, source, path, "defaultMode");
    // The reference leaves the index of the file out of the path.
    for file in list(source, "items") {
        downward_file(errors, file, path);
    }
}

fn downward_file(errors: &mut Vec<FieldError>, file: &Value, path: &Path) {
    required(errors, file, path, &["path"]);
    local_path(errors, string(file, "path"), &path.field("path"));
    match (given(file, "fieldRef"), given(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            field_selector(errors, field, &path.field("fieldRef"), VOLUME_FIELDS);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", detail));
            }
        }
        (None, Some(resource)) => resource_selector(errors, resource, &path.field("resourceFieldRef"), true),
        (None, None) => errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    file_mode(errors, file, path, "mode");
}

fn projected(errors: &mut Vec<FieldError>, source: &Value, path: &Path, holder: Holder) {
    file_mode(errors, source, path, "defaultMode");
    let mut taken = BTreeSet::new();
    let sources = path.field("sources");
    for (index, source) in list(source, "sources").iter().enumerate() {
        let at = sources.index(index);
        let mut kinds = 0;
        for key in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"]
        {
            let Some(projection) = given(source, key) else { continue };
            kinds += 1;
            projection_of(errors, key, projection, (path, &at.field(key)));
            for file in list(projection, "items").iter().map(|item| string(item, "path")) {
                if !file.is_empty() && !taken.insert(file) {
                    let shown = if key == "downwardAPI" { file } else { string(projection, "name") };
                    errors.push(FieldError::invalid(path, shown, "conflicting duplicate paths"));
                }
            }
        }
        if kinds > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type per source"));
        }
        let has_no_account = holder.is_pod() && !holder.has_service_account();
        if has_no_account && given(source, "serviceAccountToken").is_some() {
            let detail = "must not be specified when serviceAccountName is not set";
            errors.push(FieldError::forbidden(at.field("serviceAccountToken"), detail));
        }
    }
}

/// `paths` are those of the volume source and of the projection in it.
fn projection_of(errors: &mut Vec<FieldError>, key: &str, projection: &Value, paths: (&Path, &Path)) {
    let (volume, path) = paths;
    match key {
        "secret" | "configMap" => {
            required(errors, projection, path, &["name"]);
            items(errors, projection, path);
        }
        "downwardAPI" => list(projection, "items").iter().for_each(|file| downward_file(errors, file, path)),
        "serviceAccountToken" => account_token(errors, projection, volume, path),
        _ => {
            for key in ["path", "credentialBundlePath", "keyPath", "certificateChainPath"] {
                local_path(errors, string(projection, key), &path.field(key));
            }
        }
    }
}

fn account_token(errors: &mut Vec<FieldError>, token: &Value, volume: &Path, path: &Path) {
    const SECONDS_MIN: i64 = 600;
    const SECONDS_MAX: i64 = 1 << 32;
    let seconds = integer(token, "expirationSeconds").unwrap_or(0);
    let at = path.field("expirationSeconds");
    if seconds < SECONDS_MIN {
        errors.push(FieldError::invalid(at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > SECONDS_MAX {
        errors.push(FieldError::invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    required(errors, token, volume, &["path"]);
    local_path(errors, string(token, "path"), &volume.field("path"));
}

/// A path must not climb: no `..` between its slashes.
pub(super) fn no_backsteps(errors: &mut Vec<FieldError>, value: &str, path: &Path) {
    if value.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

/// A string field holding a relative path that does not climb.
pub(super) fn descending(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str) {
    let (value, path) = (string(object, key), path.field(key));
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(errors, value, &path);
}

fn local_path(errors: &mut Vec<FieldError>, value: &str, path: &Path) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(errors, value, path);
    if value.starts_with("..") && !value.starts_with("../") && value != ".." {
        errors.push(FieldError::invalid(path, value, "must not start with '..'"));
    }
}
