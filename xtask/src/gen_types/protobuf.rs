//! Reads the message structs of `k8s-pb`: field numbers, and the markers that upstream keeps in doc comments.

use super::plain;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Messages by lower-case name (`core.v1.podspec`): the crate spells some names its own way.
pub type Protobuf = BTreeMap<String, Message>;

#[derive(Default)]
pub struct Message {
    pub name: String,
    pub is_atomic: bool,
    pub fields: Vec<Field>,
}

pub struct Field {
    /// Plain spelling, see `plain`.
    pub name: String,
    pub number: u32,
    /// The name of the message type of a field that is one message, not a list of them.
    pub message: Option<String>,
    pub markers: Markers,
}

#[derive(Default, Clone)]
pub struct Markers {
    pub list_type: Option<String>,
    pub list_keys: Vec<String>,
    pub patch_key: Option<String>,
    pub patch_strategy: Option<String>,
    pub default: Option<String>,
    pub is_atomic: bool,
    pub is_optional: bool,
}

impl Markers {
    fn note(&mut self, comment: &str) {
        let comment = comment.trim();
        self.is_optional |= comment == "+optional";
        let Some((marker, value)) = comment.split_once('=') else { return };
        let value = value.to_owned();
        match marker {
            "+listType" => self.list_type = Some(value),
            "+listMapKey" => self.list_keys.push(value),
            "+patchMergeKey" => self.patch_key = Some(value),
            "+patchStrategy" => self.patch_strategy = Some(value),
            "+default" => self.default = Some(value),
            "+mapType" | "+structType" => self.is_atomic = value == "atomic",
            _ => {}
        }
    }
}

pub fn read(source: &Path) -> Result<Protobuf> {
    let mut messages = Protobuf::new();
    let meta = ("apimachinery/pkg/apis/meta/v1".to_owned(), "meta.v1".to_owned());
    let extensions = ("apiextensions_apiserver/pkg/apis/apiextensions/v1".to_owned(), "apiextensions.v1".to_owned());
    let mut packages = vec![meta, extensions];
    for (package, _) in super::ROOTS {
        packages.push((format!("api/{}", package.replace('.', "/")), (*package).to_owned()));
    }
    for (folder, package) in packages {
        let file = source.join(folder).join("mod.rs");
        if !file.exists() {
            continue;
        }
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        for message in messages_of(&text)? {
            messages.insert(format!("{package}.{}", message.name).to_lowercase(), message);
        }
    }
    Ok(messages)
}

/// The structs of one file. Line by line is enough: the file was written by a machine and formatted by rustfmt.
fn messages_of(text: &str) -> Result<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    let mut markers = Markers::default();
    let mut prost = "";
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("///") {
            markers.note(comment);
        } else if let Some(attribute) = line.strip_prefix("#[prost(") {
            prost = attribute;
        } else if let Some(name) = line.strip_prefix("pub struct ") {
            let name = name.trim_end_matches([' ', '{', '}']).to_owned();
            messages.push(Message { name, is_atomic: markers.is_atomic, fields: Vec::new() });
            markers = Markers::default();
        } else if let Some(field) =
            line.strip_prefix("pub ").and_then(|l| l.split_once(':')).filter(|_| !prost.is_empty())
        {
            let kind = if field.1.is_empty() { lines.peek().copied().unwrap_or("") } else { field.1 };
            let field = field_of(field.0, kind, prost, std::mem::take(&mut markers))?;
            messages.last_mut().context("a field outside of a struct")?.fields.push(field);
            prost = "";
        }
    }
    Ok(messages)
}

fn field_of(name: &str, kind: &str, prost: &str, markers: Markers) -> Result<Field> {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let tag = prost.split("tag = \"").nth(1).and_then(|t| t.split('"').next()).context("a field without tag")?;
    let is_one_message = prost.starts_with("message") && !prost.contains("repeated");
    let message = is_one_message.then(|| {
        let path = kind.trim_end_matches([',', '>']);
        path.rsplit([':', '<']).next().unwrap_or(path).to_owned()
    });
    Ok(Field { name: plain(name), number: tag.parse()?, message, markers })
}
