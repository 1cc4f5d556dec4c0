//! Temporary: runs a cluster in the foreground.
use volley_cluster::{Cluster, Options};
#[tokio::main]
async fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let home: std::path::PathBuf = std::env::args().nth(1).unwrap().into();
    let listen = std::env::args().nth(2).unwrap_or("127.0.0.1:0".into()).parse().unwrap();
    let t = std::time::Instant::now();
    let c = Cluster::start(Options { home: home.clone(), listen, names: vec![] }).await.unwrap();
    std::fs::write(home.join("kubeconfig"), c.kubeconfig()).unwrap();
    eprintln!("ready {} in {:?}", c.address(), t.elapsed());
    std::future::pending::<()>().await;
}
