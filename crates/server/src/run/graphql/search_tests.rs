//! What the database finds is what asking every run finds.

use super::*;
use crate::args;
use crate::database::Database;
use crate::database::postgres::Postgres;
use crate::database::tests::{with_project, with_project_at};
use crate::run::columns::tests::packed;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

const RUNS: usize = 120;
const FILTERS: usize = 200;

fn config(number: usize) -> String {
    match number % 10 {
        0 => json!({ "lr": { "value": 0.1 }, "opt": { "value": { "name": "adam" } } }).to_string(),
        1 => json!({ "lr": { "value": 1 }, "opt": { "value": "sgd" } }).to_string(),
        2 => json!({ "lr": { "value": "0.1" }, "opt": { "value": ["adam", "sgd"] } }).to_string(),
        3 => json!({ "lr": { "value": null }, "flag": { "value": true } }).to_string(),
        4 => r#"{"lr": {"value": NaN}, "opt": {"value": "adam"}}"#.to_owned(),
        5 => "nonsense".to_owned(),
        6 => json!({ "lr": 0.1, "flag": { "value": false } }).to_string(),
        7 => json!({ "opt": { "value": "o'dd \"quoted\" 가" }, "lr": { "value": [0.1, 2] } }).to_string(),
        8 => json!({ "opt.name": { "value": "adam" }, "lr": { "value": 1e300 } }).to_string(),
        _ => "{}".to_owned(),
    }
}

fn summary(number: usize) -> String {
    match number % 4 {
        0 => json!({ "loss": number, "best": { "loss": 0.3 } }).to_string(),
        1 => json!({ "loss": number as f64 / 7.0 }).to_string(),
        2 => r#"{"loss": Infinity}"#.to_owned(),
        _ => json!({ "loss": "diverged" }).to_string(),
    }
}

pub async fn filled() -> (tempfile::TempDir, Database) {
    let (folder, database) = with_project().await;
    fill(&database).await;
    (folder, database)
}

async fn fill(database: &Database) {
    let mut write = database.write().await.unwrap();
    for number in 0..RUNS {
        let sql = "INSERT INTO runs (project_id, name, display_name, tags, config, summary, group_name, job_type, state, \
                   is_stopped, user_id, created_at, updated_at, heartbeat_at, history_lines, event_lines, log_lines, \
                   history_keys, system_metrics) VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, 0, 1, $9, $9, $9, $9, 0, 0, '', '{}')";
        let group = (number % 3 > 0).then(|| format!("g{}", number % 3));
        let job = (number % 2 > 0).then(|| "train".to_owned());
        let state = ["running", "finished", "failed"][number % 3];
        let tags = ["[]", r#"["a"]"#, r#"["a","b\"c"]"#][number % 3];
        let args = args![
            format!("r{number}"),
            format!("Run {}", number % 7),
            tags,
            config(number),
            summary(number),
            group,
            job,
            state,
            number * 1_000_000
        ];
        write.run(sql, args).await.unwrap();
    }
    write.commit().await.unwrap();
}

fn any_operand() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(0.1),
        json!(1),
        json!(1.0),
        json!(20),
        json!(-3),
        json!(1e300),
        json!("0.1"),
        json!("adam"),
        json!("sgd"),
        json!("NaN"),
        json!("o'dd \"quoted\" 가"),
        json!("running"),
        json!("finished"),
        json!("g1"),
        json!("train"),
        json!("a"),
        json!("r7"),
        json!("Run 3"),
        json!("u"),
        json!(null),
        json!(true),
        json!(false),
        json!(["adam", "sgd"]),
        json!({ "name": "adam" }),
        json!("1970-01-01T00:00:30"),
        json!("diverged"),
        json!(17.0 / 7.0),
    ])
}

fn any_test() -> impl Strategy<Value = Value> {
    let one = (prop::sample::select(vec!["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]), any_operand())
        .prop_map(|(operator, operand)| json!({ operator: operand }));
    let list = (prop::sample::select(vec!["$in", "$nin"]), prop::collection::vec(any_operand(), 0..3))
        .prop_map(|(operator, operands)| json!({ operator: operands }));
    prop_oneof![
        4 => one,
        2 => list,
        2 => any_operand().prop_filter("tests are objects", |value| !value.is_object()),
        1 => any::<bool>().prop_map(|wanted| json!({ "$exists": wanted })),
        1 => Just(json!({ "$regex": "^[af]" })),
    ]
}

fn any_filter() -> impl Strategy<Value = Value> {
    let fields = vec![
        "state", "name", "displayName", "tags", "group", "jobType", "username", "createdAt", "historyLineCount",
        "nothing", "config.lr", "config.lr.value", "config.opt", "config.opt.name", "config.flag", "config.a\"b",
        "summary_metrics.loss", "summary_metrics.best.loss",
    ];
    let field = (prop::sample::select(fields), any_test(), any::<bool>()).prop_map(|(field, test, is_negated)| {
        if is_negated && test.is_object() { json!({ field: { "$not": test } }) } else { json!({ field: test }) }
    });
    field.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (prop::sample::select(vec!["$and", "$or", "$nor"]), list).prop_map(|(word, list)| json!({ word: list })),
            inner.prop_map(|inner| json!({ "$not": inner })),
        ]
    })
}

async fn passing(database: &Database, filter: &Filter) -> Vec<Record> {
    search(database, filter).page(false, None, RUNS + 1).await.unwrap()
}

/// Runs of a pack in these tests.
const PACK: usize = 7;

fn search<'a>(database: &'a Database, filter: &'a Filter) -> Search<'a> {
    Search { database, project: 1, filter }
}

/// Asks for the same with many filters in both ways.
async fn check(database: &Database, stage: &str) {
    let all = passing(database, &filter::parse("{}").unwrap()).await;
    assert_eq!(all.len(), RUNS);
    let mut runner = TestRunner::new(Config::default());
    let mut found = 0;
    for number in 0..FILTERS {
        let text = any_filter().new_tree(&mut runner).unwrap().current().to_string();
        let filter = filter::parse(&text).unwrap();
        let passes = |run: &&Record| filter.passes(&Fields::of(run).reader());
        let expected: Vec<i64> = all.iter().filter(passes).map(|run| run.id).collect();
        let page = passing(database, &filter).await;
        assert_eq!(page.iter().map(|run| run.id).collect::<Vec<_>>(), expected, "{stage}: {text}");
        let mut each = Vec::new();
        search(database, &filter).each(|run| each.push(run.run.id)).await.unwrap();
        assert_eq!(each, expected, "{stage}: {text}");
        // A short page, of which the newest are on the first one, and the rest behind it.
        let search = search(database, &filter);
        let first: Vec<i64> = search.page(true, None, 7).await.unwrap().iter().map(|run| run.id).collect();
        let next = search.page(true, first.last().copied(), RUNS).await.unwrap();
        let newest: Vec<i64> = first.iter().copied().chain(next.iter().map(|run| run.id)).collect();
        let whole = if first.is_empty() { Vec::new() } else { newest };
        assert!(first.len() == expected.len().min(7) && whole.iter().eq(expected.iter().rev()), "{stage}: {text}");
        let exact = condition(&filter, database.dialect(), 1);
        if exact.is_exact {
            let count = store::count_passing(database, 1, exact).await.unwrap();
            assert_eq!(usize::try_from(count).unwrap(), expected.len(), "{stage}: {text}");
        }
        assert_eq!(usize::try_from(search.count().await.unwrap()).unwrap(), expected.len(), "{stage}: {text}");
        let order = order::parse(Some(["-summary_metrics.loss", "config.opt", "state", "+createdAt"][number % 4]));
        let (sorted, _) = search.in_order(order.clone(), i32::try_from(RUNS).ok(), None).await.unwrap();
        let mut resorted: Vec<_> =
            all.iter().filter(passes).map(|run| (Fields::of(run).get(&order.field), run.id)).collect();
        resorted.sort_by(|one, other| order.compare(one.0.as_ref(), other.0.as_ref()).then(one.1.cmp(&other.1)));
        let is_same = sorted.iter().map(|(_, run)| run.id).eq(resorted.iter().map(|(_, id)| *id));
        assert!(is_same, "{stage}: {text} by {}", order.field);
        found += expected.len();
    }
    assert!(found > 0, "some filter must find something");
}

// PUB-2
#[tokio::test]
async fn the_database_finds_what_asking_every_run_finds() {
    let (_folder, database) = filled().await;
    check_all(&database).await;
}

// PUB-2
#[tokio::test]
async fn postgres_finds_what_asking_every_run_finds() {
    let postgres = Postgres::start("fsync=off");
    let database = with_project_at(&postgres.url()).await;
    fill(&database).await;
    check_all(&database).await;
}

async fn check_all(database: &Database) {
    check(database, "without columns").await;
    packed(database, PACK).await;
    check(database, "with columns").await;
    for id in (1..).take(RUNS).step_by(7) {
        let mut write = database.write().await.unwrap();
        let number = usize::try_from(id).unwrap() + 3;
        let (config, summary) = (Some(config(number)), Some(summary(number)));
        let edit = store::Edit { config, summary, tags: Some(r#"["a"]"#.to_owned()), ..store::Edit::default() };
        store::edit(&mut write, id, edit, jiff::Timestamp::now()).await.unwrap();
        write.commit().await.unwrap();
    }
    check(database, "while runs change").await;
    packed(database, PACK).await;
    check(database, "after they have changed").await;
    packed(database, PACK - 2).await;
    check(database, "after they were packed otherwise").await;
}

// PUB-2
#[tokio::test]
async fn whatever_changes_a_run_is_seen_by_a_search() {
    let (_folder, database) = filled().await;
    let now = jiff::Timestamp::now();
    let (ended, failed) = (volley_plan::run::state::State::Finished, volley_plan::run::state::State::Failed);
    let counts = async || {
        let texts = [
            r#"{"state": "finished", "config.lr": {"$exists": true}}"#,
            r#"{"state": {"$ne": "finished"}, "tags": {"$exists": true}}"#,
            r#"{"summary_metrics.loss": "new"}"#,
            r#"{"group": "new", "tags": {"$exists": true}}"#,
            r#"{"sweep": {"$exists": true}, "tags": {"$exists": true}}"#,
        ];
        let all = passing(&database, &filter::parse("{}").unwrap()).await;
        let mut counts = Vec::new();
        for text in texts {
            let filter = filter::parse(text).unwrap();
            let count = search(&database, &filter).count().await.unwrap();
            let expected = all.iter().filter(|run| filter.passes(&Fields::of(run).reader())).count();
            assert_eq!(usize::try_from(count).unwrap(), expected, "{text}");
            counts.push(count);
        }
        counts
    };
    packed(&database, PACK).await;
    let mut before = counts().await;
    for change in 0..8 {
        let mut write = database.write().await.unwrap();
        let write_to = &mut write;
        // Run 1 is running and not finished, 4 as well, and so on.
        let id = 1 + 3 * change;
        match change {
            0 => store::set_state(write_to, id, ended, now).await.unwrap(),
            1 => store::end(write_to, id, ended, 0, now).await.unwrap(),
            2 => store::begin(write_to, id, ended, false, now).await.unwrap(),
            3 => store::note_post(write_to, id, posted(failed, Some(r#"{"loss": "new"}"#)), now).await.unwrap(),
            4 => store::note_post(write_to, id, posted(ended, None), now).await.unwrap(),
            5 => store::set_history(write_to, id, 0, "", r#"{"loss": "new"}"#).await.unwrap(),
            6 => {
                let edit = store::Edit { group_name: Some("new".to_owned()), ..store::Edit::default() };
                store::edit(write_to, id, edit, now).await.unwrap();
            }
            _ => store::delete(write_to, 1, id).await.unwrap(),
        }
        write.commit().await.unwrap();
        let after = counts().await;
        assert_ne!(before, after, "change {change}");
        packed(&database, PACK).await;
        assert_eq!(counts().await, after, "change {change}");
        before = after;
    }
}

// PUB-2
#[tokio::test]
async fn a_search_for_few_reads_few() {
    let (_folder, database) = filled().await;
    packed(&database, PACK).await;
    let found = async |text: &str| {
        let filter = filter::parse(text).unwrap();
        let found = candidates(&database, 1, &filter, None).await.unwrap()?;
        Some((found.len(), found.iter().filter(|found| found.is_sure).count()))
    };
    assert_eq!(found(r#"{"config.lr": {"$gt": 1.5}}"#).await, Some((12, 12)));
    assert_eq!(found(r#"{"config.lr": 1, "tags": "a"}"#).await, Some((8, 8)), "12 have 1, of which 4 have no tags");
    assert_eq!(found(r#"{"config.lr": {"$ne": 1}}"#).await, Some((108, 108)));
    assert_eq!(found(r#"{"$or": [{"config.lr": 1}, {"notes": "x"}]}"#).await, Some((120, 12)));
    assert_eq!(found(r#"{"state": "running"}"#).await, None, "the database is as quick");
    let running = volley_plan::run::state::State::Finished;
    let mut write = database.write().await.unwrap();
    store::note_post(&mut write, 5, posted(running, None), jiff::Timestamp::now()).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(found(r#"{"config.lr": 77}"#).await, Some((0, 0)), "a sign of life changes no value");
    let mut write = database.write().await.unwrap();
    store::note_post(&mut write, 5, posted(running, Some("{}")), jiff::Timestamp::now()).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(found(r#"{"config.lr": 77}"#).await, Some((1, 0)));
}

fn posted(state: volley_plan::run::state::State, summary: Option<&str>) -> store::Posted {
    store::Posted {
        state,
        exit_code: None,
        summary: summary.map(str::to_owned),
        system_metrics: None,
        history_keys: None,
        history_lines: 0,
        event_lines: 0,
        log_lines: 0,
    }
}

// PUB-2
#[tokio::test]
async fn pages_of_what_passes_follow_each_other_without_gaps() {
    let (_folder, database) = filled().await;
    let filter = filter::parse(r#"{"config.opt": "adam", "tags": {"$ne": "b\"c"}}"#).unwrap();
    for is_falling in [false, true] {
        let search = search(&database, &filter);
        let whole = search.page(is_falling, None, RUNS).await.unwrap();
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = search.page(is_falling, after, 3).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            pages.extend(page);
        }
        let ids = |runs: &[Record]| runs.iter().map(|run| run.id).collect::<Vec<_>>();
        assert!(!whole.is_empty());
        assert_eq!(ids(&pages), ids(&whole));
    }
}

// PUB-2
#[tokio::test]
async fn pages_in_an_order_of_values_go_on_although_their_last_run_has_moved_or_gone() {
    let (_folder, database) = filled().await;
    let filter = filter::parse(r#"{"state": {"$ne": "failed"}}"#).unwrap();
    for text in ["-summary_metrics.loss", "+config.lr", "displayName"] {
        let order = order::parse(Some(text));
        let search = search(&database, &filter);
        let (whole, has_more) = search.in_order(order.clone(), i32::try_from(RUNS).ok(), None).await.unwrap();
        assert!(whole.len() > 70 && !has_more);
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let (page, has_more) = search.in_order(order.clone(), Some(7), after.as_deref()).await.unwrap();
            after = page.last().map(|(cursor, _)| cursor.clone());
            pages.extend(page.into_iter().map(|(_, run)| run.id));
            if !has_more {
                break;
            }
            // It does not pass any more.
            let mut write = database.write().await.unwrap();
            let last = *pages.last().unwrap();
            store::set_state(&mut write, last, volley_plan::run::state::State::Failed, jiff::Timestamp::now())
                .await
                .unwrap();
            write.commit().await.unwrap();
        }
        assert_eq!(pages, whole.iter().map(|(_, run)| run.id).collect::<Vec<_>>(), "{text}");
        let sql = "UPDATE runs SET state = 'finished' WHERE state = 'failed' AND updated_at > 1000000000000000";
        let mut write = database.write().await.unwrap();
        write.run(sql, args![]).await.unwrap();
        write.commit().await.unwrap();
    }
}

// PUB-2
#[tokio::test]
async fn long_lists_of_what_is_wanted_are_searched_for() {
    let (_folder, database) = filled().await;
    for stage in ["without columns", "with them"] {
        for field in ["name", "state", "tags", "config.lr", "summary_metrics.loss"] {
            let wanted: Vec<Value> = (0..3000).map(|number| json!(format!("r{number}"))).chain([json!(1)]).collect();
            let any: Vec<Value> = wanted.iter().take(700).map(|wanted| json!({ field: wanted })).collect();
            for text in
                [json!({ field: { "$in": wanted } }), json!({ field: { "$nin": wanted } }), json!({ "$or": any })]
            {
                let filter = filter::parse(&text.to_string()).unwrap();
                let found = passing(&database, &filter).await;
                let expected = passing(&database, &filter::parse("{}").unwrap()).await;
                let expected = expected.into_iter().filter(|run| filter.passes(&Fields::of(run).reader()));
                assert_eq!(found.len(), expected.count(), "{stage}: {field}");
            }
        }
        packed(&database, PACK).await;
    }
}
