//! The verb itself: it says where it listens, ends when it is told to, and begins again where it ended.

use crate::process::{Server, command, key, new_home, told};
use crate::wire::Connection;

const VIEWER: &str = "{ viewer { username } }";

fn username(address: &str, key: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let answer = runtime.block_on(async {
        let mut connection = Connection::open(address, key).await.expect("it listens");
        connection.graphql(VIEWER, serde_json::json!({})).await.expect("it answers")
    });
    answer["viewer"]["username"].as_str().expect("a name").to_owned()
}

#[test]
fn a_server_that_is_told_to_end_ends_well_and_starts_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = new_home(folder.path(), "home");
    let server = Server::start(&home, None);
    let key = key(&home);
    assert_eq!(username(&server.address, &key), "volley");
    let status = server.terminate();
    assert!(status.success(), "{status}");
    assert!(!home.join("server/volley.db-wal").exists(), "the log was folded into the file");
    let again = Server::start(&home, None);
    assert_eq!(username(&again.address, &key), "volley");
    assert!(again.terminate().success());
}

#[test]
fn an_address_beyond_this_machine_a_taken_port_and_a_taken_file_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = new_home(folder.path(), "home");
    let refused = command(&home, None).args(["--listen", "0.0.0.0:0"]).output().expect("volley runs");
    assert!(!refused.status.success() && told(&refused).contains("hint: --plain-http"), "{}", told(&refused));
    let server = Server::start(&home, None);
    let other = new_home(folder.path(), "other");
    let refused = command(&other, None).args(["--listen", &server.address]).output().expect("volley runs");
    assert!(!refused.status.success() && told(&refused).contains("failed to listen on"), "{}", told(&refused));
    // What a server remembers of a file would be out of date if another wrote it.
    let refused = command(&home, None).args(["--listen", "127.0.0.1:0"]).output().expect("volley runs");
    assert!(
        !refused.status.success() && told(&refused).contains("another server may be using it"),
        "{}",
        told(&refused)
    );
}
