//! Two replicas of the operator: one leads, and the other takes over.

use crate::world::{JOBS, Operator, PODS, World, settings, vcjob};
use serde_json::json;
use volley_api::kube::text;
use volley_operator::health::Stage;
use volley_operator::lead::Election;
use volley_plan::lease::USUAL;

fn replica(world: &World, identity: &str) -> Operator {
    let namespace = world.namespace.clone();
    let election = Election { namespace, name: "operator".to_owned(), identity: identity.to_owned(), timing: USUAL };
    let options = volley_operator::Options { election: Some(election), ..settings() };
    Operator::start(world.client(identity), options)
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_leader_is_killed_the_other_goes_on() {
    let world = World::bare().await;
    let first = replica(&world, "first");
    world.until_true("the first leads", || first.health.stage() == Stage::Working).await;
    let second = replica(&world, "second");
    world.create(JOBS, vcjob("j", &[("a", 2)], json!({}))).await;
    let names = ["j-a-0", "j-a-1"];
    world.until_pods(&names).await;
    assert_eq!(second.health.stage(), Stage::Standby);
    first.kill().await;
    world.set_pods(&names, "Running", 0).await;
    world.until_phase("j", "Running").await;
    assert_eq!(second.health.stage(), Stage::Working);
    let made = world.list(PODS).iter().map(|pod| text(pod, "metadata.uid").to_owned()).collect::<Vec<_>>();
    assert_eq!(made.len(), 2);
    second.stop().await;
    world.stop().await;
}
