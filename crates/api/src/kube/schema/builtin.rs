//! The generated table of built-in types (`cargo run -p xtask -- gen types` writes `builtin.txt`).
//!
//! A line at the margin opens a struct: `<name> [kind=<group>/<version>/<Kind>] [atomic] [retain]`. Each indented line
//! is a field: `<json name> <type> [<number>] [flags]`. `[]` and `{}` before a type make lists and maps, `.Name` is a
//! struct of the same package. Opening the table only finds the structs; a struct is read when it is first asked for.

use super::{Field, ListPatch, ListType, Proto, Scalar, SchemaUnion, Shape, Struct, StructRef};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("builtin.txt");

/// How packages are shortened in the table.
const PACKAGES: [(&str, &str); 3] = [
    ("meta.", "io.k8s.apimachinery.pkg.apis.meta."),
    ("apiextensions.", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."),
    ("", "io.k8s.api."),
];

/// The built-in struct with this number; numbers come only from the table itself.
pub fn get(id: u16) -> &'static Struct {
    let entry = &index().entries[usize::from(id)];
    entry.parsed.get_or_init(|| entry.parse())
}

/// The shape of a built-in kind; DeleteOptions and Status belong to every group.
pub fn of(group: &str, version: &str, kind: &str) -> Option<StructRef> {
    let key = if matches!(kind, "DeleteOptions" | "Status") { ("", "v1", kind) } else { (group, version, kind) };
    index().kinds.get(&key).map(|id| StructRef::Builtin(*id))
}

/// The kinds that a version of a group has.
pub fn kinds(group: &str, version: &str) -> impl Iterator<Item = &'static str> {
    let of_version = move |key: &&(&str, &str, &'static str)| (key.0, key.1) == (group, version);
    index().kinds.keys().filter(of_version).map(|key| key.2)
}

/// The struct with this OpenAPI name, for example `io.k8s.api.core.v1.PodSpec`.
pub fn named(openapi_name: &str) -> Option<StructRef> {
    let (short, rest) = PACKAGES.iter().find_map(|(short, long)| Some((short, openapi_name.strip_prefix(long)?)))?;
    index().id(&[*short, rest]).map(StructRef::Builtin)
}

/// The kinds that a struct is the shape of, as (group, version, kind).
pub fn kind_of(id: u16) -> Option<(&'static str, &'static str, &'static str)> {
    index().entries.get(usize::from(id))?.kind
}

struct Index {
    /// Sorted by name, as the table is.
    entries: Vec<Entry>,
    kinds: BTreeMap<(&'static str, &'static str, &'static str), u16>,
}

struct Entry {
    name: &'static str,
    kind: Option<(&'static str, &'static str, &'static str)>,
    is_atomic: bool,
    retains_keys: bool,
    body: &'static str,
    parsed: OnceLock<Struct>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index::open(TABLE))
}

impl Index {
    fn open(table: &'static str) -> Index {
        let mut entries = Vec::new();
        let mut kinds = BTreeMap::new();
        let mut rest = table;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            if line.starts_with('#') {
                continue;
            }
            let end = body_length(rest);
            let entry = Entry::open(line, &rest[..end]);
            rest = &rest[end..];
            if let Some(kind) = entry.kind {
                kinds.insert(kind, entries.len() as u16);
            }
            entries.push(entry);
        }
        Index { entries, kinds }
    }

    /// The number of the struct whose short name is these parts in a row.
    fn id(&self, parts: &[&str]) -> Option<u16> {
        let wanted = || parts.iter().flat_map(|part| part.bytes());
        let found = self.entries.binary_search_by(|entry| entry.name.bytes().cmp(wanted()));
        found.ok().map(|id| id as u16)
    }
}

/// The bytes of the indented lines that follow a struct's first line.
fn body_length(text: &str) -> usize {
    let mut end = 0;
    while text[end..].starts_with(' ') {
        end += text[end..].find('\n').map_or(text.len() - end, |line| line + 1);
    }
    end
}

impl Entry {
    fn open(line: &'static str, body: &'static str) -> Entry {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut entry =
            Entry { name, kind: None, is_atomic: false, retains_keys: false, body, parsed: OnceLock::new() };
        for word in words {
            match word.split_once('=') {
                Some(("kind", kind)) => entry.kind = gvk(kind),
                _ => match word {
                    "atomic" => entry.is_atomic = true,
                    "retain" => entry.retains_keys = true,
                    _ => {}
                },
            }
        }
        entry
    }

    fn parse(&self) -> Struct {
        let (short, long) = PACKAGES.iter().find(|(short, _)| self.name.starts_with(short)).unwrap_or(&PACKAGES[2]);
        let package = self.name.rsplit_once('.').map_or("", |(package, _)| package);
        Struct {
            name: format!("{long}{}", &self.name[short.len()..]).into(),
            fields: self.body.lines().map(|line| field(line.trim_start(), package)).collect(),
            open: false,
            atomic: self.is_atomic,
            retain_keys: self.retains_keys,
        }
    }
}

fn gvk(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let (group, rest) = text.split_once('/')?;
    let (version, kind) = rest.split_once('/')?;
    Some((group, version, kind))
}

/// The flags of one field line, before they are given to the field or its shape.
#[derive(Default)]
struct Flags<'a> {
    number: u32,
    via: [u8; 2],
    is_pointer: bool,
    is_atomic: bool,
    is_set: bool,
    map_keys: Option<&'a str>,
    merges: bool,
    merge_key: Option<&'a str>,
    retains_keys: bool,
    is_required: bool,
    default: Option<&'a str>,
}

impl<'a> Flags<'a> {
    fn read(words: impl Iterator<Item = &'a str>) -> Flags<'a> {
        let mut flags = Flags::default();
        for word in words {
            let (flag, value) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
            match flag {
                "via" => flags.via = via(value.unwrap_or_default()),
                "pointer" => flags.is_pointer = true,
                "atomic" => flags.is_atomic = true,
                "set" => flags.is_set = true,
                "map" => flags.map_keys = value,
                "merge" => (flags.merges, flags.merge_key) = (true, value),
                "retain" => flags.retains_keys = true,
                "required" => flags.is_required = true,
                "default" => flags.default = value,
                number => flags.number = number.parse().unwrap_or(0),
            }
        }
        flags
    }

    fn list(&self) -> ListType {
        match self.map_keys {
            Some(keys) => ListType::Map(keys.split(',').map(Box::from).collect()),
            None if self.is_set => ListType::Set,
            None => ListType::Atomic,
        }
    }

    fn patch(&self) -> ListPatch {
        match self.merge_key {
            Some(key) => ListPatch::MergeBy { key: key.into(), retain_keys: self.retains_keys },
            None if self.merges => ListPatch::MergeValues,
            None => ListPatch::Replace,
        }
    }
}

fn via(text: &str) -> [u8; 2] {
    let mut numbers = text.split('/').map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}

fn field(line: &str, package: &str) -> Field {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let kind = words.next().unwrap_or_default();
    let flags = Flags::read(words);
    let union = match kind {
        "schema-or-bool" => Some(SchemaUnion::OrBool),
        "schema-or-array" => Some(SchemaUnion::OrArray),
        _ => None,
    };
    let proto = Proto { number: flags.number, pointer: flags.is_pointer, via: flags.via, union };
    Field {
        name: name.into(),
        shape: shape(kind, package, &flags),
        required: flags.is_required,
        key_default: flags.default.and_then(|json| serde_json::from_str(json).ok()),
        proto: (flags.number > 0).then_some(proto),
    }
}

fn shape(kind: &str, package: &str, flags: &Flags) -> Shape {
    if let Some(items) = kind.strip_prefix("[]") {
        return Shape::List { items: Box::new(shape(items, package, flags)), list: flags.list(), patch: flags.patch() };
    }
    if let Some(values) = kind.strip_prefix("{}") {
        return Shape::Map { values: Box::new(shape(values, package, &Flags::default())), atomic: flags.is_atomic };
    }
    if let Some(scalar) = scalar(kind) {
        return Shape::Scalar(scalar);
    }
    let local = if kind.starts_with('.') { package } else { "" };
    index().id(&[local, kind]).map_or(Shape::Any, |id| Shape::Struct(StructRef::Builtin(id)))
}

fn scalar(kind: &str) -> Option<Scalar> {
    Some(match kind {
        "string" => Scalar::String,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "number" => Scalar::Number,
        "boolean" => Scalar::Boolean,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "micro-time" => Scalar::MicroTime,
        "duration" => Scalar::Duration,
        "quantity" => Scalar::Quantity,
        "int-or-string" => Scalar::IntOrString,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "builtin_tests.rs"]
mod tests;
