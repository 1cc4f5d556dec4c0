//! The operator as a part of this process: on the cluster beside it, without a socket between them.

use crate::settings::OperatorArgs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volley_cluster::Cluster;
use volley_operator::health::Health;
use volley_operator::lead::Election;
use volley_operator::manifests::{NAME, NAMESPACE};
use volley_operator::{Options, Rate};
use volley_plan::job::training::Gang;
use volley_plan::lease::Timing;

/// Reading a cluster takes milliseconds; one who waits for the start is not kept for longer than this.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Another that stands by takes over at once when this process ends well, and within the lease when it is killed. Rarer
/// than usual, because every renewal is a write on this machine's disk.
const TIMING: Timing =
    Timing { lease: Duration::from_secs(60), renew_deadline: Duration::from_secs(40), retry: Duration::from_secs(10) };

pub struct Operator {
    stop: CancellationToken,
    task: JoinHandle<()>,
    health: Arc<Health>,
}

impl Operator {
    /// Starts it; when this returns it has read the cluster, or stands by for another that works on it already.
    pub async fn start(cluster: &Cluster, options: Options) -> Operator {
        let stop = CancellationToken::new();
        let health = options.health.clone();
        let running = volley_operator::run(cluster.client("operator"), options, stop.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = running.await {
                tracing::error!(error = &error as &dyn std::error::Error, "the operator ended");
            }
        });
        if tokio::time::timeout(START_TIMEOUT, health.until_settled()).await.is_err() {
            tracing::warn!("the operator has not read the cluster within {START_TIMEOUT:?} and goes on with it");
        }
        Operator { stop, task, health }
    }

    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    pub async fn stop(self) {
        self.stop.cancel();
        // A panic has been logged where it happened.
        let _ = self.task.await;
    }
}

/// What the operator is told beside the cluster of this home, whose services may have names that start with a digit.
pub fn options(args: &OperatorArgs, home: &Path) -> Options {
    let mut options = args.options();
    options.training.accepts_digit_names = !options.training.is_strict;
    // All ranks start or none: the scheduler here is ours, and a job that holds half of its GPUs trains nothing.
    if args.gang_scheduler_name.is_none() && !options.training.is_strict {
        options.training.gang = Some(Gang::Volcano);
    }
    // Nobody shares this server, and calls to it cross no network: the limit that spares others would only slow gangs down.
    options.rate = Rate { per_second: 100_000, burst: 100_000 };
    // Whoever has claimed the home is this cluster's only such process, so it takes up what the one before it held.
    options.election = Some(Election {
        namespace: NAMESPACE.to_owned(),
        name: NAME.to_owned(),
        identity: format!("volley-up_{}", home.display()),
        timing: TIMING,
    });
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Compat;
    use volley_plan::job::training::Settings;

    #[test]
    fn strict_is_upstreams_behaviour_in_everything() {
        let args = OperatorArgs {
            compat: Some(Compat::Strict),
            gang_scheduler_name: Some("Volcano".to_owned()),
            ..OperatorArgs::default()
        };
        for strict in [options(&args, Path::new("/home")), args.options()] {
            assert!(strict.volcano.is_strict);
            assert_eq!(strict.training, Settings { gang: Some(Gang::Volcano), ..Settings::strict() });
        }
        let usual = options(&OperatorArgs::default(), Path::new("/home"));
        assert!(!usual.volcano.is_strict);
        let gang = Some(Gang::Volcano);
        assert_eq!(usual.training, Settings { accepts_digit_names: true, gang, ..Settings::default() });
        let none = OperatorArgs { gang_scheduler_name: Some("none".to_owned()), ..OperatorArgs::default() };
        assert_eq!(options(&none, Path::new("/home")).training.gang, None);
        assert_eq!(OperatorArgs::default().options().training, Settings::default());
    }
}
