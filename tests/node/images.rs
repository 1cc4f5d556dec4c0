//! Images from a real registry: pulled, run, run again without it, and what happens when something is wrong.

use crate::command::eventually;
use crate::made::{
    BUSYBOX, INDEX, Image, MANIFEST, Packing, busybox, busybox_layer, descriptor, layered, load_busybox,
};
use crate::registry::{BASIC, Registry};
use crate::world::{Say, World, container, pod};
use serde_json::{Value, json};
use std::process::Command;
use volley_cluster::images::digest::Digest;

fn with_image(name: &str, script: &str, image: &str) -> Value {
    pod(name, script).main(json!({"image": image, "imagePullPolicy": "IfNotPresent"}))
}

#[test]
fn an_image_is_pulled_run_and_run_again_without_its_registry() {
    let mut registry = Registry::open();
    let image = registry.push("team/busybox:1", &busybox());
    let mut world = World::start(&[]);
    assert_eq!(world.finished(&with_image("first", "echo from $FROM", &image)), "from image\n");
    world.until_event("first", "Pulling", &format!("Pulling image {image:?}"));
    world.until_event("first", "Pulled", &format!("Successfully pulled image {image:?} in "));
    let id = container(&world.pod("first"))["imageID"].as_str().unwrap().to_owned();
    assert!(id.contains("sha256:"), "{id}");
    registry.stop();
    assert_eq!(world.finished(&with_image("second", "echo again", &image)), "again\n");
    world.until_event("second", "Pulled", "already present on machine");
    world.down();
    world.up();
    assert_eq!(world.finished(&with_image("third", "echo later", &image)), "later\n");
    let listed = world.volley(&["image", "ls"]);
    assert!(listed.contains("team/busybox"), "{listed}");
    world.create(&pod("always", "true").main(json!({"image": image, "imagePullPolicy": "Always"})));
    world.until_word("always", "ErrImagePull");
}

#[test]
fn by_digest_and_by_platform() {
    let registry = Registry::open();
    let own = busybox();
    registry.push("multi:own", &own);
    let other = Image::for_platform("s390x", &[(busybox_layer().file("other", "").tar(), Packing::Gzip)], json!({}));
    registry.push("multi:other", &other);
    let describe = |image: &Image, architecture: &str| {
        let mut described = descriptor(MANIFEST, &image.manifest);
        described["platform"] = json!({"os": "linux", "architecture": architecture});
        described
    };
    let manifests = [describe(&other, "s390x"), describe(&own, crate::made::architecture())];
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).to_string();
    registry.push_document("multi", "all", INDEX, index.as_bytes());
    let world = World::start(&[]);
    let script = "[ ! -e /other ] && echo own";
    assert_eq!(world.finished(&with_image("index", script, &registry.reference("multi:all"))), "own\n");
    let digest = registry.reference(&format!("multi@{}", Digest::of(&own.manifest)));
    assert_eq!(world.finished(&with_image("digest", "echo by digest", &digest)), "by digest\n");
    let foreign = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [describe(&other, "s390x")]}).to_string();
    registry.push_document("multi", "foreign", INDEX, foreign.as_bytes());
    world.create(&with_image("foreign", "true", &registry.reference("multi:foreign")));
    world.until_event("foreign", "Failed", "no match for platform in manifest");
}

#[test]
fn layers_add_replace_delete_hide_and_link() {
    let registry = Registry::open();
    let image = registry.push("layered:1", &layered());
    let world = World::start(&[]);
    let script = "pwd; cat /etc/conf/kept; echo; ls /etc/conf; ls /data; cat two; echo; stat -c '%h %i' one two | sort -u | wc -l; \
        stat -c %a setuid; stat -c '%u %g' owned; ls /many | wc -l; cat /many/9999; echo; \
        cat two; echo; rm /data/new && touch /data/mine && ls /data";
    let expected = "/links\nreplaced\nkept\nnew\nsame\n1\n4755\n1000 1001\n10000\n9999\nsame\nmine\n";
    assert_eq!(world.finished(&with_image("layered", script, &image)), expected);
    // What one container wrote, another does not see.
    assert_eq!(world.finished(&with_image("again", "ls /data", &image)), "new\n");
}

#[test]
fn zstd_layers_are_read_too() {
    let registry = Registry::open();
    let layers = [
        (busybox_layer().tar(), Packing::Zstd),
        (crate::layer::Layer::default().file("word", "packed").tar(), Packing::Gzip),
    ];
    let image = registry.push("zstd:1", &Image::new(&layers, json!({"Env": ["PATH=/bin"]})));
    let world = World::start(&[]);
    assert_eq!(world.finished(&with_image("packed", "cat /word", &image)), "packed");
}

#[test]
fn a_closed_registry_wants_a_secret_or_a_login() {
    let registry = Registry::closed();
    let image = registry.push("private:1", &busybox());
    let world = World::start(&[]);
    world.create(&with_image("stranger", "true", &image));
    world.until_word("stranger", "ErrImagePull");
    world.until_event("stranger", "Failed", "Failed to pull image");
    let server = format!("--docker-server={}", registry.address);
    let user = ["--docker-username=volley", "--docker-password=secret"];
    world.kubectl(&["create", "secret", "docker-registry", "login", &server, user[0], user[1]]);
    let known = with_image("known", "echo in", &image).spec(json!({"imagePullSecrets": [{"name": "login"}]}));
    assert_eq!(world.finished(&known), "in\n");
    world.volley(&["image", "rm", "--help"]);
    let other = registry.push("private:2", &layered_small());
    let docker = world.folder.path().join("user/.docker");
    std::fs::create_dir_all(&docker).unwrap();
    let config = json!({"auths": {&registry.address: {"auth": BASIC}}});
    std::fs::write(docker.join("config.json"), config.to_string()).unwrap();
    assert_eq!(world.finished(&with_image("logged-in", "cat /word", &other)), "small");
}

fn layered_small() -> Image {
    let top = crate::layer::Layer::default().file("word", "small").tar();
    Image::new(&[(busybox_layer().tar(), Packing::Gzip), (top, Packing::Gzip)], json!({"Env": ["PATH=/bin"]}))
}

#[test]
fn a_damaged_blob_is_refused() {
    let registry = Registry::open();
    let image = layered_small();
    let reference = registry.push("damaged:1", &image);
    let path = registry.blob_path(&image.blob(1));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let world = World::start(&[]);
    world.create(&with_image("damaged", "true", &reference));
    world.until_word("damaged", "ErrImagePull");
    let message = world.until_event("damaged", "Failed", "Failed to pull image");
    assert!(message.contains(&image.blob(1).to_string()), "{message}");
    std::fs::write(&path, &image.blobs[1]).unwrap();
    world.until_phase("damaged", "Succeeded");
}

#[test]
fn pulls_at_the_same_time_share_their_layers() {
    let registry = Registry::open();
    let base = (busybox_layer().tar(), Packing::Gzip);
    let images: Vec<Image> = (0..4)
        .map(|number: u32| {
            let top = crate::layer::Layer::default().file("word", number.to_string()).tar();
            Image::new(&[base.clone(), (top, Packing::Gzip)], json!({"Env": ["PATH=/bin"]}))
        })
        .collect();
    let world = World::start(&[]);
    for (number, image) in images.iter().enumerate() {
        let reference = registry.push(&format!("shared:{number}"), image);
        for twin in ["a", "b"] {
            world.create(&with_image(&format!("pull-{number}-{twin}"), "cat /word", &reference));
        }
    }
    for number in 0..4 {
        for twin in ["a", "b"] {
            let name = format!("pull-{number}-{twin}");
            world.until_phase(&name, "Succeeded");
            assert_eq!(world.logs(&name), number.to_string());
        }
    }
    assert_eq!(registry.downloads(&images[0].blob(0)), 1, "the shared layer is fetched once");
    for image in &images {
        assert_eq!(registry.downloads(&image.blob(1)), 1);
    }
}

#[test]
fn a_full_disk_is_said_and_survived() {
    let registry = Registry::open();
    let image = registry.push("big:1", &busybox());
    let mut world = World::start(&[]);
    world.down();
    let images = world.home.join("images");
    std::fs::create_dir_all(&images).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        assert!(command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&images).status().unwrap().success());
    };
    mount("size=1m");
    world.up();
    world.create(&with_image("full", "echo fits", &image));
    world.until_word("full", "ErrImagePull");
    let message = world.until_event("full", "Failed", "Failed to pull image");
    assert!(message.contains("space") || message.contains("full"), "{message}");
    assert_eq!(world.finished(&pod("other", "echo well")), "well\n");
    mount("remount,size=64m");
    world.until_phase("full", "Succeeded");
    world.down();
    let unmount = || Command::new("umount").arg(&images).output().unwrap().status.success();
    eventually("nothing uses the disk any more", || unmount().then_some(()));
}

#[test]
fn images_are_loaded_saved_mapped_and_removed() {
    let world = World::start(&["--image-map", "mapped/*=host"]);
    load_busybox(&world);
    world.volley(&["image", "save", BUSYBOX, "-o", "saved.tar"]);
    world.volley(&["image", "rm", BUSYBOX]);
    assert!(!world.volley(&["image", "ls"]).contains("busybox"));
    world.create(&pod("absent", "true").main(json!({"image": BUSYBOX, "imagePullPolicy": "Never"})));
    world.until_word("absent", "ErrImageNeverPull");
    world.volley(&["image", "load", "saved.tar"]);
    assert_eq!(world.finished(&with_image("back", "echo back", BUSYBOX)), "back\n");
    assert_eq!(world.finished(&with_image("mapped", "test -d /usr/share && echo host", "mapped/train:7")), "host\n");
}
