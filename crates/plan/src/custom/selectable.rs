//! Field paths inside a schema (`.spec.color`, `.spec['a-b']`), as selectable fields and rules name them.

use serde_json::Value;

/// The first name of a path and the schema that it leads to, or why it leads nowhere.
pub(super) fn find<'a>(path: &str, schema: &'a Value, takes_brackets: bool) -> Result<(String, &'a Value), String> {
    let mut at = schema;
    let mut root = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.chars().next() {
            Some('[') if !takes_brackets => return Err("array notation is not allowed".to_owned()),
            Some('[') => quoted_name(&rest[1..])?,
            Some('.') => plain_name(&rest[1..])?,
            _ => return Err(format!("expected [ or . but got: {}", until_delimiter(rest))),
        };
        at = step(at, &name)?;
        if root.is_empty() {
            root = name;
        }
        rest = after;
    }
    Ok((root, at))
}

fn until_delimiter(source: &str) -> &str {
    &source[..source.find(['.', '[', ']']).unwrap_or(source.len())]
}

fn plain_name(source: &str) -> Result<(String, &str), String> {
    let name = until_delimiter(source);
    if name.is_empty() {
        return Err("unexpected end of JSON path".to_owned());
    }
    Ok((name.to_owned(), &source[name.len()..]))
}

fn quoted_name(source: &str) -> Result<(String, &str), String> {
    let Some(inner) = source.strip_prefix('\'') else {
        return Err(format!("expected single quoted string but got {}", until_delimiter(source)));
    };
    let mut name = String::new();
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' => {
                let after = inner[at + 1..].strip_prefix(']').ok_or("unexpected end of JSON path")?;
                return Ok((name, after));
            }
            other => name.push(other),
        }
    }
    Err("unexpected end of JSON path".to_owned())
}

fn step<'a>(schema: &'a Value, name: &str) -> Result<&'a Value, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    match (schema.get("properties"), schema.get("additionalProperties")) {
        (Some(properties), _) => properties.get(name).ok_or_else(nowhere),
        (None, Some(additional)) => Ok(additional),
        (None, None) => Err(nowhere()),
    }
}
