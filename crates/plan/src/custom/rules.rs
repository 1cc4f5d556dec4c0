//! CEL rules (`x-kubernetes-validations`): compiled with the schema, evaluated once an object's shape is right.
//!
//! A rule that uses a function which our CEL library lacks is not evaluated: refusing objects that the reference takes
//! would be worse, and `definition::warnings` says so when the CRD is written.

use super::convert::to_cel;
use super::expression;
use super::number::value_text;
use super::place::Place;
use super::schema::{Additional, Node, Type, text};
use super::validate::OldItems;
use kube_cel::KubeCelExt;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use volley_api::kube::field::{FieldError, Problem};

/// The longest rule or message expression; the parser recurses, and real rules have a few hundred bytes.
const RULE_BYTES_MAX: usize = 16 * 1024;
/// The work that all rules of one object may cost together; the reference has the same number of cost units.
const COST_MAX: u64 = 10_000_000;
/// A longer evaluated message is replaced by the static one, as in the reference.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// One compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    program: Program,
    message_program: Option<Program>,
    source: Box<str>,
    message: Box<str>,
    problem: Problem,
    /// Appended to the path of the value, without its leading dot.
    field_path: Box<str>,
    uses_old: bool,
    old_is_optional: bool,
    size: u64,
    /// How many comprehensions stand inside each other, at most.
    nesting: u32,
}

/// All functions that rules may call; made once, since it registers some two hundred of them.
pub(super) fn functions() -> &'static Context<'static> {
    static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());
    &FUNCTIONS
}

/// Compiles the rules of one schema node.
pub(super) fn compile(schema: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) -> Vec<Rule> {
    let Some(list) = schema.get("x-kubernetes-validations").and_then(Value::as_array) else { return Vec::new() };
    let here = Place::Field(place, "x-kubernetes-validations");
    let list = list.iter().enumerate();
    list.filter_map(|(index, rule)| compile_rule(rule, &Place::Index(&here, index), errors)).collect()
}

fn compile_rule(rule: &Value, place: &Place<'_>, errors: &mut Vec<FieldError>) -> Option<Rule> {
    let mut program = |keyword: &str| match parse(text(rule, keyword)) {
        Ok(program) => program,
        Err(why) => {
            let detail = format!("compilation failed: {why}");
            errors.push(FieldError::invalid(Place::Field(place, keyword).field_path(), rule.clone(), &detail));
            None
        }
    };
    let message_program = program("messageExpression");
    let program = program("rule")?;
    let uses_old = program.references().has_variable("oldSelf");
    let (size, nesting) = expression::measure(&program.expression().expr);
    Some(Rule {
        uses_old,
        size,
        nesting,
        program,
        message_program,
        source: text(rule, "rule").trim().into(),
        message: text(rule, "message").trim().into(),
        problem: match text(rule, "reason") {
            "FieldValueForbidden" => Problem::Forbidden,
            "FieldValueRequired" => Problem::Required,
            "FieldValueDuplicate" => Problem::Duplicate,
            _ => Problem::Invalid,
        },
        field_path: text(rule, "fieldPath").trim_start_matches('.').into(),
        old_is_optional: super::schema::is_true(rule, "optionalOldSelf"),
    })
}

/// Parses an expression; `None` for an absent one.
fn parse(source: &str) -> Result<Option<Program>, String> {
    if source.trim().is_empty() {
        return Ok(None);
    }
    if source.len() > RULE_BYTES_MAX {
        return Err(format!("expression is longer than {RULE_BYTES_MAX} bytes"));
    }
    let program = Program::compile(source).map_err(|error| error.to_string().trim().to_owned())?;
    // A macro that we lack leaves the names which it would declare undeclared.
    let is_complete = expression::unsupported(&program, functions()).is_empty();
    match expression::undeclared(&program.expression().expr, &mut vec!["self", "oldSelf"]) {
        Some(name) if is_complete => Err(format!("undeclared reference to '{name}' (in container '')")),
        _ => Ok(Some(program)),
    }
}

/// Whether a rule looks at the value before the change.
pub(super) fn uses_old(source: &str) -> bool {
    matches!(parse(source), Ok(Some(program)) if program.references().has_variable("oldSelf"))
}

/// The functions that a schema's rules use and that we cannot evaluate, with their rules.
pub(super) fn unsupported(node: &Node, found: &mut Vec<String>) {
    if !node.holds.rules {
        return;
    }
    for rule in &node.rules {
        let names = expression::unsupported(&rule.program, functions());
        found.extend(names.iter().map(|name| format!("{name}() in rule {:?} is not supported", rule.source)));
    }
    let additional = match &node.additional {
        Additional::Of(sub) => Some(sub.as_ref()),
        Additional::Absent | Additional::Any | Additional::Never => None,
    };
    for sub in node.properties.iter().map(|(_, sub)| sub).chain(additional).chain(node.items.as_deref()) {
        unsupported(sub, found);
    }
}

/// Evaluates all rules on an object; `old` is the object before an update.
pub(super) fn check(root: &Node, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut run = Run { errors: Vec::new(), cost_left: COST_MAX, is_exhausted: false };
    run.walk(root, object, Past { old, is_unchanged: false }, &Place::Root);
    run.errors
}

/// What a value was before an update.
#[derive(Debug, Clone, Copy)]
struct Past<'a> {
    old: Option<&'a Value>,
    /// Something around the value is the same as before, and so is the value.
    is_unchanged: bool,
}

struct Run {
    errors: Vec<FieldError>,
    cost_left: u64,
    is_exhausted: bool,
}

impl Run {
    fn walk(&mut self, node: &Node, value: &Value, past: Past<'_>, place: &Place<'_>) {
        if !node.holds.rules || value.is_null() || self.is_exhausted {
            return;
        }
        let old = past.old.filter(|old| !old.is_null());
        if !node.rules.is_empty() {
            self.evaluate(node, value, Past { old, ..past }, place);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let past = Past { old: old.and_then(|old| old.get(name)), ..past };
                    if let Some(sub) = node.property(name) {
                        self.walk(sub, member, past, &Place::Field(place, name));
                    } else if let Additional::Of(sub) = &node.additional {
                        self.walk(sub, member, past, &Place::Key(place, name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(sub) = &node.items else { return };
                // Items without keys have no past of their own, only that of their list.
                let is_unchanged = past.is_unchanged || old == Some(value);
                let old_items = OldItems::of(&node.list, old);
                for (index, item) in items.iter().enumerate() {
                    let past = Past { old: old_items.matching(item), is_unchanged };
                    self.walk(sub, item, past, &Place::Index(place, index));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn evaluate(&mut self, node: &Node, value: &Value, past: Past<'_>, place: &Place<'_>) {
        let old = past.old;
        let longest = longest(value);
        let own = to_cel(Some(node), value);
        let old_own = old.map(|old| to_cel(Some(node), old));
        for rule in &node.rules {
            if rule.uses_old && old_own.is_none() && !rule.old_is_optional {
                continue;
            }
            let cost = rule.size.saturating_mul(longest.saturating_pow(rule.nesting));
            if cost > self.cost_left {
                self.is_exhausted = true;
                self.errors.push(type_error(node, place, OUT_OF_BUDGET));
                return;
            }
            self.cost_left -= cost;
            let mut scope = functions().new_inner_scope();
            scope.add_variable_from_value("self", own.clone());
            match (&old_own, rule.old_is_optional) {
                (Some(old), true) => scope.add_variable_from_value("oldSelf", optional(OptionalValue::of(old.clone()))),
                (None, true) => scope.add_variable_from_value("oldSelf", optional(OptionalValue::none())),
                (Some(old), false) => scope.add_variable_from_value("oldSelf", old.clone()),
                (None, false) => {}
            }
            // An unchanged value that broke a rule before may keep breaking it, unless the rule is about the change.
            let is_forgiven = !rule.uses_old && (past.is_unchanged || old == Some(value));
            let error = verdict(rule, node, value, &scope, place);
            self.errors.extend(error.filter(|_| !is_forgiven));
        }
    }
}

fn optional(value: OptionalValue) -> CelValue {
    CelValue::Opaque(Arc::new(value))
}

/// The size of the largest list or map in a value: what a comprehension may have to go through.
fn longest(value: &Value) -> u64 {
    let (size, inner) = match value {
        Value::Array(items) => (items.len(), items.iter().map(longest).max()),
        Value::Object(members) => (members.len(), members.values().map(longest).max()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (1, None),
    };
    (size as u64).max(inner.unwrap_or(1))
}

fn verdict(rule: &Rule, node: &Node, value: &Value, scope: &Context<'_>, place: &Place<'_>) -> Option<FieldError> {
    let failure = match rule.program.execute(scope) {
        Ok(CelValue::Bool(true)) | Err(ExecutionError::UndeclaredReference(_)) => return None,
        Ok(CelValue::Bool(false)) => return Some(broken(rule, node, value, scope, place)),
        Ok(_) => "cel expression must evaluate to a bool".to_owned(),
        Err(error) => error.to_string(),
    };
    let mut letters = failure.chars();
    let failure: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
    let about = if rule.message.is_empty() { &rule.source } else { &rule.message };
    let detail = if failure.starts_with("no such overload") {
        format!(
            "'{failure}': call arguments did not match a supported operator, function or macro signature for rule: {about}"
        )
    } else {
        format!("{failure} evaluating rule: {about}")
    };
    Some(type_error(node, place, &detail))
}

/// The reference names the type instead of the value when a rule could not be evaluated.
fn type_error(node: &Node, place: &Place<'_>, detail: &str) -> FieldError {
    let kind = match node.types {
        [kind] => kind.name(),
        _ => "",
    };
    FieldError::invalid(place.field_path(), kind, detail)
}

fn broken(rule: &Rule, node: &Node, value: &Value, scope: &Context<'_>, place: &Place<'_>) -> FieldError {
    let detail = evaluated_message(rule, scope).unwrap_or_else(|| match rule.message.as_ref() {
        "" => format!("failed rule: {}", rule.source),
        message => message.to_owned(),
    });
    let path = match (place, rule.field_path.as_ref()) {
        (_, "") => place.field_path(),
        (Place::Root, field) => field.to_owned(),
        (_, field) => format!("{}.{field}", place.field_path()),
    };
    // Whole objects and lists are left out of the text.
    let is_compound = node.is(Type::Object) || node.is(Type::Array);
    let shown = if is_compound { String::new() } else { format!(": {}", value_text(value)) };
    let text = match rule.problem {
        Problem::Forbidden => return FieldError::forbidden(path, &detail),
        Problem::Required => return FieldError::required(path, &detail),
        Problem::Duplicate => format!("Duplicate value{shown}"),
        _ => format!("Invalid value{shown}: {detail}"),
    };
    FieldError::new(path, rule.problem, text)
}

/// The message that an expression gives, if it gives a usable one.
fn evaluated_message(rule: &Rule, scope: &Context<'_>) -> Option<String> {
    let Ok(CelValue::String(message)) = rule.message_program.as_ref()?.execute(scope) else { return None };
    let message = message.trim();
    let is_usable = !message.is_empty() && message.len() <= MESSAGE_BYTES_MAX && !message.contains('\n');
    is_usable.then(|| message.to_owned())
}
