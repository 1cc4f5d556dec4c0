//! Connections: how lists are cut into pages.
//!
//! A cursor is the id of the last row that was sent, in base64: the next page begins behind it, whatever was added or
//! deleted in between. Each noun declares its connections with `connection!`.

use async_graphql::SimpleObject;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A page is this long when the client does not say; W&B's clients page by 50 and list jobs without paging.
pub const PAGE_DEFAULT: usize = 100;
/// The longest page; artifact files are asked for by 5000.
pub const PAGE_MAX: usize = 5000;

#[derive(SimpleObject, Clone)]
pub struct PageInfo {
    pub has_next_page: bool,
    pub end_cursor: Option<String>,
}

impl PageInfo {
    pub fn last() -> PageInfo {
        PageInfo { has_next_page: false, end_cursor: None }
    }
}

pub fn cursor(key: impl std::fmt::Display) -> String {
    STANDARD.encode(format!("cursor:{key}"))
}

/// What `cursor` was made of; nothing if it was not made by us.
pub fn cursor_key(cursor: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(cursor).ok()?).ok()?;
    text.strip_prefix("cursor:").map(str::to_owned)
}

/// The position behind which a page begins, for lists that are numbered.
pub fn after(cursor: Option<&str>) -> i64 {
    cursor.and_then(cursor_key).and_then(|key| key.parse().ok()).unwrap_or(0)
}

pub fn length(first: Option<i32>) -> usize {
    first.and_then(|first| usize::try_from(first).ok()).unwrap_or(PAGE_DEFAULT).min(PAGE_MAX)
}

/// Cuts a list to a page: the caller reads one row more than the page has, to know whether there is a next one.
pub fn cut<T>(mut rows: Vec<T>, length: usize) -> (Vec<T>, bool) {
    let has_more = rows.len() > length;
    rows.truncate(length);
    (rows, has_more)
}

/// Declares a connection and its edge. `node` and `total` are the types that the schema gives them.
#[macro_export]
macro_rules! connection {
    ($connection:ident, $edge:ident, $node:ty $(, $extra:ident : $kind:ty)*) => {
        #[derive(async_graphql::SimpleObject)]
        pub struct $connection {
            pub edges: Vec<$edge>,
            pub page_info: $crate::graphql::page::PageInfo,
            $(pub $extra: $kind,)*
        }

        #[derive(async_graphql::SimpleObject)]
        pub struct $edge {
            pub node: $node,
            pub cursor: String,
        }

        impl $connection {
            /// A page of nodes with their cursors.
            pub fn page(nodes: Vec<(String, $node)>, has_next_page: bool $(, $extra: $kind)*) -> $connection {
                let end_cursor = nodes.last().map(|(cursor, _)| cursor.clone());
                $connection {
                    edges: nodes.into_iter().map(|(cursor, node)| $edge { node, cursor }).collect(),
                    page_info: $crate::graphql::page::PageInfo { has_next_page, end_cursor },
                    $($extra,)*
                }
            }
        }
    };
}
