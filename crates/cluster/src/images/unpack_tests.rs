//! Unpacking: what layers turn into, and which archives are refused. Parts that need root say so when they are skipped.

use super::digest::Digest;
use super::error::{ImageError, Refusal};
use super::fixtures::{Layer, compress, names_in};
use super::inflate::{Compression, Limits};
use super::tree::Privilege;
use super::unpack::{Unpacked, unpack};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A folder with the blob beside it and a file outside that no layer may touch.
struct Bench {
    home: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let home = tempfile::tempdir().expect("tmp");
        std::fs::write(home.path().join("outside"), "untouched").expect("written");
        Bench { home }
    }

    fn root(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn unpack_with(
        &self,
        name: &str,
        tar: &[u8],
        limits: Limits,
        privilege: Privilege,
    ) -> Result<Unpacked, ImageError> {
        let blob = self.home.path().join("blob");
        std::fs::write(&blob, compress(tar, Compression::Gzip)).expect("written");
        std::fs::create_dir_all(self.root(name)).expect("made");
        unpack(&blob, &self.root(name), &Digest::of(tar), limits, privilege)
    }

    fn unpack(&self, layer: Layer) -> Result<Unpacked, ImageError> {
        self.unpack_with("layer", &layer.tar(), Limits::default(), Privilege::of_this_process())
    }

    fn refusal(&self, layer: Layer) -> Refusal {
        match self.unpack(layer) {
            Err(ImageError::Refused { refusal, .. }) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root("layer").join(name)).expect(name)
    }

    fn stat(&self, name: &str) -> std::fs::Metadata {
        std::fs::symlink_metadata(self.root("layer").join(name)).expect(name)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let outside = std::fs::read_to_string(self.home.path().join("outside"));
        assert_eq!(outside.expect("still there"), "untouched");
    }
}

fn is_root() -> bool {
    let is_root = Privilege::of_this_process() == Privilege::Root;
    if !is_root {
        eprintln!("skipped: needs root");
    }
    is_root
}

#[test]
fn files_links_modes_and_times_are_as_in_the_archive() {
    let bench = Bench::new();
    let long = format!("{}/name", "deep".repeat(40));
    let layer = Layer::default()
        .folder("bin", 0o555)
        .file_with_mode("bin/su", "elf", 0o4755)
        .file_with_mode("bin/wall", "elf", 0o2755)
        .hard_link("bin/sudo", "bin/su")
        .symlink("sh", "/bin/bash")
        .symlink("up", "../../etc/passwd")
        .folder("tmp", 0o1777)
        .file("/absolute/name", "a")
        .file("./dotted", "d")
        .file(&long, "long");
    let found = bench.unpack(layer).expect("unpacked");
    assert_eq!((found.entries, found.left_out), (10, 0));
    assert_eq!(bench.stat("bin/su").permissions().mode() & 0o7777, 0o4755);
    assert_eq!(bench.stat("bin/wall").permissions().mode() & 0o7777, 0o2755);
    assert_eq!(bench.stat("bin").permissions().mode() & 0o7777, 0o555);
    assert_eq!(bench.stat("tmp").permissions().mode() & 0o7777, 0o1777);
    assert_eq!(bench.stat("bin/su").ino(), bench.stat("bin/sudo").ino());
    assert_eq!(std::fs::read_link(bench.root("layer").join("sh")).expect("link"), Path::new("/bin/bash"));
    for name in ["bin", "bin/su", "sh", "tmp"] {
        assert_eq!(bench.stat(name).mtime(), 1_700_000_000, "{name}");
    }
    assert_eq!(
        (bench.read("absolute/name"), bench.read("dotted"), bench.read(&long)),
        ("a".into(), "d".into(), "long".into())
    );
    super::tree::remove_tree(&bench.root("layer")).expect("read-only folders too");
}

#[test]
fn a_later_entry_wins_over_an_earlier_one_of_the_same_name() {
    let bench = Bench::new();
    let layer = Layer::default()
        .file("a", "old")
        .file("a", "new")
        .file("b/c", "x")
        .file("b", "now a file")
        .file("d", "file")
        .file("d/e", "now a folder")
        .symlink("l", "../../outside")
        .file("l", "not through the link")
        .file("kept/x", "x")
        .folder("kept", 0o700);
    bench.unpack(layer).expect("unpacked");
    assert_eq!(
        (bench.read("a"), bench.read("b"), bench.read("d/e")),
        ("new".into(), "now a file".into(), "now a folder".into())
    );
    assert_eq!(bench.read("l"), "not through the link");
    assert_eq!((bench.read("kept/x").as_str(), bench.stat("kept").mode() & 0o777), ("x", 0o700));
}

#[test]
fn names_and_links_that_lead_out_are_refused() {
    let bench = Bench::new();
    let escape = |layer| assert!(matches!(bench.refusal(layer), Refusal::Escape(_)));
    escape(Layer::default().file("../outside", "x"));
    escape(Layer::default().file("a/../../outside", "x"));
    escape(Layer::default().symlink("up", "..").file("up/outside", "x"));
    escape(Layer::default().symlink("one", "two").symlink("two", "../..").file("one/outside", "x"));
    escape(Layer::default().symlink("loop", "loop").file("loop/x", "x"));
    escape(Layer::default().file("a/.wh...", ""));
    let link = |layer| assert!(matches!(bench.refusal(layer), Refusal::LinkEscape(_, _) | Refusal::LinkMissing(_, _)));
    link(Layer::default().hard_link("x", "../outside"));
    link(Layer::default().hard_link("x", "/outside"));
    link(Layer::default().symlink("s", "..").hard_link("x", "s/outside"));
    link(Layer::default().hard_link("x", "missing"));
    let host = bench.root("outside").display().to_string();
    bench
        .unpack(Layer::default().symlink("abs", "/").file(&format!("abs{host}"), "inside"))
        .expect("absolute links start at the layer");
    assert_eq!(bench.read(host.trim_start_matches('/')), "inside");
}

#[test]
fn whiteouts_become_devices_and_opaque_folders_attributes() {
    let bench = Bench::new();
    let layer = Layer::default()
        .file("etc/.wh.gone", "")
        .folder("opq", 0o755)
        .file("opq/.wh..wh..opq", "")
        .file("opq/new", "n")
        .file(".wh.replaced", "")
        .folder("replaced", 0o755)
        .folder("after", 0o755)
        .file(".wh.after", "")
        .file("own", "stays")
        .file(".wh.own", "")
        .file(".wh..wh.plnk", "")
        .file(".wh.implied", "")
        .file("implied/new", "n");
    bench.unpack(layer).expect("unpacked");
    let gone = bench.stat("etc/gone");
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    let is_opaque = |name: &str| {
        ["trusted.overlay.opaque", "user.overlay.opaque"].iter().any(|key| {
            let mut value = [0u8; 8];
            rustix::fs::lgetxattr(bench.root("layer").join(name), *key, &mut value)
                .is_ok_and(|length| &value[..length] == b"y")
        })
    };
    assert!(
        is_opaque("opq") && is_opaque("replaced") && is_opaque("after") && is_opaque("implied") && !is_opaque("etc")
    );
    assert_eq!((bench.read("own").as_str(), bench.read("opq/new").as_str()), ("stays", "n"));
    assert_eq!(names_in(&bench.root("layer")), ["after", "etc", "implied", "opq", "own", "replaced"]);
}

#[test]
fn overlayfs_shows_what_the_layers_mean() {
    if !is_root() {
        return;
    }
    let bench = Bench::new();
    let limits = Limits::default();
    let low = Layer::default()
        .file("a/gone", "x")
        .file("a/kept", "k")
        .file("b/hidden", "h")
        .file("c/old", "o")
        .file("d", "file");
    let high = Layer::default()
        .file("a/.wh.gone", "")
        .file("b/.wh..wh..opq", "")
        .file("b/new", "n")
        .file(".wh.c", "")
        .file("c/new", "n")
        .file("d/now", "folder");
    bench.unpack_with("low", &low.tar(), limits, Privilege::Root).expect("low");
    bench.unpack_with("high", &high.tar(), limits, Privilege::Root).expect("high");
    let merged = bench.root("merged");
    std::fs::create_dir(&merged).expect("made");
    let option = format!("lowerdir={}:{}", bench.root("high").display(), bench.root("low").display());
    let mounted =
        std::process::Command::new("mount").args(["-t", "overlay", "overlay", "-o", &option]).arg(&merged).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("skipped: overlay cannot be mounted here");
        return;
    }
    let seen = ["a", "b", "c", "d"].map(|folder| names_in(&merged.join(folder)));
    std::process::Command::new("umount").arg(&merged).status().expect("umount");
    assert_eq!(seen, [vec!["kept".to_owned()], vec!["new".to_owned()], vec!["new".to_owned()], vec!["now".to_owned()]]);
}

#[test]
fn owners_devices_and_attributes_are_set_for_root_and_left_out_for_others() {
    let bench = Bench::new();
    let capability = [1, 0, 0, 2, 0x0a, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let layer = || {
        Layer::default()
            .owned_file("owned", 1234, 2_000_000)
            .device("null", 1, 3)
            .file_with_xattr("ping", "security.capability", &capability)
            .file_with_xattr("plain", "user.note", b"a\nb")
            .file_with_xattr("bent", "trusted.overlay.redirect", b"/etc")
            .tar()
    };
    let limits = Limits::default();
    let lowly = bench.unpack_with("lowly", &layer(), limits, Privilege::User).expect("unpacked");
    assert!(lowly.left_out >= 2, "the device and overlay's own attribute");
    if !is_root() {
        return;
    }
    let found = bench.unpack_with("layer", &layer(), limits, Privilege::Root).expect("unpacked");
    assert_eq!((bench.stat("owned").uid(), bench.stat("owned").gid()), (1234, 2_000_000));
    assert_eq!((bench.stat("null").rdev(), bench.stat("null").mode() & 0o777), (rustix::fs::makedev(1, 3), 0o666));
    let mut value = [0u8; 64];
    match rustix::fs::lgetxattr(bench.root("layer").join("ping"), "security.capability", &mut value) {
        Ok(length) => assert_eq!((&value[..length], found.left_out), (&capability[..], 1)),
        Err(error) => eprintln!("skipped: no file capabilities here: {error}"),
    }
    assert!(rustix::fs::lgetxattr(bench.root("layer").join("bent"), "trusted.overlay.redirect", &mut value).is_err());
}

#[test]
fn ten_thousand_files_are_unpacked() {
    let bench = Bench::new();
    let layer = (0..10_000).fold(Layer::default(), |layer, number| {
        layer.file(&format!("dir{}/file{number}", number % 100), number.to_string())
    });
    let found = bench.unpack(layer).expect("unpacked");
    assert_eq!(found.entries, 10_000);
    assert_eq!(names_in(&bench.root("layer")).len(), 100);
    assert_eq!(bench.read("dir99/file9999"), "9999");
}

#[test]
fn bombs_are_refused_before_they_fill_the_disk() {
    let bench = Bench::new();
    let zeros = Layer::default().file("zeros", vec![0; 4 << 20]).tar();
    let many = (0..20).fold(Layer::default(), |layer, number| layer.file(&number.to_string(), "")).tar();
    let all = Limits::default();
    for (tar, limits, wanted) in [
        (&zeros, Limits { bytes_max: 1 << 20, ..all }, Refusal::Bytes(1 << 20)),
        (&zeros, Limits { ratio_from: 1 << 20, ratio_max: 50, ..all }, Refusal::Ratio(50)),
        (&many, Limits { entries_max: 10, ..all }, Refusal::Entries(10)),
    ] {
        match bench.unpack_with("layer", tar, limits, Privilege::User) {
            Err(ImageError::Refused { refusal, .. }) => assert_eq!(refusal, wanted),
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[test]
fn broken_archives_and_wrong_digests_are_refused() {
    let bench = Bench::new();
    let good = Layer::default().file("a", vec![7; 5000]).tar();
    let (blob, folder) = (bench.root("blob"), bench.root("layer"));
    std::fs::create_dir(&folder).expect("made");
    let try_blob = |bytes: &[u8], diff_id: &Digest| {
        std::fs::write(&blob, bytes).expect("written");
        unpack(&blob, &folder, diff_id, Limits::default(), Privilege::User)
    };
    let zipped = compress(&good, Compression::Gzip);
    assert!(matches!(try_blob(&zipped, &Digest::of(b"other")), Err(ImageError::Corrupt { .. })));
    assert!(matches!(try_blob(&zipped[..zipped.len() / 2], &Digest::of(&good)), Err(ImageError::Refused { .. })));
    assert!(matches!(
        try_blob(&good[..600], &Digest::of(&good[..600])),
        Err(ImageError::Refused { refusal: Refusal::Malformed(_), .. })
    ));
    assert!(matches!(try_blob(b"<html>not a layer</html>", &Digest::of(b"")), Err(ImageError::Refused { .. })));
    let twice = [compress(&good[..512], Compression::Gzip), compress(&good[512..], Compression::Gzip)].concat();
    try_blob(&twice, &Digest::of(&good)).expect("several gzip members are one stream");
}
