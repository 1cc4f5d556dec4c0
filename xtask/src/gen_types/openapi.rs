//! Reads the JSON schemas in the sources of `k8s-openapi`: exact JSON names, types, which fields are required, kinds.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Schemas by short name (`core.v1.PodSpec`).
pub type Openapi = BTreeMap<String, Schema>;

pub struct Schema {
    pub fields: BTreeMap<String, Field>,
    /// `group/version/Kind`, when the type is a resource.
    pub kind: Option<String>,
}

pub struct Field {
    pub kind: JsonType,
    pub is_required: bool,
}

pub enum JsonType {
    Scalar(&'static str),
    Struct(String),
    List(Box<JsonType>),
    Map(Box<JsonType>),
}

impl JsonType {
    /// The struct that the type is made of, through lists and maps.
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            JsonType::Scalar(_) => None,
            JsonType::Struct(name) => Some(name),
            JsonType::List(items) | JsonType::Map(items) => items.struct_name(),
        }
    }

    /// `[]` for lists, `{}` for maps, `.Name` for a struct of the same package.
    pub fn spelling(&self, package: &str) -> String {
        match self {
            JsonType::Scalar(name) => (*name).to_owned(),
            JsonType::Struct(name) => match name.strip_prefix(package).filter(|rest| rest.starts_with('.')) {
                Some(local) => local.to_owned(),
                None => name.clone(),
            },
            JsonType::List(items) => format!("[]{}", items.spelling(package)),
            JsonType::Map(values) => format!("{{}}{}", values.spelling(package)),
        }
    }
}

/// Types that have their own spelling in JSON or on the wire instead of fields.
const SPECIAL: &[(&str, &str)] = &[
    ("resource::Quantity", "quantity"),
    ("intstr::IntOrString", "int-or-string"),
    ("v1::Time", "time"),
    ("v1::MicroTime", "micro-time"),
    ("v1::Duration", "duration"),
    ("v1::FieldsV1", "any"),
    ("runtime::RawExtension", "any"),
    ("v1::JSON", "any"),
    ("v1::JSONSchemaPropsOrArray", "schema-or-array"),
    ("v1::JSONSchemaPropsOrBool", "schema-or-bool"),
    ("v1::JSONSchemaPropsOrStringArray", "any"),
];

pub fn read(source: &Path) -> Result<Openapi> {
    let mut schemas = Openapi::new();
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            if let Some((name, schema)) = schema_of(&text).with_context(|| format!("in {}", path.display()))? {
                schemas.insert(name, schema);
            }
        }
    }
    Ok(schemas)
}

fn schema_of(text: &str) -> Result<Option<(String, Schema)>> {
    let Some((_, part)) = text.split_once("JsonSchema for ") else { return Ok(None) };
    let Some(name) = part.split('"').nth(1).and_then(short_name) else { return Ok(None) };
    let Some((_, body)) = part.split_once("json_schema!(") else { return Ok(None) };
    let schema = json_of(body)?;
    if schema["type"] != "object" {
        return Ok(None);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut fields = BTreeMap::new();
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = type_of(property).with_context(|| format!("{name}.{field}"))?;
        fields.insert(field.clone(), Field { kind, is_required: required.iter().any(|r| r == field) });
    }
    Ok(Some((name, Schema { fields, kind: kind_of(text) })))
}

fn short_name(openapi: &str) -> Option<String> {
    for (long, short) in [
        ("io.k8s.apimachinery.pkg.apis.meta.", "meta."),
        ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.", "apiextensions."),
        ("io.k8s.api.", ""),
    ] {
        if let Some(rest) = openapi.strip_prefix(long) {
            return Some(format!("{short}{rest}"));
        }
    }
    None
}

fn kind_of(text: &str) -> Option<String> {
    let constant = |name: &str| text.split(&format!("const {name}: &'static str = \"")).nth(1)?.split('"').next();
    Some(format!("{}/{}/{}", constant("GROUP")?, constant("VERSION")?, constant("KIND")?))
}

/// Turns the macro's body into JSON: drops sentences and trailing commas, spells references as `{"$ref": path}`.
fn json_of(body: &str) -> Result<Value> {
    let mut json = String::new();
    for line in body.lines().map(str::trim) {
        if line == "})" {
            json.push('}');
            break;
        }
        let is_sentence = line.starts_with("\"description\": \"");
        if is_sentence || line.starts_with("schema_obj") {
            continue;
        }
        if let Some((before, path)) = line.split_once("__gen.subschema_for::<") {
            let path = path.split('>').next().unwrap_or(path);
            let before = before.trim_end_matches('(').trim_end_matches("let mut schema_obj = ");
            json.push_str(&format!("{before}{{\"$ref\":\"{path}\"}}"));
            if line.ends_with(',') {
                json.push(',');
            }
            continue;
        }
        if line == "})," {
            json.push(',');
            continue;
        }
        if line.starts_with(['}', ']']) && json.ends_with(',') {
            json.pop();
        }
        json.push_str(line.strip_suffix("({").unwrap_or(line));
    }
    if json.ends_with(",}") {
        json.truncate(json.len() - 2);
        json.push('}');
    }
    serde_json::from_str(&json).with_context(|| format!("not JSON: {json}"))
}

fn type_of(schema: &Value) -> Result<JsonType> {
    if let Some(path) = schema["$ref"].as_str() {
        return reference(path);
    }
    let scalar = match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("byte")) => "bytes",
        (Some("string"), _) => "string",
        (Some("boolean"), _) => "boolean",
        (Some("integer"), Some("int32")) => "int32",
        (Some("integer"), _) => "int64",
        (Some("number"), _) => "number",
        (Some("array"), _) => return Ok(JsonType::List(Box::new(type_of(&schema["items"])?))),
        (Some("object"), _) if schema.get("additionalProperties").is_some() => {
            return Ok(JsonType::Map(Box::new(type_of(&schema["additionalProperties"])?)));
        }
        (Some("object"), _) | (None, None) => "any",
        other => bail!("unknown type {other:?}"),
    };
    Ok(JsonType::Scalar(scalar))
}

fn reference(path: &str) -> Result<JsonType> {
    if let Some((_, scalar)) = SPECIAL.iter().find(|(end, _)| path.ends_with(&format!("::{end}"))) {
        return Ok(JsonType::Scalar(scalar));
    }
    let name = path
        .strip_prefix("crate::apimachinery::pkg::apis::")
        .or_else(|| path.strip_prefix("crate::apiextensions_apiserver::pkg::apis::"))
        .or_else(|| path.strip_prefix("crate::api::"))
        .with_context(|| format!("unknown reference {path}"))?;
    Ok(JsonType::Struct(name.replace("::", ".")))
}
