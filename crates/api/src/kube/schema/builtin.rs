//! The generated table of built-in types.

use super::Struct;

/// The built-in struct with this number; numbers come only from the table itself.
pub fn get(_id: u16) -> &'static Struct {
    static EMPTY: std::sync::OnceLock<Struct> = std::sync::OnceLock::new();
    EMPTY.get_or_init(Struct::default)
}
