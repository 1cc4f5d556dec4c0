//! The pods that everything is measured with.

use crate::wire::{Access, Protocol};
use anyhow::Result;
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Where they live.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod of about 2 KB that no scheduler takes.
pub fn pod(name: &str) -> Bytes {
    let environment: Vec<_> =
        (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value of middling length"})).collect();
    let limits = json!({"cpu": "2", "memory": "4Gi"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "team": "measurement"},
            "annotations": {"example.com/why": "to know how long it takes"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "registry.example.com/team/image:1.2.3",
            "command": ["python", "-m", "train", "--epochs", "10"], "env": environment,
            "resources": {"limits": limits, "requests": limits}}]}});
    pod.to_string().into()
}

/// Pods need the account of their namespace.
pub async fn service_account(access: &Access) -> Result<()> {
    let mut connection = access.connect(Protocol::Http1).await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    // A server without controllers needs a hand; where it is there already, this is refused.
    let _ = connection.call(Method::POST, accounts, Bytes::from_static(br#"{"metadata":{"name":"default"}}"#)).await;
    for _ in 0..1000 {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        if connection.call(Method::GET, path, Bytes::new()).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("the default service account was not made")
}

/// Creates pods by 32 clients.
pub async fn write_pods(access: &Access, prefix: &str, count: usize) -> Result<()> {
    let number = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..32 {
        let (mut connection, number, prefix) =
            (access.connect(Protocol::Http2).await?, number.clone(), prefix.to_owned());
        tasks.push(tokio::spawn(async move {
            loop {
                let mine = number.fetch_add(1, Ordering::Relaxed);
                if mine >= count {
                    return anyhow::Ok(());
                }
                connection.call(Method::POST, PODS, pod(&format!("{prefix}-{mine}"))).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}
