//! The CRDs of Volcano's kinds, held against the rules for CRDs and against what the controllers write.

use super::policy;
use super::world::Cluster;
use crate::custom::definition as crd;
use crate::custom::schema::Schema;
use serde_json::json;
use volley_api::volcano::definition::definitions;
use volley_api::volcano::kinds::KINDS;

// API-1, API-2, API-4
#[test]
fn every_definition_is_a_good_one() {
    for (mut definition, row) in definitions().into_iter().zip(KINDS) {
        assert_eq!(definition["metadata"]["name"], format!("{}.{}", row.plural, row.group));
        crd::fill(&mut definition);
        let texts: Vec<String> = crd::check(&definition).iter().map(ToString::to_string).collect();
        assert_eq!(texts, Vec::<String>::new(), "{}", row.kind);
        // An annotation of `kubectl apply` holds at most a quarter of a megabyte.
        assert!(definition.to_string().len() < 256 * 1024, "{}", row.kind);
        assert_eq!(definition["spec"]["versions"][0].get("subresources").is_some(), row.has_status);
    }
}

// API-21
#[test]
fn nothing_that_the_controllers_write_is_pruned() {
    let mut spec = policy("PodFailed", "RestartJob");
    spec["plugins"] = json!({"svc": [], "pytorch": null});
    spec["networkTopology"] = json!({"mode": "hard", "highestTierAllowed": 1});
    spec["tasks"][1]["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 1});
    let mut cluster = Cluster::running(spec);
    cluster.end("j-worker-1", 1);
    let group = cluster.world.raw("PodGroup", "j-u").clone();
    cluster.step();
    for object in [group, cluster.job().clone()] {
        let row = KINDS.iter().position(|row| row.kind == object["kind"]).unwrap();
        let schema = &definitions()[row]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let schema = Schema::compile(schema).unwrap();
        let mut kept = object.clone();
        assert_eq!(schema.prune(&mut kept), Vec::<String>::new());
        let texts: Vec<String> = schema.check(&object, None).iter().map(ToString::to_string).collect();
        assert_eq!(texts, Vec::<String>::new());
    }
}
