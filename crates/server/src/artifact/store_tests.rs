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

async fn portfolio_of(database: &Database, artifacts: &[i64]) -> Collection {
    let now = Timestamp::UNIX_EPOCH;
    let mut write = database.write().await.unwrap();
    let kind = ensure_type(&mut write, 1, "t", now).await.unwrap();
    let portfolio = ensure_portfolio(&mut write, (1, kind), "chosen", now).await.unwrap();
    for id in artifacts {
        members::link(&mut write, portfolio.id, *id, now).await.unwrap();
        set_alias(&mut write, portfolio.id, "latest", *id).await.unwrap();
    }
    write.commit().await.unwrap();
    portfolio
}

async fn latest_in(database: &Database, collection: &Collection) -> Option<i64> {
    members::by_alias(database, collection, "latest").await.unwrap().map(|member| member.artifact.id)
}

// ART-11
#[tokio::test]
async fn when_the_latest_is_deleted_the_newest_that_is_left_is_the_latest() {
    let (_folder, database) = two_entities().await;
    let (collection, ids) = versions(&database, 1, "data", 3).await;
    // Linked last is the first version, so that the two collections have different orders.
    let portfolio = portfolio_of(&database, &[ids[1], ids[2], ids[0]]).await;
    let delete = async |id: i64| {
        let mut write = database.write().await.unwrap();
        mark_deleted(&mut write, id, Timestamp::UNIX_EPOCH).await.unwrap();
        write.commit().await.unwrap();
        (latest_in(&database, &collection).await, latest_in(&database, &portfolio).await)
    };
    assert_eq!(delete(ids[0]).await, (Some(ids[2]), Some(ids[2])), "it was the latest in the portfolio only");
    assert_eq!(delete(ids[2]).await, (Some(ids[1]), Some(ids[1])));
    assert_eq!(delete(ids[1]).await, (None, None));
}

// ART-11
#[tokio::test]
async fn when_a_collection_is_deleted_a_portfolio_keeps_a_latest() {
    let (_folder, database) = two_entities().await;
    let (_, stays) = versions(&database, 1, "stays", 1).await;
    let (gone, goes) = versions(&database, 1, "goes", 1).await;
    let portfolio = portfolio_of(&database, &[stays[0], goes[0]]).await;
    let mut write = database.write().await.unwrap();
    delete_collection(&mut write, gone.id, Timestamp::UNIX_EPOCH).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(latest_in(&database, &portfolio).await, Some(stays[0]));
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
