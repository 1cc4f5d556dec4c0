//! The scalars of W&B's schema.
//!
//! `JSONString` is JSON as text inside a string; it may hold `NaN`, so it is kept byte for byte and never parsed on its
//! way. `JSON` is the value itself.

use async_graphql::{InputValueError, InputValueResult, Number, Scalar, ScalarType, Value};
use jiff::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct JsonText(pub String);

#[Scalar(name = "JSONString")]
impl ScalarType for JsonText {
    fn parse(value: Value) -> InputValueResult<Self> {
        match value {
            Value::String(text) => Ok(JsonText(text)),
            // Somebody who sends the value itself means the same.
            other => Ok(JsonText(serde_json::to_string(&other)?)),
        }
    }

    fn to_value(&self) -> Value {
        Value::String(self.0.clone())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Json(pub serde_json::Value);

#[Scalar(name = "JSON")]
impl ScalarType for Json {
    fn parse(value: Value) -> InputValueResult<Self> {
        Ok(Json(value.into_json()?))
    }

    fn to_value(&self) -> Value {
        Value::from_json(self.0.clone()).unwrap_or_default()
    }
}

/// A time in UTC, kept as microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DateTime(pub i64);

#[Scalar(name = "DateTime")]
impl ScalarType for DateTime {
    fn parse(value: Value) -> InputValueResult<Self> {
        let Value::String(text) = &value else {
            return Err(InputValueError::expected_type(value));
        };
        let time: Timestamp =
            text.parse().map_err(|_| InputValueError::custom("not a time like 2026-01-31T12:00:00Z"))?;
        Ok(DateTime(time.as_microsecond()))
    }

    fn to_value(&self) -> Value {
        Value::String(date_text(self.0))
    }
}

/// To the second and without an offset would do for clients; the `Z` keeps people from guessing.
pub fn date_text(microseconds: i64) -> String {
    match Timestamp::from_microsecond(microseconds) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => String::new(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Int64(pub i64);

#[Scalar(name = "Int64")]
impl ScalarType for Int64 {
    fn parse(value: Value) -> InputValueResult<Self> {
        let number = match &value {
            Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        number.map(Int64).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn to_value(&self) -> Value {
        Value::Number(self.0.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Duration(pub f64);

#[Scalar(name = "Duration")]
impl ScalarType for Duration {
    fn parse(value: Value) -> InputValueResult<Self> {
        let number = if let Value::Number(number) = &value { number.as_f64() } else { None };
        number.map(Duration).ok_or_else(|| InputValueError::expected_type(value))
    }

    fn to_value(&self) -> Value {
        Number::from_f64(self.0).map_or(Value::Null, Value::Number)
    }
}
