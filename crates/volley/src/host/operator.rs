//! The operator as a part of this process: on the cluster beside it, without a socket between them.

use crate::settings::{Compat, OperatorArgs};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use volley_cluster::Cluster;
use volley_operator::Options;
use volley_operator::health::Health;
use volley_plan::job::training::{Gang, Settings};

/// Reading a cluster takes milliseconds; one who waits for the start is not kept for longer than this.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Operator {
    stop: CancellationToken,
    task: JoinHandle<()>,
    health: Arc<Health>,
}

impl Operator {
    /// Starts it; it has read the cluster when this returns.
    pub async fn start(cluster: &Cluster, args: &OperatorArgs) -> Operator {
        let (options, stop) = (options(args), CancellationToken::new());
        let health = options.health.clone();
        let running = volley_operator::run(cluster.client("operator"), options, stop.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = running.await {
                tracing::error!(error = &error as &dyn std::error::Error, "the operator ended");
            }
        });
        if tokio::time::timeout(START_TIMEOUT, health.until_working()).await.is_err() {
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

fn options(args: &OperatorArgs) -> Options {
    let mut options = Options::default();
    let is_strict = args.compat == Some(Compat::Strict);
    options.volcano.is_strict = is_strict;
    options.training = match is_strict {
        true => Settings::strict(),
        false => Settings { accepts_digit_names: true, ..Settings::default() },
    };
    options.training.gang = args.gang_scheduler_name.as_deref().and_then(Gang::parse);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_is_upstreams_behaviour_in_everything() {
        let args = OperatorArgs { compat: Some(Compat::Strict), gang_scheduler_name: Some("Volcano".to_owned()) };
        let strict = options(&args);
        assert!(strict.volcano.is_strict && strict.training.is_strict && !strict.training.accepts_digit_names);
        assert_eq!(strict.training.gang, Some(Gang::Volcano));
        let usual = options(&OperatorArgs::default());
        assert!(!usual.volcano.is_strict && !usual.training.is_strict && usual.training.accepts_digit_names);
        assert_eq!(usual.training.gang, None);
    }
}
