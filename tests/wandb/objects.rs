//! Bytes in an S3-compatible store: one of other people, on loopback, that knows its keys.

use crate::support::{Engine, Running};
use bytes::Bytes;
use futures::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::net::TcpListener;
use volley_server::blobs::{self, Aws, Blobs};
use volley_server::database::Database;

const BUCKET: &str = "team-bytes";
const SECRET: &str = "a secret of forty letters and some digits";
/// Larger than what is sent in one piece.
const LARGE: usize = 23 << 20;

struct Store {
    /// Buckets are folders in it.
    folder: TempDir,
    address: SocketAddr,
}

impl Store {
    async fn start() -> Store {
        // As the program does before anything else.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("a bucket");
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).expect("a store"));
        service.set_auth(SimpleAuth::from_single("somebody", SECRET));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Store { folder, address }
    }

    fn aws(&self, secret: &str) -> Aws {
        let set = [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "somebody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ];
        Aws(set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// The bytes and the database that knows their signing key, in a folder that must outlive both.
async fn open(store: &Store) -> (TempDir, Blobs) {
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.expect("a database");
    let blobs = Blobs::open(&format!("s3://{BUCKET}/some/where"), &store.aws(SECRET), &database).await;
    (folder, blobs.expect("the bucket is there"))
}

fn pieces(bytes: &[u8]) -> impl futures::Stream<Item = Result<Bytes, axum::Error>> + Unpin + use<> {
    let pieces: Vec<_> = bytes.chunks(1 << 20).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces)
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_put_got_listed_and_deleted_whole_and_in_parts() {
    let store = Store::start().await;
    let (folder, blobs) = open(&store).await;
    let large: Vec<u8> = (0..LARGE).map(|at| u8::try_from(at % 251).expect("small")).collect();
    for (key, bytes) in [("files/1/1", b"small".as_slice()), ("files/1/2", &large), ("files/2/1", b"")] {
        let stored = blobs.put(key, pieces(bytes)).await.expect("stored");
        assert_eq!(stored.size, i64::try_from(bytes.len()).expect("small"));
        assert!(blobs.read(key).await.expect("read") == bytes, "{key}");
    }
    let part = blobs.get("files/1/2", Some((11 << 20..(11 << 20) + 5).into())).await.expect("a part");
    assert_eq!(part.bytes().await.expect("read"), large[11 << 20..(11 << 20) + 5]);
    // What broke off is not there, and what was there before is.
    let broken = stream::iter([Ok(Bytes::from(large.clone())), Err(axum::Error::new(std::io::Error::other("gone")))]);
    assert!(blobs.put("files/1/1", broken).await.is_err());
    assert_eq!(blobs.read("files/1/1").await.expect("read"), "small");

    let copy = folder.path().join("copy").display().to_string();
    let place = format!("s3://{BUCKET}/some/where");
    assert_eq!(blobs::copy(&place, &copy, &store.aws(SECRET)).await.expect("copied"), 3);
    let there = store.folder.path().join(BUCKET).join("some/where/files/1/2");
    assert!(there.is_file(), "it is under its prefix in the bucket");
    blobs.delete("files/1/1").await.expect("deleted");
    blobs.delete("files/1/1").await.expect("a second time is as good");
    assert!(blobs.read("files/1/1").await.is_err_and(|error| error.is_missing()));
    blobs.delete_all("files/1").await.expect("deleted");
    assert!(!there.exists() && blobs.read("files/2/1").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_will_not_have_us_is_told_when_the_server_starts() {
    let store = Store::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.expect("a database");
    let told =
        async |place: &str, aws: Aws| Blobs::open(place, &aws, &database).await.err().expect("refused").to_string();
    let wrong = told(&format!("s3://{BUCKET}"), store.aws("another secret")).await;
    assert!(wrong.starts_with("the bucket `team-bytes` refuses us; hint: AWS_ACCESS_KEY_ID"), "{wrong}");
    let missing = told("s3://nowhere/x", store.aws(SECRET)).await;
    assert!(missing.starts_with("there is no bucket `nowhere`; hint: make it"), "{missing}");
    assert!(!format!("{:?}", store.aws(SECRET)).contains(SECRET), "keys are never shown");
}

#[test]
fn artifacts_of_wandbs_clients_are_kept_in_a_bucket() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store = runtime.block_on(Store::start());
    let running = Running::start_in(Engine::Sqlite, |settings| {
        settings.blobs = Some(format!("s3://{BUCKET}/artifacts"));
        settings.aws = store.aws(SECRET);
    });
    running.script("artifact.py");
    let kept = store.folder.path().join(BUCKET).join("artifacts");
    assert!(kept.read_dir().is_ok_and(|mut entries| entries.next().is_some()), "nothing is in the bucket");
    assert!(!running.home.path().join("server/blobs").exists(), "nothing is on the disk");
}
