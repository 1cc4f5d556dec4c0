//! Lists that are small enough to be searched and sorted in memory: collections, versions, sweeps, projects.
//!
//! Runs have a way of their own, because there are many of them.

use super::page::{after, cursor, cut, length};
use super::scalars::JsonText;
use crate::fault::{Fault, Result};
use serde_json::Value;
use volley_plan::run::filter::{self, Filter};
use volley_plan::run::order::{self, Order};

/// What a client wants of a list, and in which order.
pub struct Search {
    filter: Filter,
    order: Option<Order>,
}

impl Search {
    pub fn read(filters: Option<&JsonText>, order: Option<&str>) -> Result<Search> {
        let text = filters.map(|filters| filters.0.as_str()).filter(|text| !text.is_empty()).unwrap_or("{}");
        let filter = filter::parse(text).map_err(|error| Fault::bad(error.to_string()))?;
        let order = order.filter(|order| !order.is_empty()).map(|order| order::parse(Some(order)));
        Ok(Search { filter, order })
    }

    /// The rows that pass, in the order that was asked for, else in the one that they come in.
    pub fn apply<T>(&self, rows: Vec<T>, field: impl Fn(&T, &str) -> Option<Value>) -> Vec<T> {
        let mut rows: Vec<T> = rows.into_iter().filter(|row| self.filter.passes(&|name| field(row, name))).collect();
        if let Some(order) = &self.order {
            rows.sort_by(|one, other| {
                order.compare(field(one, &order.field).as_ref(), field(other, &order.field).as_ref())
            });
        }
        rows
    }
}

/// A page of a list whose cursors are positions.
pub fn page<T>(rows: Vec<T>, first: Option<i32>, from: Option<&str>) -> (Vec<(String, T)>, bool) {
    let seen = usize::try_from(after(from)).unwrap_or(0);
    let rest = rows.into_iter().enumerate().skip(seen).map(|(at, row)| (cursor(at + 1), row)).collect();
    cut(rest, length(first))
}

pub fn total<T>(rows: &[T]) -> i32 {
    i32::try_from(rows.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ART-17
    #[test]
    fn a_list_is_filtered_sorted_and_cut() {
        let filters = JsonText(r#"{"n": {"$gte": 2}}"#.to_owned());
        let search = Search::read(Some(&filters), Some("-n")).unwrap();
        let rows = search.apply(vec![1, 3, 2, 5], |row, name| (name == "n").then(|| Value::from(*row)));
        assert_eq!(rows, [5, 3, 2]);
        let (first, has_more) = page(rows.clone(), Some(2), None);
        assert!(has_more && first[1].1 == 3);
        let (rest, has_more) = page(rows, Some(2), Some(&first[1].0));
        assert!(!has_more && rest.len() == 1 && rest[0].1 == 2);
        assert!(Search::read(Some(&JsonText("[]".to_owned())), None).is_err());
    }
}
