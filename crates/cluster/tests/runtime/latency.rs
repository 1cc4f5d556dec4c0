//! How long a start takes; the figure is printed, and only a gross loss fails.

use crate::support::*;
use std::time::{Duration, Instant};

async fn start_and_finish(place: &Place) -> Duration {
    let begun = Instant::now();
    let pod = place.pod().await;
    assert_eq!(run_in(&pod, place.container("main", "exit 0")).await.code, 0);
    let taken = begun.elapsed();
    pod.remove().await.unwrap();
    taken
}

#[tokio::test]
async fn twenty_pods_start_at_once() {
    must_be_root();
    let places: Vec<Place> = (0..20).map(|_| Place::new()).collect();
    let mut times: Vec<Duration> = Vec::new();
    for place in &places[..5] {
        times.push(start_and_finish(place).await);
    }
    times.sort();
    println!("one pod after the other, shim to exit: median {:?}", times[times.len() / 2]);
    let begun = Instant::now();
    let tasks: Vec<_> =
        places.into_iter().map(|place| tokio::spawn(async move { start_and_finish(&place).await })).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await.unwrap());
    }
    times.sort();
    println!(
        "twenty pods at once, shim to exit: median {:?}, last {:?}, all removed after {:?}",
        times[10],
        times[19],
        begun.elapsed()
    );
    assert!(times[10] < Duration::from_secs(30));
}
