//! The server alone, for trying clients against it: `cargo run -p volley-server --example serve -- FOLDER PORT [DATABASE]`.

use std::net::{Ipv4Addr, SocketAddr};
use volley_server::{Server, Settings};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("a folder for the data")?.into();
    let port = args.next().ok_or("a port")?.parse()?;
    let server = Server::start(Settings {
        folder,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        database: args.next(),
        blobs: None,
        aws: Default::default(),
        public_url: None,
        first_user: "alice".to_owned(),
        first_key: std::env::var("WANDB_API_KEY").ok(),
        rates: Default::default(),
        events: Default::default(),
    })
    .await?;
    println!("listening on {}", server.url());
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
