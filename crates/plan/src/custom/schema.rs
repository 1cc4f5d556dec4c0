//! A version's structural schema, compiled once: patterns, formats and rules are ready, lookups are by binary search.
//!
//! The API server keeps one `Schema` per served version. `prune`, `default` and `check` are what a write does to an
//! instance, in this order (K-CRD-7); reads only `default`.

use super::format::{self, Format};
use super::pattern;
use super::place::Place;
use super::rules::Rule;
use super::{defaulting, embedded, lists, prune, rules, validate};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use volley_api::kube::field::{FieldError, Problem};

/// Deeper schemas are refused; real ones (a pod template inside a job) stay below 30.
const DEPTH_MAX: usize = 128;

/// A compiled structural schema. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Schema {
    pub(super) root: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Array => "array",
            Type::Boolean => "boolean",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Object => "object",
            Type::String => "string",
        }
    }
}

#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    Absent,
    Any,
    Never,
    Of(Box<Node>),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// What the subtree holds, so that walks for rare things skip most of an object.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Holds {
    pub(super) embedded: bool,
    pub(super) keyed_lists: bool,
    pub(super) rules: bool,
}

/// One value's schema. Rare constraints are in `limits`, because a job schema has thousands of nodes.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// No type, one type, or integer and string for `x-kubernetes-int-or-string`.
    pub(super) types: &'static [Type],
    pub(super) is_nullable: bool,
    pub(super) keeps_unknown: bool,
    pub(super) is_embedded: bool,
    pub(super) format: Option<&'static Format>,
    /// Sorted by name.
    pub(super) properties: Vec<(Box<str>, Node)>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    pub(super) default: Option<Value>,
    pub(super) required: Vec<Box<str>>,
    pub(super) limits: Option<Box<Limits>>,
    pub(super) list: ListKind,
    pub(super) rules: Vec<Rule>,
    pub(super) holds: Holds,
}

#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) minimum: Option<f64>,
    pub(super) minimum_is_exclusive: bool,
    pub(super) maximum: Option<f64>,
    pub(super) maximum_is_exclusive: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) length_min: Option<usize>,
    pub(super) length_max: Option<usize>,
    pub(super) pattern: Option<(Box<str>, Arc<Regex>)>,
    pub(super) items_min: Option<usize>,
    pub(super) items_max: Option<usize>,
    pub(super) items_are_unique: bool,
    pub(super) properties_min: Option<usize>,
    pub(super) properties_max: Option<usize>,
    pub(super) values: Vec<Value>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) all_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

impl Node {
    pub(super) fn property(&self, name: &str) -> Option<&Node> {
        self.properties.binary_search_by(|(key, _)| key.as_ref().cmp(name)).ok().map(|at| &self.properties[at].1)
    }

    /// The schema of a member: declared, or that of all additional ones.
    pub(super) fn member(&self, name: &str) -> Option<&Node> {
        self.property(name).or(match &self.additional {
            Additional::Of(node) => Some(node),
            Additional::Absent | Additional::Any | Additional::Never => None,
        })
    }

    /// What stands directly below a value and is described: schema, value and place.
    pub(super) fn below<'a>(
        &'a self,
        value: &'a Value,
        place: &'a Place<'a>,
    ) -> impl Iterator<Item = (&'a Node, &'a Value, Place<'a>)> {
        let members = value.as_object().into_iter().flatten().filter_map(move |(name, member)| {
            let is_declared = self.property(name).is_some();
            let place = if is_declared { Place::Field(place, name) } else { Place::Key(place, name) };
            Some((self.member(name)?, member, place))
        });
        let items = value.as_array().into_iter().flatten().enumerate();
        let items =
            items.filter_map(move |(index, item)| Some((self.items.as_deref()?, item, Place::Index(place, index))));
        members.chain(items)
    }

    pub(super) fn is(&self, wanted: Type) -> bool {
        self.types.contains(&wanted)
    }
}

impl Schema {
    /// Compiles an `openAPIV3Schema`; errors are at paths that start with `openAPIV3Schema`.
    pub fn compile(schema: &Value) -> Result<Schema, Vec<FieldError>> {
        Self::compile_at(schema, "openAPIV3Schema")
    }

    /// A schema that takes every object as it is.
    pub fn open() -> Schema {
        let schema = serde_json::json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Schema::compile(&schema).expect("nothing is wrong with this schema")
    }

    /// Compiles a schema whose errors are at paths that start with `base`.
    pub(super) fn compile_at(schema: &Value, base: &str) -> Result<Schema, Vec<FieldError>> {
        let mut compiler = Compiler::default();
        let root = compiler.node(schema, &Place::Field(&Place::Root, base), 0);
        if compiler.errors.is_empty() { Ok(Schema { root }) } else { Err(compiler.errors) }
    }

    /// Removes the fields that the schema does not know and returns their paths (`spec.items[0].foo`).
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in defaults where the parent exists, and drops nulls that the schema does not allow.
    pub fn default(&self, object: &mut Value) {
        defaulting::default(&self.root, object);
    }

    /// All that is wrong with an object, without its CEL rules.
    pub fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, None, None);
        errors.extend(embedded::validate(&self.root, object));
        errors.extend(lists::validate(&self.root, object));
        errors
    }

    /// Like `validate`, but forgives what was already wrong in parts that the update leaves alone.
    pub fn validate_update(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.root, object, Some(old), None);
        errors.extend(embedded::validate(&self.root, object));
        errors.extend(self.new_list_errors(object, old));
        errors
    }

    /// All that is wrong with the status of an object that is written through `/status`.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut errors = match (self.root.property("status"), object.get("status")) {
            (Some(node), Some(status)) => validate::validate(node, status, old.get("status"), Some("status")),
            _ => Vec::new(),
        };
        errors.extend(self.new_list_errors(object, old));
        errors
    }

    fn new_list_errors(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let errors = lists::validate(&self.root, object);
        if errors.is_empty() || lists::validate(&self.root, old).is_empty() { errors } else { Vec::new() }
    }

    /// Everything that is wrong with a new or changed object: its shape first and, if that holds, its CEL rules.
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let errors = match old {
            Some(old) => self.validate_update(object, old),
            None => self.validate(object),
        };
        self.with_rules(errors, object, old)
    }

    /// Everything that is wrong with an object whose status was written.
    pub fn check_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        self.with_rules(self.validate_status(object, old), object, Some(old))
    }

    fn with_rules(&self, mut errors: Vec<FieldError>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        if !self.root.holds.rules {
            return errors;
        }
        if errors.iter().any(|error| blocks_rules(error.problem)) {
            errors.push(FieldError::invalid("<nil>", Value::Null, RULES_SKIPPED));
        } else {
            errors.extend(rules::check(&self.root, object, old));
        }
        errors
    }
}

const RULES_SKIPPED: &str = "some validation rules were not checked because the object was invalid; correct the \
                             existing errors to complete validation";

/// After these problems a rule could fail for a reason that is not its own.
fn blocks_rules(problem: Problem) -> bool {
    match problem {
        Problem::NotSupported | Problem::Required | Problem::TooLong | Problem::TooMany | Problem::TypeInvalid => true,
        Problem::Invalid | Problem::Duplicate | Problem::NotFound | Problem::Forbidden => false,
    }
}

#[derive(Default)]
struct Compiler {
    errors: Vec<FieldError>,
    /// Pod templates repeat the quantity pattern hundreds of times.
    patterns: BTreeMap<Box<str>, Arc<Regex>>,
}

impl Compiler {
    fn node(&mut self, schema: &Value, place: &Place<'_>, depth: usize) -> Node {
        if depth > DEPTH_MAX {
            let detail = format!("must not be nested deeper than {DEPTH_MAX} levels");
            self.errors.push(FieldError::invalid(place.field_path(), "", &detail));
            return Node::default();
        }
        let types = types_of(schema);
        let mut node = Node {
            types,
            is_nullable: is_true(schema, "nullable"),
            keeps_unknown: is_true(schema, "x-kubernetes-preserve-unknown-fields"),
            is_embedded: is_true(schema, "x-kubernetes-embedded-resource"),
            format: format::find(text(schema, "format")),
            properties: self.properties(schema, place, depth),
            additional: self.additional(schema, place, depth),
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(self.node(items, &Place::Field(place, "items"), depth + 1))),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            required: texts(schema, "required"),
            limits: None,
            list: list_kind(schema),
            rules: rules::compile(schema, place, &mut self.errors),
            holds: Holds::default(),
        };
        node.limits = self.limits(schema, place, depth);
        node.holds = holds(&node);
        node
    }

    fn properties(&mut self, schema: &Value, place: &Place<'_>, depth: usize) -> Vec<(Box<str>, Node)> {
        let here = Place::Field(place, "properties");
        let members = object(schema, "properties");
        members.map(|(name, sub)| (name.as_str().into(), self.node(sub, &Place::Key(&here, name), depth + 1))).collect()
    }

    fn additional(&mut self, schema: &Value, place: &Place<'_>, depth: usize) -> Additional {
        match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Additional::Any,
            Some(Value::Bool(false)) => Additional::Never,
            Some(sub @ Value::Object(_)) => {
                Additional::Of(Box::new(self.node(sub, &Place::Field(place, "additionalProperties"), depth + 1)))
            }
            _ => Additional::Absent,
        }
    }

    fn limits(&mut self, schema: &Value, place: &Place<'_>, depth: usize) -> Option<Box<Limits>> {
        let keywords = schema.as_object()?;
        if !keywords.keys().any(|keyword| LIMIT_KEYWORDS.contains(&keyword.as_str())) {
            return None;
        }
        let not = schema.get("not").filter(|not| not.is_object());
        Some(Box::new(Limits {
            minimum: schema.get("minimum").and_then(Value::as_f64),
            minimum_is_exclusive: is_true(schema, "exclusiveMinimum"),
            maximum: schema.get("maximum").and_then(Value::as_f64),
            maximum_is_exclusive: is_true(schema, "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
            length_min: count(schema, "minLength"),
            length_max: count(schema, "maxLength"),
            pattern: self.pattern(schema, place),
            items_min: count(schema, "minItems"),
            items_max: count(schema, "maxItems"),
            items_are_unique: is_true(schema, "uniqueItems"),
            properties_min: count(schema, "minProperties"),
            properties_max: count(schema, "maxProperties"),
            values: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            any_of: self.branches(schema, "anyOf", place, depth),
            one_of: self.branches(schema, "oneOf", place, depth),
            all_of: self.branches(schema, "allOf", place, depth),
            not: not.map(|not| Box::new(self.node(not, &Place::Field(place, "not"), depth + 1))),
        }))
    }

    fn branches(&mut self, schema: &Value, keyword: &str, place: &Place<'_>, depth: usize) -> Vec<Node> {
        let Some(branches) = schema.get(keyword).and_then(Value::as_array) else { return Vec::new() };
        let here = Place::Field(place, keyword);
        let branches = branches.iter().enumerate();
        branches.map(|(index, branch)| self.node(branch, &Place::Index(&here, index), depth + 1)).collect()
    }

    fn pattern(&mut self, schema: &Value, place: &Place<'_>) -> Option<(Box<str>, Arc<Regex>)> {
        let source = text(schema, "pattern");
        if source.is_empty() {
            return None;
        }
        if let Some(regex) = self.patterns.get(source) {
            return Some((source.into(), Arc::clone(regex)));
        }
        match pattern::compile(source) {
            Ok(regex) => {
                let regex = Arc::new(regex);
                self.patterns.insert(source.into(), Arc::clone(&regex));
                Some((source.into(), regex))
            }
            Err(why) => {
                let detail = format!("must be a valid regular expression, but isn't: {why}");
                self.errors.push(FieldError::invalid(Place::Field(place, "pattern").field_path(), source, &detail));
                None
            }
        }
    }
}

const LIMIT_KEYWORDS: [&str; 16] = [
    "minimum", "maximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "enum", "anyOf", "oneOf", "allOf", "not",
];

fn holds(node: &Node) -> Holds {
    let mut holds =
        Holds { embedded: node.is_embedded, keyed_lists: node.list != ListKind::Atomic, rules: !node.rules.is_empty() };
    let additional = match &node.additional {
        Additional::Of(sub) => Some(sub.as_ref()),
        Additional::Absent | Additional::Any | Additional::Never => None,
    };
    for sub in node.properties.iter().map(|(_, sub)| sub).chain(additional).chain(node.items.as_deref()) {
        holds.embedded |= sub.holds.embedded;
        holds.keyed_lists |= sub.holds.keyed_lists;
        holds.rules |= sub.holds.rules;
    }
    holds
}

fn types_of(schema: &Value) -> &'static [Type] {
    if is_true(schema, "x-kubernetes-int-or-string") {
        return &[Type::Integer, Type::String];
    }
    match text(schema, "type") {
        "array" => &[Type::Array],
        "boolean" => &[Type::Boolean],
        "integer" => &[Type::Integer],
        "number" => &[Type::Number],
        "object" => &[Type::Object],
        "string" => &[Type::String],
        _ => &[],
    }
}

fn list_kind(schema: &Value) -> ListKind {
    match text(schema, "x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => ListKind::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => ListKind::Atomic,
    }
}

pub(super) fn is_true(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn text<'a>(schema: &'a Value, keyword: &str) -> &'a str {
    schema.get(keyword).and_then(Value::as_str).unwrap_or("")
}

fn texts(schema: &Value, keyword: &str) -> Vec<Box<str>> {
    let list = schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(Into::into).collect()
}

/// The members of an object-valued keyword, in order; none when it is absent.
pub(super) fn object<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn count(schema: &Value, keyword: &str) -> Option<usize> {
    // A negative bound never binds, which is what 0 says for a minimum; maxima below zero refuse everything.
    let number = schema.get(keyword)?;
    number.as_u64().map(|count| usize::try_from(count).unwrap_or(usize::MAX)).or_else(|| number.as_f64().map(|_| 0))
}
