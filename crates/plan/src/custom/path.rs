//! JSON paths of printer columns and selectable fields: the part of client-go's dialect that CRDs use (no steps in
//! slices, unions, searches or patterns), and the cells that they give (K-CR-5). A path that cannot be followed gives no value,
//! never an error.

use super::number::number_text;
use jiff::Timestamp;
use serde_json::Value;
use volley_api::kube::time;

/// Paths come from users and are evaluated for every row; wildcards over a large object stop here.
const RESULTS_MAX: usize = 10_000;

/// A parsed JSON path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Wildcard,
    Index(i64),
    /// From here to before there; either may be left out.
    Slice(Option<i64>, Option<i64>),
    Filter {
        left: Vec<Step>,
        right: Option<(Operator, Operand)>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Literal(Value),
    Path(Vec<Step>),
}

impl JsonPath {
    /// Parses a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(source: &str) -> Option<JsonPath> {
        Some(JsonPath { steps: parse_steps(source.trim().trim_start_matches(['$', '@']))? })
    }

    /// The values at the path; `None` when it cannot be followed (a list index out of range, a filter on no list).
    pub fn find<'a>(&self, object: &'a Value) -> Option<Vec<&'a Value>> {
        follow(&self.steps, vec![object])
    }
}

fn parse_steps(source: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing_bracket(inner)?;
            steps.push(parse_bracket(&inner[..end])?);
            rest = &inner[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.')?;
        let (name, after) = take_name(rest);
        match name.as_str() {
            // A lone dot is the object itself; `.[0]` is written too.
            "" if after.is_empty() || after.starts_with('[') => {}
            "" => return None,
            "*" => steps.push(Step::Wildcard),
            _ => steps.push(Step::Field(name)),
        }
        rest = after;
    }
    Some(steps)
}

/// A field name up to the next `.` or `[`; a backslash takes the next character as it is.
fn take_name(source: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = source.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' => return (name, &source[at..]),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Where the bracket closes, skipping quoted text and inner brackets.
fn closing_bracket(source: &str) -> Option<usize> {
    let mut depth = 0;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, character) in source.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == '\\' {
            is_escaped = true;
        } else if quote == Some(character) {
            quote = None;
        } else if quote.is_none() {
            match character {
                '\'' | '"' => quote = Some(character),
                '[' => depth += 1,
                ']' if depth == 0 => return Some(at),
                ']' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

fn parse_bracket(source: &str) -> Option<Step> {
    let source = source.trim();
    if source == "*" {
        return Some(Step::Wildcard);
    }
    if let Some(filter) = source.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return parse_filter(filter.trim());
    }
    if let Some(name) = unquote(source) {
        return Some(Step::Field(name));
    }
    let Some((start, end)) = source.split_once(':') else { return source.parse().ok().map(Step::Index) };
    let bound = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    Some(Step::Slice(bound(start)?, bound(end)?))
}

fn unquote(source: &str) -> Option<String> {
    let quote = source.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = source.strip_prefix(quote)?.strip_suffix(quote)?;
    Some(inner.replace("\\'", "'").replace("\\\"", "\"").replace("\\\\", "\\"))
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

fn parse_filter(source: &str) -> Option<Step> {
    let operator_at = source.find(['!', '<', '>', '=']);
    let Some(at) = operator_at else { return Some(Step::Filter { left: parse_relative(source)?, right: None }) };
    let (spelling, operator) = OPERATORS.iter().find(|(spelling, _)| source[at..].starts_with(spelling))?;
    let left = parse_relative(source[..at].trim())?;
    let right = parse_operand(source[at + spelling.len()..].trim())?;
    Some(Step::Filter { left, right: Some((*operator, right)) })
}

fn parse_relative(source: &str) -> Option<Vec<Step>> {
    parse_steps(source.strip_prefix('@').unwrap_or(source))
}

fn parse_operand(source: &str) -> Option<Operand> {
    if let Some(text) = unquote(source) {
        return Some(Operand::Literal(text.into()));
    }
    if source.starts_with('@') {
        return parse_relative(source).map(Operand::Path);
    }
    serde_json::from_str(source)
        .ok()
        .filter(|literal: &Value| !literal.is_object() && !literal.is_array())
        .map(Operand::Literal)
}

fn follow<'a>(steps: &[Step], mut values: Vec<&'a Value>) -> Option<Vec<&'a Value>> {
    for step in steps {
        values = take_step(step, &values)?;
        values.truncate(RESULTS_MAX);
    }
    Some(values)
}

fn take_step<'a>(step: &Step, values: &[&'a Value]) -> Option<Vec<&'a Value>> {
    let mut found = Vec::new();
    for value in values.iter().copied() {
        match step {
            Step::Field(name) => found.extend(value.get(name)),
            Step::Wildcard => found.extend(children(value)),
            Step::Index(_) | Step::Slice(..) | Step::Filter { .. } if value.is_null() => {}
            Step::Index(index) => found.push(value.as_array()?.get(resolve(*index, value)?)?),
            Step::Slice(start, end) => {
                let start = resolve(start.unwrap_or(0), value)?;
                let end = end.map_or_else(|| Some(value.as_array()?.len()), |end| resolve(end, value))?;
                found.extend(value.as_array()?.get(start..end)?);
            }
            Step::Filter { left, right } => {
                for item in value.as_array()? {
                    if passes(item, left, right.as_ref())? {
                        found.push(item);
                    }
                }
            }
        }
    }
    Some(found)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// A list position, counted from the end when negative.
fn resolve(index: i64, list: &Value) -> Option<usize> {
    let length = i64::try_from(list.as_array()?.len()).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

fn passes(item: &Value, left: &[Step], right: Option<&(Operator, Operand)>) -> Option<bool> {
    let lefts = follow(left, vec![item])?;
    let Some((operator, operand)) = right else { return Some(!lefts.is_empty()) };
    let rights = match operand {
        Operand::Literal(literal) => vec![literal],
        Operand::Path(steps) => follow(steps, vec![item])?,
    };
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Some(false),
        ([left], [right]) => compare(left, *operator, right),
        _ => None,
    }
}

/// Values of different kinds cannot be compared, which ends the whole search.
fn compare(left: &Value, operator: Operator, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?)?,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        _ => return None,
    };
    Some(match operator {
        Operator::Equal => order.is_eq(),
        Operator::NotEqual => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    })
}

/// One column of a custom resource's table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    path: Option<JsonPath>,
}

impl Column {
    fn new(name: &str, kind: &str, path: &str, description: &str) -> Column {
        Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: description.to_owned(),
            priority: 0,
            path: JsonPath::parse(path),
        }
    }
}

/// The columns of a CRD version: Name first, then its printer columns, or Age if it has none.
pub fn columns(version: &Value) -> Vec<Column> {
    let mut name = Column::new("Name", "string", ".metadata.name", "The name of the object.");
    name.format = "name".to_owned();
    let own = version.get("additionalPrinterColumns").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut columns = vec![name];
    if own.is_empty() {
        columns.push(Column::new(
            "Age",
            "date",
            ".metadata.creationTimestamp",
            "The time since the object was created.",
        ));
    }
    columns.extend(own.iter().map(printer_column));
    columns
}

fn printer_column(definition: &Value) -> Column {
    let text = |key: &str| definition.get(key).and_then(Value::as_str).unwrap_or("");
    let path = text("jsonPath");
    let standard = format!("Custom resource definition column (in JSONPath format): {path}");
    let description = if text("description").is_empty() { standard.as_str() } else { text("description") };
    Column {
        format: text("format").to_owned(),
        priority: definition.get("priority").and_then(Value::as_i64).unwrap_or(0),
        ..Column::new(text("name"), text("type"), path, description)
    }
}

/// The cell of an object in a column; null when there is nothing to show.
pub fn cell(object: &Value, column: &Column, now: Timestamp) -> Value {
    let values = column.path.as_ref().and_then(|path| path.find(object));
    let Some(value) = values.as_ref().and_then(|values| values.first().copied()) else { return Value::Null };
    match column.kind.as_str() {
        "string" => plain_text(value).into(),
        "integer" => integer(value),
        "number" => value.as_f64().map_or(Value::Null, whole_or_float),
        "boolean" => value.as_bool().map_or(Value::Null, Value::Bool),
        "date" => value.as_str().map_or(Value::Null, |text| age(text, now).into()),
        _ => Value::Null,
    }
}

/// A value as text: bare for scalars, compact JSON for objects and lists.
fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number_text(number),
        other => other.to_string(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the reference cuts fractions in integer columns")]
fn integer(value: &Value) -> Value {
    value.as_i64().or_else(|| value.as_f64().map(|float| float as i64)).map_or(Value::Null, Value::from)
}

/// Whole numbers are written without a fraction, as the reference writes them.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the range check")]
fn whole_or_float(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { Value::from(number as i64) } else { Value::from(number) }
}

fn age(text: &str, now: Timestamp) -> String {
    if text.is_empty() || text == "null" {
        return "<unknown>".to_owned();
    }
    time::parse(text).map_or_else(|| "<invalid>".to_owned(), |then| time::age(Some(then), now))
}

/// A field that list selectors may name (K-CR-6).
#[derive(Debug, Clone, PartialEq)]
pub struct SelectableField {
    /// As selectors write it: `spec.color`.
    pub name: String,
    path: Option<JsonPath>,
}

impl SelectableField {
    /// The object's value as text; empty when it has none.
    pub fn value(&self, object: &Value) -> String {
        let values = self.path.as_ref().and_then(|path| path.find(object)).unwrap_or_default();
        values.first().filter(|value| !value.is_null()).map(|value| plain_text(value)).unwrap_or_default()
    }
}

/// The selectable fields of a CRD version.
pub fn selectable_fields(version: &Value) -> Vec<SelectableField> {
    let fields = version.get("selectableFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let paths = fields.iter().filter_map(|field| field.get("jsonPath").and_then(Value::as_str));
    paths
        .map(|path| SelectableField { name: path.trim_start_matches('.').to_owned(), path: JsonPath::parse(path) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn first(object: &Value, path: &str) -> Value {
        let found =
            JsonPath::parse(path).and_then(|path| path.find(object).and_then(|found| found.first().copied().cloned()));
        found.unwrap_or(Value::Null)
    }

    // K-CR-5
    #[test]
    fn paths_reach_fields_items_and_filtered_items() {
        let object = json!({
            "metadata": {"name": "a", "labels": {"a.b/c": "x", "d": "y"}},
            "spec": {"list": [1, 2, 3], "map": {"k": {"v": true}}, "empty": null},
            "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True", "n": 2}]},
        });
        let cases = [
            (".metadata.name", json!("a")),
            ("$.metadata.name", json!("a")),
            (r".metadata.labels.a\.b/c", json!("x")),
            (".metadata.labels['a.b/c']", json!("x")),
            (".metadata['labels']['d']", json!("y")),
            (".spec.list[0]", json!(1)),
            (".spec.list[-1]", json!(3)),
            (".spec.list[*]", json!(1)),
            (".spec.list[-1:]", json!(3)),
            (".spec.list[1:2]", json!(2)),
            (".spec.list[:1]", json!(1)),
            (".spec.list[2:1]", Value::Null),
            (".spec.list[-4:]", Value::Null),
            (".spec.list[x:]", Value::Null),
            (".spec.empty[-1:]", Value::Null),
            (".status.conditions[-1:].type", json!("Ready")),
            (".spec.list[5]", Value::Null),
            (".spec.map.*.v", json!(true)),
            (".spec.map[*].v", json!(true)),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (r#".status.conditions[?(@.type == "Gone")].status"#, Value::Null),
            (".status.conditions[?(@.n>1)].type", json!("Ready")),
            (".status.conditions[?(@.n)].type", json!("Ready")),
            (r#".status.conditions[?(@.type!="Ready")].type"#, json!("Synced")),
            (".nothing.here", Value::Null),
            (".metadata.name[0]", Value::Null),
            ("metadata", Value::Null),
            (".spec.list[", Value::Null),
        ];
        for (path, expected) in cases {
            assert_eq!(first(&object, path), expected, "{path}");
        }
    }

    // K-CR-5
    #[test]
    fn cells_follow_the_type_of_the_column() {
        let object = json!({"a": "text", "i": 3, "f": 2.5, "w": 2.0, "b": true, "o": {"k": [1]}, "n": null, "t": "2026-01-01T00:00:00Z", "bad": "x"});
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let cases = [
            ("string", ".a", json!("text")),
            ("string", ".i", json!("3")),
            ("string", ".f", json!("2.5")),
            ("string", ".b", json!("true")),
            ("string", ".o", json!(r#"{"k":[1]}"#)),
            ("string", ".n", json!("<no value>")),
            ("string", ".missing", Value::Null),
            ("integer", ".i", json!(3)),
            ("integer", ".f", json!(2)),
            ("integer", ".a", Value::Null),
            ("number", ".f", json!(2.5)),
            ("number", ".w", json!(2)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".a", Value::Null),
            ("date", ".t", json!("5m")),
            ("date", ".bad", json!("<invalid>")),
            ("date", ".i", Value::Null),
        ];
        for (kind, path, expected) in cases {
            assert_eq!(cell(&object, &Column::new("c", kind, path, ""), now), expected, "{kind} {path}");
        }
    }

    // K-CR-5
    #[test]
    fn a_version_without_printer_columns_shows_name_and_age() {
        let names = |version: &Value| columns(version).into_iter().map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(names(&json!({})), ["Name", "Age"]);
        let version = json!({"additionalPrinterColumns": [
            {"name": "State", "type": "string", "jsonPath": ".status.state", "priority": 1},
        ]});
        assert_eq!(names(&version), ["Name", "State"]);
        let [name, state] = columns(&version).try_into().expect("two columns");
        assert_eq!((state.kind.as_str(), state.format.as_str(), state.priority), ("string", "", 1));
        assert_eq!(state.description, "Custom resource definition column (in JSONPath format): .status.state");
        assert_eq!(name.format, "name");
    }

    // K-CR-6
    #[test]
    fn selectable_fields_give_text() {
        let fields =
            selectable_fields(&json!({"selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]}));
        let object = json!({"spec": {"size": 3}});
        let found: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.value(&object))).collect();
        assert_eq!(found, [("spec.color", String::new()), ("spec.size", "3".to_owned())]);
    }
}
