//! One scalar at a time: is it of its type, and is it spelt as it will be stored (spec K-OBJ-6, K-OBJ-7).

use super::{Step, word};
use crate::kube::quantity;
use crate::kube::schema::Scalar;
use jiff::Timestamp;
use serde_json::{Number, Value};

/// Checks one value and rewrites it where the stored spelling differs; null afterwards means that it is unset.
pub fn conform(scalar: Scalar, value: &mut Value, step: &Step) -> Result<(), String> {
    match scalar {
        Scalar::String | Scalar::Duration if value.is_string() => Ok(()),
        Scalar::Boolean if value.is_boolean() => Ok(()),
        Scalar::Number if value.is_number() => Ok(()),
        Scalar::Int32 | Scalar::Int64 => integer(scalar, value, step),
        Scalar::IntOrString if value.is_string() => Ok(()),
        Scalar::IntOrString => integer(Scalar::Int32, value, step),
        Scalar::Quantity => {
            let canonical = quantity::canonical_value(value)?;
            if value.as_str() != Some(&canonical) {
                *value = Value::String(canonical);
            }
            Ok(())
        }
        Scalar::Time | Scalar::MicroTime => time(scalar, value, step),
        Scalar::Bytes => base64(value, step),
        Scalar::String | Scalar::Duration | Scalar::Boolean | Scalar::Number => {
            Err(step.wrong_type(word(value), go_type(scalar)))
        }
    }
}

pub fn go_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String | Scalar::Duration | Scalar::Time | Scalar::MicroTime => "string",
        Scalar::Int32 | Scalar::IntOrString => "int32",
        Scalar::Int64 => "int64",
        Scalar::Number => "float64",
        Scalar::Boolean => "bool",
        Scalar::Bytes => "[]uint8",
        Scalar::Quantity => "resource.Quantity",
    }
}

pub fn zero(scalar: Scalar) -> Value {
    match scalar {
        Scalar::String | Scalar::Bytes => "".into(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => 0.into(),
        Scalar::Boolean => false.into(),
        Scalar::Duration => "0s".into(),
        Scalar::Quantity => "0".into(),
        Scalar::Time | Scalar::MicroTime => Value::Null,
    }
}

fn integer(scalar: Scalar, value: &mut Value, step: &Step) -> Result<(), String> {
    let Value::Number(number) = value else {
        return Err(step.wrong_type(word(value), go_type(scalar)));
    };
    let Some(whole) = whole(number) else {
        return Err(step.wrong_type(&format!("number {number}"), go_type(scalar)));
    };
    if scalar == Scalar::Int32 && i32::try_from(whole).is_err() {
        return Err(step.wrong_type(&format!("number {number}"), "int32"));
    }
    if number.is_f64() {
        *value = whole.into();
    }
    Ok(())
}

/// The integer that a number is, also when it is written `1.0`.
fn whole(number: &Number) -> Option<i64> {
    /// Above this, not every integer has a float of its own.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() <= EXACT_MAX).then_some(float as i64)
    })
}

/// Go's zero time; it is written as null, that is, not at all.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

fn time(scalar: Scalar, value: &mut Value, step: &Step) -> Result<(), String> {
    let Value::String(text) = value else {
        return Err(step.wrong_type(word(value), go_type(scalar)));
    };
    let layout = if scalar == Scalar::Time { RFC3339 } else { RFC3339_MICRO };
    let time = rfc3339(text).ok_or_else(|| unreadable_time(text, layout))?;
    if time.as_second() == ZERO_TIME_SECONDS && time.subsec_nanosecond() == 0 {
        *value = Value::Null;
        return Ok(());
    }
    let stored = spell_time(scalar, time);
    if *text != stored {
        *text = stored;
    }
    Ok(())
}

/// Whole seconds, or six decimals for micro-time; what is finer is cut off.
pub fn spell_time(scalar: Scalar, time: Timestamp) -> String {
    let floor = |nanos_unit: i128| {
        Timestamp::from_nanosecond(time.as_nanosecond().div_euclid(nanos_unit) * nanos_unit).unwrap_or(time)
    };
    match scalar {
        Scalar::MicroTime => format!("{:.6}", floor(1_000)),
        _ => format!("{:.0}", floor(1_000_000_000)),
    }
}

const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads RFC 3339 and nothing looser; the library alone would also take a space or a missing offset's minutes.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_zone = bytes.last() == Some(&b'Z') || bytes.len() >= 25 && matches!(bytes[bytes.len() - 6], b'+' | b'-');
    if bytes.len() < 20 || bytes[10] != b'T' || bytes[16] != b':' || !has_zone {
        return None;
    }
    text.parse().ok()
}

/// Go names the rest of the text and the part of its layout that did not fit.
fn unreadable_time(text: &str, layout: &str) -> String {
    const PARTS: [(usize, usize, &str); 6] =
        [(0, 4, "2006"), (5, 7, "01"), (8, 10, "02"), (11, 13, "15"), (14, 16, "04"), (17, 19, "05")];
    const SEPARATORS: [(usize, &str); 5] = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")];
    let bytes = text.as_bytes();
    let rest = |from: usize| text.get(from.min(text.len())..).unwrap_or(text);
    for (index, (from, to, part)) in PARTS.into_iter().enumerate() {
        let digits = bytes.get(from..to);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit)) {
            return format!("parsing time {text:?} as {layout:?}: cannot parse {:?} as {part:?}", rest(from));
        }
        if let Some((at, separator)) = SEPARATORS.get(index).filter(|(at, s)| bytes.get(*at) != s.as_bytes().first()) {
            return format!("parsing time {text:?} as {layout:?}: cannot parse {:?} as {separator:?}", rest(*at));
        }
    }
    if bytes.len() == 19 || !matches!(bytes[19], b'Z' | b'+' | b'-' | b'.') {
        return format!("parsing time {text:?} as {layout:?}: cannot parse {:?} as \"Z07:00\"", rest(19));
    }
    format!("parsing time {text:?}: value out of range")
}

fn base64(value: &mut Value, step: &Step) -> Result<(), String> {
    let Value::String(text) = value else {
        return Err(step.wrong_type(word(value), go_type(Scalar::Bytes)));
    };
    // Go's decoder skips line breaks, and writes none back.
    if text.contains(['\r', '\n']) {
        text.retain(|c| c != '\r' && c != '\n');
    }
    match base64_fault(text.as_bytes()) {
        Some(at) => Err(format!("illegal base64 data at input byte {at}")),
        None => Ok(()),
    }
}

/// Where Go's decoder would stop; nothing is decoded, so a megabyte of secret costs one pass and no memory.
fn base64_fault(text: &[u8]) -> Option<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let digits = text.iter().take_while(|byte| is_digit(byte)).count();
    let (place, rest) = (digits % 4, &text[digits..]);
    match (place, rest) {
        (0, []) => None,
        (2, [b'=', b'=']) | (3, [b'=']) => None,
        (_, []) => Some(digits - place),
        (2, [b'=']) => Some(text.len()),
        (2, [b'=', b'=', ..]) => Some(digits + 2),
        (2, [b'=', ..]) => Some(digits + 1),
        (3, [b'=', ..]) => Some(digits + 1),
        _ => Some(digits),
    }
}
