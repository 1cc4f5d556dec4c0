//! Lists that are small enough to be searched and sorted in memory: collections, versions, sweeps, projects.
//!
//! Runs are filtered in a way of their own, because there are many of them.

use super::page::{cursor, cursor_key, cut, length};
use super::scalars::JsonText;
use crate::fault::{Fault, Result};
use serde_json::{Value, json};
use std::cmp::Ordering;
use volley_plan::run::filter::{self, Filter};
use volley_plan::run::order::{self, Order};

/// What tells a row from the others of its list; those that are equal otherwise stand in this order.
pub type Number = (i64, i64);

/// Where a row stands: by the value that the list is sorted by, then by its number.
pub type Place = (Option<Value>, Number);

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

    /// The rows that pass, in the order that was asked for, else in that of their numbers.
    pub fn apply<T>(
        &self,
        rows: Vec<T>,
        field: impl Fn(&T, &str) -> Option<Value>,
        number: impl Fn(&T) -> Number,
    ) -> Found<T> {
        let value = |row: &T| self.order.as_ref().and_then(|order| field(row, &order.field));
        let passing = rows.into_iter().filter(|row| self.filter.passes(&|name| field(row, name)));
        Found::new(self.order.clone(), passing.map(|row| ((value(&row), number(&row)), row)).collect())
    }
}

fn compare(order: Option<&Order>, (one, number): &Place, (other, other_number): &Place) -> Ordering {
    let by_value = order.map_or(Ordering::Equal, |order| order.compare(one.as_ref(), other.as_ref()));
    by_value.then_with(|| number.cmp(other_number))
}

/// What a search has found, in order.
pub struct Found<T> {
    order: Option<Order>,
    rows: Vec<(Place, T)>,
}

impl<T> Found<T> {
    pub fn new(order: Option<Order>, mut rows: Vec<(Place, T)>) -> Found<T> {
        rows.sort_by(|(one, _), (other, _)| compare(order.as_ref(), one, other));
        Found { order, rows }
    }

    pub fn total(&self) -> i32 {
        total(&self.rows)
    }

    pub fn into_rows(self) -> Vec<T> {
        self.rows.into_iter().map(|(_, row)| row).collect()
    }

    /// A page with its cursors. A cursor says where its row stands, so the next page begins behind it even if the row is
    /// deleted meanwhile.
    pub fn page(self, first: Option<i32>, from: Option<&str>) -> (Vec<(String, T)>, bool) {
        let seen: Option<Place> = from.and_then(cursor_key).and_then(|key| serde_json::from_str(&key).ok());
        let is_left =
            |place: &Place| seen.as_ref().is_none_or(|seen| compare(self.order.as_ref(), place, seen).is_gt());
        let rest = self.rows.into_iter().filter(|(place, _)| is_left(place)).collect();
        let (rows, has_more) = cut(rest, length(first));
        (rows.into_iter().map(|(place, row)| (cursor(json!(place)), row)).collect(), has_more)
    }
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
        let found = || search.apply(vec![1, 3, 2, 5], |row, name| (name == "n").then(|| json!(row)), |row| (*row, 0));
        assert_eq!((found().total(), found().into_rows()), (3, vec![5, 3, 2]));
        let (first, has_more) = found().page(Some(2), None);
        assert!(has_more && first[1].1 == 3);
        let (rest, has_more) = found().page(Some(2), Some(&first[1].0));
        assert!(!has_more && rest.len() == 1 && rest[0].1 == 2);
        assert!(Search::read(Some(&JsonText("[]".to_owned())), None).is_err());
    }

    // ART-17
    #[test]
    fn deleting_all_that_a_page_has_shown_leaves_nothing_out() {
        // Falling, by a value that many share and some do not have; and without any order.
        for order in [Some("-kind"), Some("kind"), None] {
            let search = Search::read(None, order).unwrap();
            let kind = |row: &i64, _: &str| (row % 4 > 0).then(|| json!(row % 4));
            let (mut left, mut from): (Vec<i64>, Option<String>) = ((0..20).collect(), None);
            loop {
                let (shown, has_more) =
                    search.apply(left.clone(), kind, |row| (*row, 0)).page(Some(3), from.as_deref());
                left.retain(|row| !shown.iter().any(|(_, seen)| seen == row));
                from = shown.last().map(|(cursor, _)| cursor.clone());
                if !has_more {
                    break;
                }
            }
            assert!(left.is_empty(), "{order:?}: {left:?}");
        }
    }
}
