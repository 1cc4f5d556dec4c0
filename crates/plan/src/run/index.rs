//! Values of runs as keys of an index: bytes whose order is that of the values.
//!
//! A search that asks for a range of keys finds every run that passes the test, and sometimes a little more (a list, the rest
//! of a long text), which the test itself is then asked about.

use super::filter::{Filter, Test};
use serde_json::{Number, Value};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Longer texts have the key of their beginning.
const TEXT_MAX: usize = 64;
/// Longer names are not kept.
const NAME_MAX: usize = 500;
/// A list with more items than this is found by every search of its field.
const ITEMS_MAX: usize = 32;

/// The first byte of a key. Numbers only compare with numbers and texts with texts, so each kind has a range of its own.
const OTHER: u8 = 0;
const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const TRUTH: u8 = 3;
/// What every list has beside its items.
const LIST: u8 = 4;

pub type Key = Vec<u8>;

/// The first and the last key that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range(pub Key, pub Key);

/// Whether values of this field can be kept in an index: those that are not columns of their own.
pub fn is_indexed(field: &str) -> bool {
    let is_value = ["config.", "summary_metrics.", "summary."].iter().any(|start| field.starts_with(start));
    (field == "tags" || is_value) && field.len() <= NAME_MAX && !field.contains('\0')
}

/// The keys of a value: one, or that of each item of a list; none for nothing.
pub fn keys(value: &Value) -> BTreeSet<Key> {
    match value {
        Value::Null => BTreeSet::new(),
        Value::Array(items) if items.len() <= ITEMS_MAX => {
            items.iter().map(|item| key(item).unwrap_or(vec![OTHER])).chain([vec![LIST]]).collect()
        }
        value => BTreeSet::from([key(value).unwrap_or(vec![OTHER])]),
    }
}

/// Where the keys of values that pass a test are; nothing if they may be anywhere.
pub fn ranges(test: &Test) -> Option<Vec<Range>> {
    match test {
        Test::Exists(true) => Some(vec![Range(vec![OTHER], last(LIST))]),
        Test::Equal(wanted) => equal([wanted]),
        Test::In(wanted) => equal(wanted),
        Test::Compare(orders, wanted) => {
            let (bound, kind) = (key(wanted)?, *key(wanted)?.first()?);
            let is_upwards = orders.contains(&Ordering::Greater);
            Some(vec![if is_upwards { Range(bound, last(kind)) } else { Range(vec![kind], bound) }])
        }
        Test::Exists(false) | Test::Matches(_) | Test::Size(_) => None,
    }
}

/// A list may hold what is wanted where its items have no keys of their own.
fn equal<'a>(wanted: impl IntoIterator<Item = &'a Value>) -> Option<Vec<Range>> {
    let mut found = vec![Range(vec![OTHER], vec![OTHER])];
    for wanted in wanted {
        let key = key(wanted)?;
        found.push(Range(key.clone(), key));
    }
    Some(found)
}

fn last(kind: u8) -> Key {
    // Neither a finite number nor a text begins with two such bytes.
    vec![kind, u8::MAX, u8::MAX]
}

fn key(value: &Value) -> Option<Key> {
    Some(match value {
        Value::Number(number) => [&[NUMBER], ordered(number)?.as_slice()].concat(),
        Value::String(text) => [&[TEXT], &text.as_bytes()[..text.len().min(TEXT_MAX)]].concat(),
        Value::Bool(truth) => vec![TRUTH, u8::from(*truth)],
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}

/// The bits of a number, turned so that their order is the numbers'.
fn ordered(number: &Number) -> Option<[u8; 8]> {
    // There are two zeros, and they are equal.
    let bits = (number.as_f64()? + 0.0).to_bits();
    let turned = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
    Some(turned.to_be_bytes())
}

/// Runs that an index can name: those whose keys are in a field's ranges, and what is made of such sets.
#[derive(Debug, PartialEq, Eq)]
pub enum Set<'a> {
    Within(&'a str, Vec<Range>),
    All(Vec<Set<'a>>),
    Any(Vec<Set<'a>>),
}

impl<'a> Set<'a> {
    /// A set that holds every run that passes, by the fields that an index has; nothing if that may be any run.
    pub fn of(filter: &'a Filter, has: &dyn Fn(&str) -> bool) -> Option<Set<'a>> {
        Set::made(filter, false, has)
    }

    fn made(filter: &'a Filter, is_negated: bool, has: &dyn Fn(&str) -> bool) -> Option<Set<'a>> {
        match (filter, is_negated) {
            (Filter::All(inner), false) | (Filter::Any(inner), true) => {
                Set::all(inner.iter().map(|inner| Set::made(inner, is_negated, has)))
            }
            (Filter::Any(inner), false) | (Filter::All(inner), true) => {
                Set::any(inner.iter().map(|inner| Set::made(inner, is_negated, has)))
            }
            (Filter::Not(inner), _) => Set::made(inner, !is_negated, has),
            (Filter::Field(..), true) => None,
            (Filter::Field(name, test), false) => Some(Set::Within(name, ranges(test).filter(|_| has(name))?)),
        }
    }

    /// Leaves out sets that are no help, in the order of `leaves`.
    pub fn keep(self, is_helpful: &mut dyn Iterator<Item = bool>) -> Option<Set<'a>> {
        match self {
            Set::Within(..) => is_helpful.next().unwrap_or(false).then_some(self),
            // All are asked, because each takes its word.
            Set::All(inner) => Set::all(inner.into_iter().map(|inner| inner.keep(is_helpful)).collect::<Vec<_>>()),
            Set::Any(inner) => Set::any(inner.into_iter().map(|inner| inner.keep(is_helpful)).collect::<Vec<_>>()),
        }
    }

    fn all(parts: impl IntoIterator<Item = Option<Set<'a>>>) -> Option<Set<'a>> {
        let mut parts: Vec<Set> = parts.into_iter().flatten().collect();
        if parts.len() > 1 { Some(Set::All(parts)) } else { parts.pop() }
    }

    fn any(parts: impl IntoIterator<Item = Option<Set<'a>>>) -> Option<Set<'a>> {
        let mut parts: Vec<Set> = parts.into_iter().collect::<Option<_>>()?;
        if parts.len() > 1 { Some(Set::Any(parts)) } else { parts.pop() }
    }

    /// The fields and ranges that it is made of.
    pub fn leaves(&self) -> Vec<(&'a str, &[Range])> {
        match self {
            Set::Within(name, ranges) => vec![(name, ranges)],
            Set::All(inner) | Set::Any(inner) => inner.iter().flat_map(Set::leaves).collect(),
        }
    }
}

/// The fields by whose index a filter could be answered faster.
pub fn fields(filter: &Filter) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    collect(filter, false, &mut found);
    found
}

fn collect<'a>(filter: &'a Filter, is_negated: bool, found: &mut BTreeSet<&'a str>) {
    match filter {
        Filter::All(inner) | Filter::Any(inner) => inner.iter().for_each(|inner| collect(inner, is_negated, found)),
        Filter::Not(inner) => collect(inner, !is_negated, found),
        Filter::Field(name, test) => {
            if !is_negated && is_indexed(name) && ranges(test).is_some() {
                found.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::filter;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn any_scalar() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-3_i64..3).prop_map(Value::from),
            prop::num::f64::NORMAL.prop_map(Value::from),
            prop::sample::select(vec![0.0, -0.0, 1.5, f64::MAX, f64::MIN, 5e-324]).prop_map(Value::from),
            "[a-c가\u{0}\u{10ffff}]{0,3}".prop_map(Value::from),
            "(x{63}|x{64}|x{62}가)[ab]{0,2}".prop_map(Value::from),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        any_scalar().prop_recursive(2, 50, 40, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
                inner.prop_map(|inner| json!({ "inside": inner })),
            ]
        })
    }

    fn any_test() -> impl Strategy<Value = Value> {
        prop_oneof![
            (prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte"]), any_scalar())
                .prop_map(|(operator, operand)| json!({ operator: operand })),
            prop::collection::vec(any_scalar(), 0..3).prop_map(|operands| json!({ "$in": operands })),
            any::<bool>().prop_map(|wanted| json!({ "$exists": wanted })),
        ]
    }

    fn is_found(value: &Value, test: &Test) -> bool {
        let fits = |key: &Key| ranges(test).unwrap().iter().any(|Range(first, last)| first <= key && key <= last);
        ranges(test).is_none() || keys(value).iter().any(fits)
    }

    proptest! {
        // PUB-2
        #[test]
        fn whatever_passes_is_found_by_its_keys(value in any_value(), test in any_test(), is_itself in any::<bool>()) {
            let test = if is_itself && !value.is_object() { json!({ "$in": [value] }) } else { test };
            let Ok(filter) = filter::parse(&json!({ "config.x": test }).to_string()) else { return Ok(()) };
            if filter.passes(&|_| Some(value.clone())) {
                let Filter::Field(_, test) = &filter else { panic!("one field") };
                prop_assert!(is_found(&value, test), "{value} {test:?}");
            }
        }
    }

    #[test]
    fn a_range_leaves_out_most_of_what_does_not_pass() {
        let cases = [
            (json!({ "$lt": 1 }), vec![json!(0.5), json!(-7), json!(1)], vec![json!(1.1), json!("0"), json!(false)]),
            (json!({ "$gte": "b" }), vec![json!("b"), json!("ba")], vec![json!("a"), json!(5), json!(true)]),
            (json!({ "$eq": 0 }), vec![json!(0.0), json!(-0.0), json!([1, 0])], vec![json!("0"), json!(null)]),
            (json!({ "$in": [true, "x"] }), vec![json!(true), json!("x")], vec![json!(false), json!("y"), json!(1)]),
            (json!({ "$exists": true }), vec![json!({}), json!([]), json!(0), json!("")], vec![json!(null)]),
        ];
        for (test, found, left_out) in cases {
            let filter = filter::parse(&json!({ "tags": test }).to_string()).unwrap();
            let Filter::Field(_, test) = &filter else { panic!("one field") };
            for value in found {
                assert!(is_found(&value, test), "{value} {test:?}");
            }
            for value in left_out {
                assert!(!is_found(&value, test), "{value} {test:?}");
            }
        }
    }

    #[test]
    fn sets_are_made_of_what_an_index_has_and_of_what_helps() {
        let text = r#"{"$and": [{"$or": [{"config.a": 1}, {"config.b": 2}]}, {"config.c": 3}, {"notes": "x"}]}"#;
        let filter = filter::parse(text).unwrap();
        let names = |set: Option<Set>| -> Vec<String> {
            set.iter().flat_map(Set::leaves).map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names(Set::of(&filter, &|name| name != "notes")), ["config.a", "config.b", "config.c"]);
        // What is not indexed on one side of an `or` may be any run.
        assert_eq!(names(Set::of(&filter, &|name| name == "config.a" || name == "config.c")), ["config.c"]);
        assert_eq!(Set::of(&filter, &|name| name == "config.b"), None);
        let kept = |words: [bool; 3]| {
            let set = Set::of(&filter, &|name| name != "notes").unwrap();
            names(set.keep(&mut words.into_iter()))
        };
        assert_eq!(kept([true, true, false]), ["config.a", "config.b"]);
        assert_eq!(kept([true, false, true]), ["config.c"]);
        assert!(kept([false, true, false]).is_empty());
    }

    #[test]
    fn only_what_could_be_answered_is_worth_an_index() {
        let text = r#"{"config.a": 1, "state": "x", "$or": [{"summary_metrics.b": {"$gt": 2}}, {"tags": "t"}],
            "config.c": {"$ne": 3}, "$not": {"config.d": {"$not": {"$eq": 4}}}, "config.e": {"$regex": "x"}, "notes": "n"}"#;
        let filter = filter::parse(text).unwrap();
        assert_eq!(Vec::from_iter(fields(&filter)), ["config.a", "config.d", "summary_metrics.b", "tags"]);
    }
}
