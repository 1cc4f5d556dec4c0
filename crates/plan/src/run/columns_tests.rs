//! Laws of packs: what they say is what their runs say; and what they leave undecided.

use super::super::filter;
use super::*;
use proptest::prelude::*;

#[derive(Debug)]
struct Run {
    config: Map<String, Value>,
    summary: Map<String, Value>,
    tags: Value,
    state: &'static str,
}

impl Run {
    fn get(&self, field: &str) -> Option<Value> {
        if let Some(key) = field.strip_prefix("config.") {
            return config_value(&self.config, key).cloned();
        }
        if let Some(key) = field.strip_prefix("summary_metrics.").or_else(|| field.strip_prefix("summary.")) {
            return lookup(&self.summary, key).cloned();
        }
        match field {
            "tags" => Some(self.tags.clone()),
            "state" => Some(Value::from(self.state)),
            _ => None,
        }
    }
}

fn packed(runs: &[Run]) -> BTreeMap<String, String> {
    let gets: Vec<_> = runs.iter().map(|run| |field: &str| run.get(field)).collect();
    let runs = runs.iter().zip(&gets).zip(0..);
    let runs = runs.map(|((run, get), id)| Packed { id, config: &run.config, summary: &run.summary, get });
    pack(&runs.collect::<Vec<_>>())
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![i64::MAX, i64::MAX - 1, 1 << 53, (1 << 53) + 1, 0, 1, -1]).prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::sample::select(vec![0.0, -0.0, 1.0, 1.5, f64::MAX, 5e-324]).prop_map(Value::from),
        "[a-c가\u{0}\u{10ffff}\"]{0,2}".prop_map(Value::from),
        "x{499}[ab]{0,2}".prop_map(Value::from),
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "a.b", "b.a", "value", "a.value", "value.a", "a.value.b", "_wandb", "", "a\0"])
        .prop_map(str::to_owned)
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(3, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            inner.clone().prop_map(|item| Value::from(vec![item; 33])),
            prop::collection::hash_map(any_key(), inner, 0..3).prop_map(Value::from_iter),
        ]
    })
}

fn any_run() -> impl Strategy<Value = Run> {
    let wrapped = prop_oneof![9 => any_value().prop_map(|value| json!({ "value": value })), 1 => any_value()];
    let config = prop::collection::hash_map(any_key(), wrapped, 0..4);
    let summary = prop::collection::hash_map(any_key(), any_value(), 0..4);
    let tags = prop::collection::vec("[ab]", 0..3).prop_map(Value::from);
    (config, summary, tags, prop::sample::select(vec!["running", "finished"])).prop_map(
        |(config, summary, tags, state)| Run {
            config: config.into_iter().collect(),
            summary: summary.into_iter().collect(),
            tags,
            state,
        },
    )
}

fn any_field() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec!["config.", "summary.", "summary_metrics."]);
    let part = prop::sample::select(vec!["a", "b", "value", "_wandb"]);
    let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("."));
    prop_oneof![
        8 => (start, path).prop_map(|(start, path)| format!("{start}{path}")),
        1 => Just("tags".to_owned()),
        1 => Just("state".to_owned()),
        1 => Just("notes".to_owned()),
    ]
}

fn any_filter() -> impl Strategy<Value = Value> {
    let compared = (prop::sample::select(vec!["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), any_scalar())
        .prop_map(|(operator, operand)| json!({ operator: operand }));
    let test = prop_oneof![
        4 => compared,
        2 => prop::collection::vec(any_value(), 0..3).prop_map(|operands| json!({ "$in": operands })),
        2 => any_value().prop_map(|value| json!({ "$eq": value })),
        1 => any::<bool>().prop_map(|wanted| json!({ "$exists": wanted })),
        1 => Just(json!({ "$regex": "a" })),
        1 => Just(json!({ "$size": 2 })),
    ];
    let field = (any_field(), test).prop_map(|(field, test)| json!({ field: test }));
    field.prop_recursive(2, 8, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (prop::sample::select(vec!["$and", "$or", "$nor"]), list).prop_map(|(word, list)| json!({ word: list })),
            inner.prop_map(|inner| json!({ "$not": inner })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    // PUB-2
    #[test]
    fn a_pack_says_what_its_runs_say_or_nothing(
        runs in prop::collection::vec(any_run(), 1..5), filter in any_filter(), order in any_field(),
        wanted in any_field(), is_itself in any::<bool>(),
    ) {
        let itself = runs[0].get(&wanted).filter(|_| is_itself);
        let text = itself.map_or(filter, |value| json!({ wanted: { "$eq": value } })).to_string();
        let filter = filter::parse(&text).unwrap();
        let asked = Asked::of(filter.fields().into_iter().chain([order.as_str()]));
        let found = candidates(&asked, &filter, Some(&order), &packed(&runs)).unwrap();
        for (run, id) in runs.iter().zip(0..) {
            let passes = filter.passes(&|field| run.get(field));
            match found.iter().find(|found| found.id == id) {
                None => prop_assert!(!passes, "{text} left out {}", json!(run.config)),
                Some(found) => {
                    prop_assert!(passes || !found.is_sure, "{text} took {}", json!(run.config));
                    if let Some(value) = &found.value {
                        prop_assert_eq!(value, &run.get(&order).unwrap_or_default());
                    }
                }
            }
        }
    }
}

fn run(number: i64) -> Run {
    let config =
        json!({ "lr": { "value": number as f64 / 10.0 }, "model": { "value": { "depth": number, "kind": "x" } } });
    let summary = json!({ "loss": number, "history": { "_type": "histogram", "bins": vec![0; 100] } });
    let object = |value: Value| value.as_object().unwrap().clone();
    Run { config: object(config), summary: object(summary), tags: json!(["a"]), state: "finished" }
}

// PUB-2
#[test]
fn usual_filters_are_decided_without_asking_a_run() {
    let runs: Vec<Run> = (0..10).map(run).collect();
    let packed = packed(&runs);
    let cases = [
        (r#"{"config.lr": 0.3}"#, 1),
        (r#"{"config.lr.value": {"$gt": 0.55}}"#, 4),
        (r#"{"config.model.depth": {"$ne": 3}}"#, 9),
        (r#"{"config.model.value.depth": {"$in": [1, 2, 77]}}"#, 2),
        (r#"{"config.model": {"$exists": true}}"#, 10),
        (r#"{"config.model": 5}"#, 0),
        (r#"{"summary_metrics.loss": {"$lt": 2}, "state": "finished", "tags": {"$in": ["a", "b"]}}"#, 2),
        (r#"{"summary.nothing": {"$exists": false}, "config.model.kind": {"$regex": "^x"}}"#, 10),
    ];
    for (text, expected) in cases {
        let filter = filter::parse(text).unwrap();
        let found = candidates(&Asked::of(filter.fields()), &filter, None, &packed).unwrap();
        assert!(found.iter().all(|found| found.is_sure), "{text}");
        assert_eq!(found.len(), expected, "{text}");
    }
}

// PUB-2
#[test]
fn a_config_key_with_dots_is_found_by_either_spelling() {
    let flat = json!({ "opt.lr": { "value": 1 }, "opt": { "value": { "lr": 2, "eps": 3 } } });
    let flat = Run { config: flat.as_object().unwrap().clone(), ..run(1) };
    let cases =
        [("opt.lr", json!(1)), ("opt.value.lr", json!(1)), ("opt.lr.value", json!(1)), ("opt.value.eps", json!(3))];
    for (key, expected) in cases {
        assert_eq!(flat.get(&format!("config.{key}")), Some(expected), "{key}");
    }
}

// PUB-2
#[test]
fn what_a_pack_has_no_column_of_is_left_to_the_runs() {
    let wide = |number: usize| {
        let config = (0..300).map(|key| (format!("k{}", number * 300 + key), json!({ "value": 1 })));
        Run { config: config.chain([("lr".to_owned(), json!({ "value": 1 }))]).collect(), ..run(1) }
    };
    let packed = packed(&(0..5).map(wide).collect::<Vec<_>>());
    assert_eq!(packed.len(), COLUMNS_MAX + 1);
    let found = |text: &str| {
        let filter = filter::parse(text).unwrap();
        let found = candidates(&Asked::of(filter.fields()), &filter, None, &packed).unwrap();
        (found.len(), found.iter().filter(|found| found.is_sure).count())
    };
    assert_eq!(found(r#"{"config.lr": 1}"#), (5, 5), "what all have is kept");
    assert_eq!(found(r#"{"config.k999": 1}"#), (5, 0), "this one was left out, so anybody may have it");
    assert_eq!(found(r#"{"summary_metrics.loss": 1}"#), (5, 5), "a flood of config leaves room for the summary");
    assert_eq!(found(r#"{"notes": "x"}"#), (5, 0));
}

#[test]
fn texts_that_are_no_columns_decide_nothing() {
    let filter = filter::parse(r#"{"config.lr": 1}"#).unwrap();
    let asked = Asked::of(filter.fields());
    assert_eq!(candidates(&asked, &filter, None, &BTreeMap::new()), None);
    let mut packed = packed(&[run(1)]);
    packed.insert("config.lr".to_owned(), "[".to_owned());
    assert!(!candidates(&asked, &filter, None, &packed).unwrap()[0].is_sure);
    packed.insert(RUNS.to_owned(), "nonsense".to_owned());
    assert_eq!(candidates(&asked, &filter, None, &packed), None);
}
