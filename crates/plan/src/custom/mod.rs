//! Custom resources: what a CustomResourceDefinition may say, and what its schema does to the instances (spec K 13).
//!
//! The API server calls `definition` when a CRD is written, compiles each version's `schema` once, and runs every
//! instance through `schema` (prune, default, check), `instance`, `path` (table cells) and `scale`.

pub mod definition;
pub mod instance;
pub mod path;
pub mod scale;
pub mod schema;

mod convert;
mod defaulting;
mod embedded;
mod expression;
mod format;
mod keywords;
mod lists;
mod number;
mod pattern;
mod place;
mod prune;
mod rules;
mod selectable;
mod structural;
mod validate;
mod version;

#[cfg(test)]
mod definition_tests;
#[cfg(test)]
mod schema_tests;
