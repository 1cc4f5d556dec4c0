//! What the server says of itself: versions, and which features of the protocol it has.

use crate::graphql::scalars::Json;
use async_graphql::{Object, SimpleObject};

/// Features that a client switches on when it finds them here; what is missing counts as off.
const FEATURES: &[&str] = &[
    "STRUCTURED_CONSOLE_LOGS",
    "USE_ARTIFACT_WITH_ENTITY_AND_PROJECT_INFORMATION",
    "MARK_RUN_FILES_UPLOADED",
    "TOTAL_COUNT_IN_FILE_CONNECTION",
    "FILESTREAM_GZIP",
    "LARGE_FILENAMES",
    "ARTIFACT_TAGS",
    "CLIENT_IDS",
    "PROJECT_ARTIFACT_COLLECTION_MEMBERSHIP",
    "ARTIFACT_COLLECTION_MEMBERSHIP_FILES",
    "ARTIFACT_COLLECTIONS_FILTERING_SORTING",
    "ARTIFACT_REGISTRY_SEARCH",
    "INCLUDE_ARTIFACT_TYPES_IN_REGISTRY_CREATION",
    "ARTIFACT_MEMBERSHIP_IN_LINK_ARTIFACT_RESPONSE",
    "SWEEPS_QUERY_FILTERING",
];

#[derive(Default)]
pub struct ServerQuery;

#[Object]
impl ServerQuery {
    async fn server_info(&self) -> Option<ServerInfo> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Some(ServerInfo {
            // Above any client that there is, so that none is told to upgrade or to refuse.
            cli_version_info: Some(Json(
                serde_json::json!({ "max_cli_version": "99.0.0", "min_cli_version": "0.10.0" }),
            )),
            latest_local_version_info: Some(LocalVersionInfo {
                out_of_date: false,
                latest_version_string: version.clone(),
                version_on_this_instance_string: version,
            }),
            features: Some(FEATURES.iter().map(|name| Some(ServerFeature::on(name))).collect()),
        })
    }
}

#[derive(SimpleObject)]
pub struct ServerInfo {
    cli_version_info: Option<Json>,
    latest_local_version_info: Option<LocalVersionInfo>,
    features: Option<Vec<Option<ServerFeature>>>,
}

#[derive(SimpleObject)]
pub struct LocalVersionInfo {
    out_of_date: bool,
    latest_version_string: String,
    version_on_this_instance_string: String,
}

#[derive(SimpleObject)]
pub struct ServerFeature {
    name: String,
    is_enabled: bool,
}

impl ServerFeature {
    fn on(name: &str) -> ServerFeature {
        ServerFeature { name: name.to_owned(), is_enabled: true }
    }
}

/// Messages to every client; there are none, but older clients ask.
#[derive(SimpleObject, Default)]
pub struct ServerSettings {
    server_messages: Vec<ServerMessage>,
}

#[derive(SimpleObject)]
pub struct ServerMessage {
    utf_text: Option<String>,
    plain_text: Option<String>,
    html_text: Option<String>,
    message_type: Option<String>,
    message_level: Option<i32>,
}
