//! In which order runs are listed: `-created_at`, `+summary_metrics.loss`, `config.lr.value`.

use super::filter::compare;
use serde_json::Value;
use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub field: String,
    pub is_falling: bool,
}

/// The order that a client names; rising by age when it names none.
pub fn parse(text: Option<&str>) -> Order {
    let text = text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("created_at");
    let (is_falling, field) = match text.strip_prefix('-') {
        Some(field) => (true, field),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    Order { field: field.to_owned(), is_falling }
}

impl Order {
    /// How two values stand; what is missing comes last, whichever way.
    pub fn compare(&self, one: Option<&Value>, other: Option<&Value>) -> Ordering {
        let present = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
        match (present(one), present(other)) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => Ordering::Equal,
            (true, true) => {
                let order = one.zip(other).map_or(Ordering::Equal, |(one, other)| {
                    kind(one).cmp(&kind(other)).then_with(|| compare(one, other).unwrap_or(Ordering::Equal))
                });
                if self.is_falling { order.reverse() } else { order }
            }
        }
    }
}

/// Values of different kinds have no order of their own, but a sort needs one.
fn kind(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Null | Value::Array(_) | Value::Object(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // PUB-2
    #[test]
    fn what_is_missing_comes_last_either_way() {
        for text in ["-summary_metrics.loss", "+summary_metrics.loss"] {
            let order = parse(Some(text));
            assert_eq!(order.field, "summary_metrics.loss");
            assert_eq!(order.compare(Some(&json!(1)), None), Ordering::Less);
            assert_eq!(order.compare(None, Some(&json!(1))), Ordering::Greater);
        }
        assert_eq!(parse(Some("-x")).compare(Some(&json!(1)), Some(&json!(2))), Ordering::Greater);
        assert_eq!(parse(None), Order { field: "created_at".into(), is_falling: false });
    }

    #[test]
    fn values_of_all_kinds_have_one_order() {
        let values = [json!(2), json!("a"), json!(1.5), json!(true), json!([1]), json!("b"), json!(null), json!({})];
        let order = parse(Some("-x"));
        for one in &values {
            for two in &values {
                let forth = order.compare(Some(one), Some(two));
                assert_eq!(forth.reverse(), order.compare(Some(two), Some(one)), "{one} {two}");
                for three in &values {
                    let rest = order.compare(Some(two), Some(three));
                    if forth == rest {
                        assert_eq!(order.compare(Some(one), Some(three)), forth, "{one} {two} {three}");
                    }
                }
            }
        }
    }
}
