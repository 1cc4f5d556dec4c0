//! Long lists: 20,000 objects in pages that are one moment, while others write; and tokens that are too old.

use crate::support::{Running, config_map, namespace, soon};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, ObjectList, PatchParams, PostParams};
use std::collections::BTreeMap;

const NAMESPACE: &str = "many";
const OBJECTS: usize = 20_000;
/// kubectl's and kube-rs's page.
const PAGE: u32 = 500;
const WRITES_PER_PAGE: usize = 24;
/// As many requests at once as a busy controller has.
const AT_ONCE: usize = 64;

async fn fill(maps: &Api<ConfigMap>) {
    let creations = stream::iter(0..OBJECTS).map(|number| async move {
        let map = config_map(&format!("m-{number:05}"), &[], "original");
        maps.create(&PostParams::default(), &map).await.expect("created");
    });
    creations.buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Creations, changes and removals spread over the whole list, before and behind the page that is being read.
async fn disturb(maps: &Api<ConfigMap>, round: usize) {
    let writes = stream::iter(0..WRITES_PER_PAGE / 3).map(|number| async move {
        let place = (round * 977 + number * 2503) % OBJECTS;
        let new = config_map(&format!("m-{place:05}-new-{round}"), &[], "new");
        maps.create(&PostParams::default(), &new).await.expect("created");
        let change = kube::api::Patch::Merge(serde_json::json!({"data": {"value": format!("changed {round}")}}));
        let other = (place + 1) % OBJECTS;
        // Both may meet an object that an earlier round removed.
        let _ = maps.patch(&format!("m-{other:05}"), &PatchParams::default(), &change).await;
        let _ = maps.delete(&format!("m-{:05}", (place + 2) % OBJECTS), &DeleteParams::default()).await;
    });
    writes.buffer_unordered(AT_ONCE).collect::<()>().await;
}

fn value(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default()
}

async fn page(maps: &Api<ConfigMap>, token: Option<&str>) -> Result<ObjectList<ConfigMap>, kube::Error> {
    let mut params = ListParams::default().limit(PAGE).fields("metadata.name!=kube-root-ca.crt");
    if let Some(token) = token {
        params = params.continue_token(token);
    }
    maps.list(&params).await
}

// K-LIST-3 K-LIST-4
#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_objects_come_in_pages_of_one_moment_while_others_write() {
    let running = Running::start().await;
    let client = running.local();
    namespace(&client, NAMESPACE).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    fill(&maps).await;
    let over_tls: Api<ConfigMap> = Api::namespaced(running.remote().await, NAMESPACE);

    let mut current = page(&over_tls, None).await.expect("the first page");
    let moment = current.metadata.resource_version.clone();
    let (mut names, mut pages) = (Vec::new(), 0);
    loop {
        assert_eq!(current.metadata.resource_version, moment, "every page shows the first one's revision");
        assert!(current.items.len() <= PAGE as usize);
        assert!(current.items.iter().all(|map| value(map) == "original"), "a page shows a later change");
        names.extend(current.items.iter().map(|map| map.name_any()));
        pages += 1;
        let Some(token) = current.metadata.continue_.clone().filter(|token| !token.is_empty()) else { break };
        let (next, ()) = futures::join!(page(&over_tls, Some(&token)), disturb(&maps, pages));
        current = next.expect("the snapshot is still known");
    }
    let expected: Vec<String> = (0..OBJECTS).map(|number| format!("m-{number:05}")).collect();
    assert_eq!(pages, OBJECTS / PAGE as usize);
    assert!(
        names == expected,
        "{} names, the first difference at {:?}",
        names.len(),
        names.iter().zip(&expected).position(|(a, b)| a != b)
    );

    // A fresh list in one piece and one in pages agree about what is there now.
    let whole = list_all(&over_tls, None).await;
    let paged = list_all(&over_tls, Some(7_000)).await;
    assert!(whole == paged, "{} in one piece, {} in pages", whole.len(), paged.len());
    assert!(whole.keys().any(|name| name.contains("-new-")));
}

/// Names and versions of everything, in pages when a size is given.
async fn list_all(maps: &Api<ConfigMap>, limit: Option<u32>) -> BTreeMap<String, String> {
    let mut params = ListParams { limit, ..ListParams::default() };
    let mut all = BTreeMap::new();
    loop {
        let list = soon("a list", maps.list(&params)).await.expect("listed");
        all.extend(list.items.iter().map(|map| (map.name_any(), map.resource_version().unwrap_or_default())));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return all,
        }
    }
}

// K-LIST-3 K-LIST-4 K-LIST-7
#[tokio::test(flavor = "multi_thread")]
async fn a_token_from_before_a_restart_has_expired() {
    let first = Running::start().await;
    let client = first.local();
    namespace(&client, NAMESPACE).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, &[], "1")).await.expect("created");
    }
    let params = ListParams::default().limit(1);
    let begun = maps.list(&params).await.expect("the first page");
    assert!(begun.metadata.remaining_item_count.is_some_and(|count| count >= 2));
    let token = begun.metadata.continue_.expect("there is more");
    maps.delete("c", &DeleteParams::default()).await.expect("deleted, so that the moment is past");
    drop(maps);
    first.cluster.stop().await;
    let options = volley_cluster::Options::new(first.home.path(), ([127, 0, 0, 1], 0).into());
    let again = volley_cluster::Cluster::start(options).await.expect("starts again");
    let maps: Api<ConfigMap> = Api::namespaced(again.client("test"), NAMESPACE);
    let error = maps.list(&params.clone().continue_token(&token)).await.expect_err("the moment is forgotten");
    let kube::Error::Api(status) = error else { panic!("not a Status: {error}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let error = maps.list(&params.continue_token("bm90IGEgdG9rZW4")).await.expect_err("not a token");
    assert!(matches!(error, kube::Error::Api(status) if status.code == 400));
}
