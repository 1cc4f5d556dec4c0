//! What an agent makes on a cluster, and takes away again: on the embedded one, and on any that is named (`site`).
//!
//! No pod is ever placed here, so that an API server and its controllers are enough.

use crate::chaos::{KINDS, make_queues};
use crate::launch::selector;
use crate::site::{Site, until};
use serde_json::{Value, json};
use volley_client::items::Item;

const OBJECTS: [&str; 3] = ["jobs.batch", "jobs.batch.volcano.sh", "pytorchjobs.kubeflow.org"];

fn made(site: &Site, kind: &str, item: &Item) -> Vec<Value> {
    let selector = selector(item);
    let list = site.kubectl(&["get", kind, "-n", &site.namespace, "-l", &selector, "-o", "json"], "");
    serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().clone()
}

/// The workload of an item, once its Secret is its own.
fn made_for(site: &Site, id: &str, kind: &str) -> (Item, Value) {
    until(&format!("{kind} is made"), || {
        let item = site.item(id);
        let object = made(site, kind, &item).into_iter().next()?;
        let secret = made(site, "secrets", &item).into_iter().next()?;
        let is_owned = secret["metadata"]["ownerReferences"][0]["uid"] == object["metadata"]["uid"];
        is_owned.then_some((item, object))
    })
}

/// The queues of `chaos`, whose pods ask for a node that there is not.
fn queues(site: &Site) {
    make_queues(site);
    let nowhere = json!({ "volley.dev/no-such-node": "true" });
    let pods = [
        vec!["/spec/template/spec"],
        vec!["/spec/tasks/0/template/spec"],
        vec!["/spec/pytorchReplicaSpecs/Master/template/spec", "/spec/pytorchReplicaSpecs/Worker/template/spec"],
    ];
    for ((name, mut config), pods) in KINDS.into_iter().zip(crate::chaos::configs(site)).zip(pods) {
        for pointer in pods {
            config.pointer_mut(pointer).unwrap()["nodeSelector"] = nowhere.clone();
        }
        site.make_queue(name, config);
    }
}

// K-24, K-28, K-36, K-37, K-39, L-31, L-33, L-36, L-37, K-77
#[test]
fn workloads_are_made_with_their_secrets_and_go_with_them_on_any_cluster() {
    let mut site = Site::start();
    queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    let ids = KINDS.map(|queue| site.submit(queue, queue, "true"));
    for (id, kind) in ids.iter().zip(OBJECTS) {
        let (item, object) = made_for(&site, id, kind);
        assert_eq!(object["metadata"]["finalizers"][0], "volley.dev/launch", "{object:#}");
        let text = object.to_string();
        assert!(text.contains("secretKeyRef") && !text.contains(&site.key), "{text}");
        assert!(item.end.is_none());
    }
    // The next life finds what the last one made, and makes nothing again.
    site.agents[0].kill();
    site.agents[0].start();
    site.stop(&ids[0]);
    site.stop(&ids[1]);
    for (id, kind) in ids[..2].iter().zip(OBJECTS) {
        let item = site.until_end(id);
        assert_eq!((item.end.as_deref(), item.attempt), (Some("stopped"), 1), "{item:#?}");
        assert!(site.pods(&item).is_empty(), "stopped is said when nothing is left");
        until("its object is gone", || made(&site, kind, &item).is_empty().then_some(()));
    }
    let (item, object) = made_for(&site, &ids[2], OBJECTS[2]);
    let name = object["metadata"]["name"].as_str().unwrap();
    site.kubectl(&["delete", OBJECTS[2], name, "-n", &site.namespace, "--wait=false"], "");
    let item = site.until_end(&item.id);
    assert_eq!(item.error.as_ref().map(|error| error.message.as_str()), Some("deleted externally"), "{item:#?}");
    site.until_no_secret();
}

/// Ids of two servers are alike, and so are those of a server that was begun anew; what they made on a cluster is not.
#[test]
fn work_of_two_servers_on_one_cluster_is_not_mixed_up() {
    let mut first = Site::start();
    let mut second = first.start_beside();
    for site in [&mut first, &mut second] {
        queues(site);
        let url = site.client.url().to_owned();
        site.add_agent(&KINDS, &url);
    }
    let [one, other] = [&first, &second].map(|site| site.submit(KINDS[0], "k", "true"));
    assert_eq!(one, other, "servers count alike");
    let (ours, _) = made_for(&first, &one, OBJECTS[0]);
    let (theirs, object) = made_for(&second, &other, OBJECTS[0]);
    assert_eq!((made(&first, OBJECTS[0], &ours).len(), made(&second, OBJECTS[0], &theirs).len()), (1, 1));
    first.stop(&one);
    assert_eq!(first.until_end(&one).end.as_deref(), Some("stopped"));
    assert_eq!(made(&second, OBJECTS[0], &theirs)[0]["metadata"]["uid"], object["metadata"]["uid"]);
    assert_eq!((made(&second, "secrets", &theirs).len(), second.item(&other).end), (1, None));
    second.stop(&other);
    assert_eq!(second.until_end(&other).end.as_deref(), Some("stopped"));
    second.until_no_secret();
}
