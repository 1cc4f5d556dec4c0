//! Numbers as the reference prints them in its texts: whole floats lose their fraction, exponents start at 1e21.

use serde_json::{Number, Value};

/// A float in the reference's default format.
pub(super) fn float_text(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{value:e}");
        // Exponents have a sign and two digits: 1e+21, 1e-07.
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value}")
}

/// A JSON number in the reference's default format.
pub(super) fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole.to_string(),
        (None, Some(float)) => float_text(float),
        (None, None) => number.to_string(),
    }
}

/// A value as the reference prints it in front of a detail: numbers in their own format, the rest as JSON.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::Number(number) => number_text(number),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-CRD-8
    #[test]
    fn floats_print_as_the_reference_prints_them() {
        let cases = [
            (3.0, "3"),
            (0.5, "0.5"),
            (-2.25, "-2.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1e-7, "1e-07"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(float_text(value), text);
        }
    }
}
