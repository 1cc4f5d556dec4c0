//! How long a start takes; the figure is printed, and only a gross loss fails.

use crate::support::*;
use std::time::{Duration, Instant};

/// When the pod could be spoken to, when its container's program ran, and when its end was known.
async fn start_and_finish(place: &Place) -> [Duration; 3] {
    let begun = Instant::now();
    let pod = place.pod().await;
    let made = begun.elapsed();
    pod.start_container(place.container("main", "exit 0")).await.unwrap();
    let started = begun.elapsed();
    assert_eq!(pod.wait("main").await.unwrap().code, 0);
    let ended = begun.elapsed();
    pod.remove().await.unwrap();
    [made, started, ended]
}

fn medians(times: &[[Duration; 3]]) -> String {
    let median = |stage: usize| {
        let mut sorted: Vec<Duration> = times.iter().map(|stages| stages[stage]).collect();
        sorted.sort();
        sorted[sorted.len() / 2]
    };
    format!("pod {:.1?}, container {:.1?}, exit {:.1?}", median(0), median(1), median(2))
}

#[tokio::test]
async fn twenty_pods_start_at_once() {
    must_be_root();
    let places: Vec<Place> = (0..20).map(|_| Place::new()).collect();
    let mut times = Vec::new();
    for place in &places[..10] {
        times.push(start_and_finish(place).await);
    }
    println!("medians, one after the other: {}", medians(&times));
    let begun = Instant::now();
    let starts = places.into_iter().map(|place| tokio::spawn(async move { start_and_finish(&place).await }));
    let mut times = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        times.push(start.await.unwrap());
    }
    println!("medians, twenty at once: {}; all removed after {:.1?}", medians(&times), begun.elapsed());
    assert!(times.iter().all(|stages| stages[2] < Duration::from_secs(30)), "{times:?}");
}
