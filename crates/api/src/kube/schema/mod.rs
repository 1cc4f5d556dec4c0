//! Shapes: what decoding, patching, applying and OpenAPI need to know of a type, for built-in and custom kinds alike.
//!
//! Built-in shapes come from a generated table (`builtin`); custom ones are made from a CRD's JSON schema (`json`).

pub mod builtin;
pub mod json;
pub mod structural;

use serde_json::Value;
use std::sync::Arc;

/// The shape of one value.
#[derive(Debug, Clone)]
pub enum Shape {
    Scalar(Scalar),
    Struct(StructRef),
    /// String keys to values of one shape. `atomic` maps are owned and replaced as one (server-side apply only).
    Map {
        values: Box<Shape>,
        atomic: bool,
    },
    List {
        items: Box<Shape>,
        list: ListType,
        patch: ListPatch,
    },
    /// Not described: anything goes. Maps in it are granular, lists atomic.
    Any,
}

/// Scalars, each with its own spelling on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    String,
    Int32,
    Int64,
    Number,
    Boolean,
    /// Base64 text.
    Bytes,
    /// RFC 3339, whole seconds, `Z`.
    Time,
    /// RFC 3339 with six decimals.
    MicroTime,
    /// Go duration text.
    Duration,
    Quantity,
    IntOrString,
}

/// How server-side apply owns the items of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// How a strategic merge patch treats a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListPatch {
    Replace,
    /// Items meet by this one key; `retain_keys` drops what `$retainKeys` does not list.
    MergeBy {
        key: Box<str>,
        retain_keys: bool,
    },
    /// Plain values are united.
    MergeValues,
}

/// A struct shape: one of the built-in table, or one made from a CRD.
#[derive(Debug, Clone)]
pub enum StructRef {
    Builtin(u16),
    Custom(Arc<Struct>),
}

impl StructRef {
    pub fn get(&self) -> &Struct {
        match self {
            StructRef::Builtin(id) => builtin::get(*id),
            StructRef::Custom(custom) => custom,
        }
    }
}

/// An object with declared fields.
#[derive(Debug, Clone, Default)]
pub struct Struct {
    /// OpenAPI name, for example `io.k8s.api.core.v1.PodSpec`; empty for the inner objects of a CRD.
    pub name: Box<str>,
    /// Sorted by `name`.
    pub fields: Vec<Field>,
    /// Undeclared fields are kept (`x-kubernetes-preserve-unknown-fields`); they have shape `Any`.
    pub open: bool,
    /// Owned and replaced as one by server-side apply.
    pub atomic: bool,
    /// `$retainKeys` applies to this map in strategic merge patches (Deployment strategy).
    pub retain_keys: bool,
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: Box<str>,
    pub shape: Shape,
    pub required: bool,
    /// A default that server-side apply needs to complete a list key (`protocol: TCP`).
    pub key_default: Option<Value>,
    /// Where the field is on the protobuf wire; built-in kinds only.
    pub proto: Option<Proto>,
}

/// Where a field of a built-in kind is on the protobuf wire, and how it is written there.
#[derive(Debug, Clone, Copy)]
pub struct Proto {
    pub number: u32,
    /// A zero value on the wire is an explicit value (Go pointer), not an absent one (spec K ).
    pub pointer: bool,
    /// Numbers of the inlined messages that hold the field, outermost first, zero-filled: their fields join the
    /// parent's in JSON (spec K A-1).
    pub via: [u8; 2],
    /// Set for the two unions inside a CRD's schema, whose shape is `Any`.
    pub union: Option<SchemaUnion>,
}

/// `JSONSchemaProps`, or something shorter in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaUnion {
    OrBool,
    OrArray,
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|f| f.name.as_ref().cmp(name)).ok().map(|i| &self.fields[i])
    }
}
