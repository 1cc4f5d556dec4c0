//! Versions that go, and bytes that several artifacts have.

use super::*;

async fn two_entities() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
    let mut write = database.write().await.unwrap();
    let setup = "INSERT INTO entities (id, name, is_team, created_at) VALUES (1, 'a', 0, 0), (2, 'b', 0, 0); \
                 INSERT INTO users (id, username, name, is_admin, is_service, entity_id, created_at) VALUES (1, 'u', 'u', 1, 0, 1, 0); \
                 INSERT INTO projects (id, entity_id, name, folded, created_at) VALUES (1, 1, 'p', 'p', 0), (2, 2, 'p', 'p', 0)";
    write.script(setup.to_owned()).await.unwrap();
    write.commit().await.unwrap();
    (folder, database)
}

/// Commits some versions of a collection; gives it, and their ids.
async fn versions(database: &Database, project: i64, name: &str, count: usize) -> (Collection, Vec<i64>) {
    let now = Timestamp::UNIX_EPOCH;
    let mut write = database.write().await.unwrap();
    let kind = ensure_type(&mut write, project, "t", now).await.unwrap();
    let collection = ensure_collection(&mut write, project, kind, name, now).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..count {
        let new = NewArtifact {
            collection: collection.id,
            client_id: None,
            digest: "d",
            description: None,
            metadata: None,
            ttl: None,
            run: None,
            user: 1,
            history_step: None,
            wanted: "[]",
            tags: "[]",
            distributed_id: None,
        };
        let id = insert(&mut write, &new, now).await.unwrap();
        let made = write.one(artifacts("WHERE a.id = $1"), args![id]).await.unwrap();
        commit(&mut write, &artifact(&made).unwrap(), 0, 0, now).await.unwrap();
        set_alias(&mut write, collection.id, "latest", id).await.unwrap();
        ids.push(id);
    }
    write.commit().await.unwrap();
    (collection, ids)
}

// ART-8
#[tokio::test]
async fn bytes_are_found_where_they_are_said_to_be_and_never_at_another_entity() {
    let (_folder, database) = two_entities().await;
    let (_, own) = versions(&database, 1, "data", 3).await;
    let (_, strange) = versions(&database, 2, "data", 1).await;
    let mut write = database.write().await.unwrap();
    for id in [strange[0], own[1], own[2]] {
        write.run("INSERT INTO blobs (artifact_id, md5, size) VALUES ($1, 'm', 1)", args![id]).await.unwrap();
    }
    write.commit().await.unwrap();
    let home = async |first: i64| home_of_blob(&database, 1, "m", first).await.unwrap();
    assert_eq!(home(own[2]).await, Some(own[2]));
    assert_eq!(home(own[0]).await, Some(own[1]), "the oldest that has them");
    assert_eq!(home(strange[0]).await, Some(own[1]));
    assert_eq!(home_of_blob(&database, 1, "other", own[0]).await.unwrap(), None);
}
