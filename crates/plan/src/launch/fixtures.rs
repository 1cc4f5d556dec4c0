//! The launch of the specification's conformance vectors (section 7.9).

use super::order::{Order, RunSpec, Station};
use serde_json::{Value, json};

pub fn order(config: Value) -> Order {
    let spec = json!({"entity": "team", "project": "Proj_1", "docker": {"docker_image": "repo/img:v1"},
        "resource": "kubernetes", "author": "alice"});
    Order {
        item: "RQI1".into(),
        key: "k1k2k3k4k5k6".into(),
        attempt: 1,
        queue: "q".into(),
        queue_entity: "team".into(),
        priority: 2,
        run_id: "ab12cd34".into(),
        spec: RunSpec::read(&spec).unwrap(),
        config,
        queue_config: None,
        template: None,
        image: Some("repo/img:v1".into()),
        is_image_job: true,
        job: None,
        code: None,
    }
}

pub fn station() -> Station {
    Station { agent: "agent-abc".into(), base_url: "https://volley.example".into(), ..Station::default() }
}
