//! The built-in controllers, the shell: what happened → `plan::control` → calls on the API.

use crate::apiserver::ApiServer;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs all controllers until `stop` is cancelled.
pub async fn run(_server: Arc<ApiServer>, _home: PathBuf, stop: CancellationToken) {
    stop.cancelled().await;
}
