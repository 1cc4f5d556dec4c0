//! Where a container sees its pod's volumes, and which mounts of the machine lie below a folder.

use super::environment::ConfigError;
use super::expand::expand;
use super::spec;
use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// One volume at one place of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Place<'a> {
    pub volume: &'a Volume,
    pub target: PathBuf,
    /// Relative, without `..`.
    pub sub_path: Option<String>,
    pub is_read_only: bool,
    /// As the pod words it; empty is `None`.
    pub propagation: &'a str,
}

/// What the container's `volumeMounts` ask for, outer places before those inside them.
pub fn places<'a>(
    pod: &'a Pod,
    container: &'a Container,
    environment: &[(String, String)],
) -> Result<Vec<Place<'a>>, ConfigError> {
    let volumes = spec(pod).and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let mut places = Vec::new();
    for mount in container.volume_mounts.as_deref().unwrap_or_default() {
        let found = volumes.iter().find(|volume| volume.name == mount.name);
        let missing =
            || ConfigError(format!("cannot find volume {:?} to mount into container {:?}", mount.name, container.name));
        let volume = found.ok_or_else(missing)?;
        places.push(Place {
            volume,
            target: Path::new("/").join(&mount.mount_path),
            sub_path: sub_path(mount, environment)?,
            is_read_only: mount.read_only == Some(true) || is_read_only(volume),
            propagation: mount.mount_propagation.as_deref().unwrap_or_default(),
        });
    }
    places.sort_by_key(|place| place.target.components().count());
    Ok(places)
}

/// Whether the node writes what stands in the volume.
pub fn is_written(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// Nobody else writes what the node writes; other volumes say so themselves.
fn is_read_only(volume: &Volume) -> bool {
    let is_claim = volume.persistent_volume_claim.as_ref().is_some_and(|source| source.read_only == Some(true));
    is_written(volume) || is_claim || volume.nfs.as_ref().is_some_and(|source| source.read_only == Some(true))
}

fn sub_path(mount: &VolumeMount, environment: &[(String, String)]) -> Result<Option<String>, ConfigError> {
    let path = match mount.sub_path_expr.as_deref().filter(|expression| !expression.is_empty()) {
        Some(expression) => expanded(expression, environment)?,
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.starts_with('/') {
        return Err(ConfigError(format!("error SubPath `{path}` must not be an absolute path")));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(ConfigError(format!("unable to provision SubPath `{path}`: must not contain '..'")));
    }
    Ok(Some(path).filter(|path| Path::new(path).components().any(|part| matches!(part, Component::Normal(_)))))
}

fn expanded(expression: &str, environment: &[(String, String)]) -> Result<String, ConfigError> {
    let missing = RefCell::new(BTreeSet::new());
    let path = expand(expression, |name| {
        let found = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let found = found.filter(|value| !value.is_empty());
        if found.is_none() {
            missing.borrow_mut().insert(name.to_owned());
        }
        found
    });
    let missing = missing.into_inner();
    if missing.is_empty() {
        return Ok(path);
    }
    Err(ConfigError(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", "))))
}

/// Whether a file of a volume stays in it: relative, and no part is `..` or looks like the node's own folders.
pub fn is_file_path(path: &str) -> bool {
    let parts: Vec<Component> = Path::new(path).components().collect();
    let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    is_plain && !parts.is_empty() && !path.starts_with("..")
}

/// The mounts below `folder`, the deepest and latest first, from the text of `/proc/self/mountinfo`.
pub fn mounts_below(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    let fields = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    let mut found: Vec<PathBuf> = fields.map(unescaped).collect();
    found.retain(|point| point.starts_with(folder) && point != folder);
    found.reverse();
    found.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    found
}

/// The kernel writes blanks, tabs, line ends and backslashes as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                path.push(char::from(code));
                path.push_str(&part[3..]);
            }
            None => {
                path.push('\\');
                path.push_str(part);
            }
        }
    }
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(mounts: Value) -> Result<Vec<String>, String> {
        let volumes = json!([{"name": "a", "emptyDir": {}}, {"name": "m", "configMap": {"name": "m"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}]);
        let container = json!({"name": "c", "volumeMounts": mounts});
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"volumes": volumes, "containers": [container]}})).unwrap();
        let environment = [("POD".to_owned(), "p-0".to_owned()), ("EMPTY".to_owned(), String::new())];
        let container = &super::super::main_containers(&pod)[0];
        let places = places(&pod, container, &environment).map_err(|error| error.to_string())?;
        let show = |place: &Place| {
            let sub_path = place.sub_path.as_ref().map_or(String::new(), |path| format!("/{path}"));
            let access = if place.is_read_only { "ro" } else { "rw" };
            format!("{}{sub_path} {} {access}", place.volume.name, place.target.display())
        };
        Ok(places.iter().map(show).collect())
    }

    #[test]
    fn a_container_without_mounts_sees_no_volume() {
        assert_eq!(check(json!([])), Ok(vec![]));
    }

    #[test]
    fn outer_places_come_first_and_what_the_node_writes_is_read_only() {
        let mounts = json!([{"name": "m", "mountPath": "/a/b"}, {"name": "a", "mountPath": "/a"},
            {"name": "c", "mountPath": "data"}, {"name": "a", "mountPath": "/x", "readOnly": true}]);
        assert_eq!(check(mounts).unwrap(), ["a /a rw", "c /data ro", "a /x ro", "m /a/b ro"]);
    }

    #[test]
    fn sub_paths_are_expanded_and_stay_inside() {
        let sub = |field: &str, path: &str| check(json!([{"name": "a", "mountPath": "/a", field: path}]));
        assert_eq!(sub("subPath", "x/y").unwrap(), ["a/x/y /a rw"]);
        assert_eq!(sub("subPath", "./").unwrap(), ["a /a rw"]);
        assert_eq!(sub("subPathExpr", "logs/$(POD)").unwrap(), ["a/logs/p-0 /a rw"]);
        let refused = [
            ("subPathExpr", "$(GONE)/$(EMPTY)", "missing value for EMPTY, GONE"),
            ("subPath", "/etc", "error SubPath `/etc` must not be an absolute path"),
            ("subPath", "a/../../b", "unable to provision SubPath `a/../../b`: must not contain '..'"),
        ];
        for (field, path, text) in refused {
            assert_eq!(sub(field, path), Err(text.to_owned()));
        }
        let unknown = check(json!([{"name": "z", "mountPath": "/a"}]));
        assert_eq!(unknown, Err("cannot find volume \"z\" to mount into container \"c\"".to_owned()));
    }

    #[test]
    fn mounts_below_a_folder_are_found_deepest_first() {
        let text = "22 1 8:1 / / rw - ext4 /dev/vda rw\n23 22 0:4 / /p/v/a rw - tmpfs tmpfs rw\n\
                    24 22 0:5 / /p/v/a/b\\040c rw - tmpfs tmpfs rw\n25 22 0:6 / /p/volumes rw - tmpfs tmpfs rw\n\
                    26 22 0:7 / /p/v rw - tmpfs tmpfs rw\n";
        let found = mounts_below(text, Path::new("/p/v"));
        assert_eq!(found, [Path::new("/p/v/a/b c"), Path::new("/p/v/a")]);
    }

    #[test]
    fn files_stay_in_their_volume() {
        let cases = [("a", true), ("a/b", true), ("..a", false), ("", false), ("/a", false), ("a/../b", false)];
        for (path, expected) in cases {
            assert_eq!(is_file_path(path), expected, "{path}");
        }
    }
}
