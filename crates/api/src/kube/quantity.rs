//! Quantities: exact amounts of CPU, memory and devices, read and written as Kubernetes does (spec K-OBJ-6).
//!
//! An amount is a whole number of nano units in an `i128`; what is finer is rounded away from zero, what is larger
//! is held at the limit. The spelling family (decimal, binary, exponent) travels along because it decides how the
//! amount is written again.

use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const NANO: i128 = 1_000_000_000;
/// The limit: round, so that what is held at it is written and read again as the same.
const MAX: i128 = 170 * 10i128.pow(36);
/// Binary quantities stop here, as upstream's do.
const BINARY_MAX: i128 = i64::MAX as i128 * NANO;

pub const ERROR_FORMAT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
pub const ERROR_SUFFIX: &str = "unable to parse quantity's suffix";

/// The family of suffixes that a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// An exact amount; compared by value only (`1024Mi` equals `1Gi`).
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nano: i128,
    format: Format,
}

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// The text of a quantity taken apart; leading zeros of `whole` are gone.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn digits_end(text: &str, from: usize) -> usize {
    text.as_bytes()[from..].iter().position(|b| !b.is_ascii_digit()).map_or(text.len(), |n| from + n)
}

fn split(text: &str) -> Result<Parts<'_>, String> {
    let bytes = text.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative || bytes.first() == Some(&b'+'));
    let end = digits_end(text, start);
    let whole = text[start..end].trim_start_matches('0');
    let mut position = end;
    let mut fraction = "";
    if bytes.get(position) == Some(&b'.') {
        let end = digits_end(text, position + 1);
        fraction = &text[position + 1..end];
        position = end;
    }
    let suffix = &text[position..];
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if text.is_empty() || !exponent.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ERROR_FORMAT.to_owned());
    }
    Ok(Parts { negative, whole, fraction, suffix })
}

/// Family and exponent (of ten, or of two for the binary family) of a suffix.
fn interpret(suffix: &str) -> Option<(Format, i32)> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::DecimalSi, *exponent));
    }
    if let Some((_, exponent)) = BINARY_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::BinarySi, *exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    Some((Format::DecimalExponent, exponent))
}

/// `value` times ten to the `power`, held at the limit upwards and rounded away from zero downwards.
fn scale_ten(value: i128, power: i32) -> i128 {
    if value == 0 {
        return 0;
    }
    match (10i128.checked_pow(power.unsigned_abs()), power >= 0) {
        (Some(factor), true) => value.saturating_mul(factor),
        (Some(factor), false) => divide_up(value, factor),
        (None, true) => MAX,
        (None, false) => 1,
    }
}

/// Division that rounds away from zero: who asks for a little gets a little.
fn divide_up(value: i128, by: i128) -> i128 {
    value / by + (value % by).signum()
}

/// How many of the digits fit the amount; the ones beyond are finer than any unit we keep.
const DIGITS_MAX: usize = 38;

impl Parts<'_> {
    /// All digits as one number, and how many of them stood behind the point.
    fn mantissa(&self) -> (i128, i32) {
        if self.whole.len() > DIGITS_MAX {
            return (i128::MAX, 0);
        }
        let mut value = 0i128;
        let mut places = 0;
        let digits = self.whole.bytes().map(|b| (b, 0)).chain(self.fraction.bytes().map(|b| (b, 1)));
        for (digit, place) in digits.take(DIGITS_MAX) {
            value = value.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
            places += place;
        }
        (value, places)
    }

    fn quantity(&self, format: Format, exponent: i32) -> Quantity {
        let (mantissa, places) = self.mantissa();
        let (nano, format) = match format {
            Format::DecimalSi | Format::DecimalExponent => {
                (scale_ten(mantissa, exponent.saturating_sub(places).saturating_add(9)), format)
            }
            Format::BinarySi => {
                let nano = scale_ten(mantissa.saturating_mul(1 << exponent), 9 - places).min(BINARY_MAX);
                (nano, if (1..NANO).contains(&nano) { Format::DecimalSi } else { format })
            }
        };
        let nano = nano.min(MAX);
        Quantity { nano: if self.negative { -nano } else { nano }, format }
    }

    /// True where upstream keeps the text as it was sent instead of writing the amount again.
    fn keeps_text(&self, format: Format, exponent: i32) -> bool {
        let length = self.whole.len().max(1) + self.fraction.len();
        match format {
            Format::DecimalSi | Format::DecimalExponent => {
                let scale = exponent.saturating_sub(self.fraction.len() as i32);
                let tail_is_zeros = self.mantissa().0 % 1000 == 0;
                length <= 18 && scale >= -9 && scale % 3 == 0 && !self.whole.is_empty() && !tail_is_zeros
            }
            Format::BinarySi => {
                let precise = 14 - self.whole.len().max(1) as i32 - exponent * 3 / 10 >= 0;
                precise && self.fraction.is_empty() && self.mantissa().0 & 7 != 0
            }
        }
    }
}

fn read(text: &str) -> Result<(Quantity, bool), String> {
    let parts = split(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or_else(|| ERROR_SUFFIX.to_owned())?;
    Ok((parts.quantity(format, exponent), parts.keeps_text(format, exponent)))
}

/// The text under which this quantity is stored.
pub fn canonical(text: &str) -> Result<String, String> {
    let (quantity, keeps_text) = read(text)?;
    Ok(if keeps_text { text.to_owned() } else { quantity.to_string() })
}

/// As `canonical`, for a JSON value: numbers are quantities too, and null is none at all.
pub fn canonical_value(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => canonical(text.trim()),
        Value::Number(number) => canonical(&number.to_string()),
        Value::Null => Ok("0".to_owned()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(ERROR_FORMAT.to_owned()),
    }
}

fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { nano: 0, format: Format::DecimalSi };

    pub fn parse(text: &str) -> Result<Quantity, String> {
        read(text).map(|(quantity, _)| quantity)
    }

    /// A whole number of units, written decimally.
    pub fn whole(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * NANO, format: Format::DecimalSi }
    }

    /// Thousandths of a unit, written decimally.
    pub fn milli(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * (NANO / 1000), format: Format::DecimalSi }
    }

    /// A whole number of bytes, written in Ki, Mi, Gi, …
    pub fn bytes(value: i64) -> Quantity {
        Quantity { nano: i128::from(value) * NANO, format: Format::BinarySi }
    }

    pub fn is_zero(self) -> bool {
        self.nano == 0
    }

    pub fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Whole units, rounded away from zero.
    pub fn value(self) -> i64 {
        saturate(divide_up(self.nano, NANO))
    }

    /// Thousandths, rounded away from zero.
    pub fn milli_value(self) -> i64 {
        saturate(divide_up(self.nano, NANO / 1000))
    }

    /// The amount in whole thousandths, rounded away from zero; `None` when it is that already.
    pub fn rounded_to_milli(self) -> Option<Quantity> {
        const MILLI: i128 = NANO / 1000;
        (self.nano % MILLI != 0)
            .then(|| Quantity { nano: divide_up(self.nano, MILLI).saturating_mul(MILLI), format: self.format })
    }
}

impl Quantity {
    /// Sums are written like the first operand that is not zero.
    fn format_with(self, other: Quantity) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_add(other.nano), format: self.format_with(other) }
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        Quantity { nano: self.nano.saturating_sub(other.nano), format: self.format_with(other) }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl std::str::FromStr for Quantity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Quantity::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let is_small = self.nano.unsigned_abs() < 1024 * NANO.unsigned_abs();
        match self.format {
            Format::BinarySi if !is_small && self.nano % NANO == 0 => self.write_binary(f),
            Format::DecimalExponent => self.write_decimal(f, true),
            Format::BinarySi | Format::DecimalSi => self.write_decimal(f, false),
        }
    }
}

impl Quantity {
    fn write_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = self.nano / NANO;
        let mut suffix = "";
        for (name, _) in BINARY_SUFFIXES {
            if number % 1024 != 0 {
                break;
            }
            number /= 1024;
            suffix = name;
        }
        write!(f, "{number}{suffix}")
    }

    fn write_decimal(self, f: &mut fmt::Formatter<'_>, as_exponent: bool) -> fmt::Result {
        let mut number = self.nano;
        let mut exponent = -9;
        while number % 1000 == 0 && (as_exponent || exponent < 18) {
            number /= 1000;
            exponent += 3;
        }
        if as_exponent {
            return if exponent == 0 { write!(f, "{number}") } else { write!(f, "{number}e{exponent}") };
        }
        let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent).map_or("", |(name, _)| name);
        write!(f, "{number}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    // K-OBJ-6
    #[test]
    fn canonical_texts_are_those_of_the_reference() {
        let cases = [
            ("0", "0"),
            ("1", "1"),
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("100Mi", "100Mi"),
            ("8Ki", "8Ki"),
            ("1024", "1024"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("1000e3", "1e6"),
            ("100e1", "1e3"),
            ("12e0", "12e0"),
            ("512Ki", "512Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("0Mi", "0"),
            ("-1", "-1"),
            ("-1024Ki", "-1Mi"),
            ("100Ti", "100Ti"),
            ("9Ei", "9223372036854775807"),
            ("0.0000000001", "1n"),
            ("1.", "1."),
            ("5k", "5k"),
            ("5000k", "5M"),
            ("1.2345", "1234500u"),
            ("1.234", "1.234"),
            ("+1", "+1"),
            (".001Ki", "1024m"),
            (".000000000001Ki", "2n"),
            ("1080000000n", "1080m"),
            ("1025024Mi", "1001Gi"),
            (".001e12", "1e9"),
            ("1000e-12", "1e-9"),
            ("3.001n", "4n"),
            ("1.G", "1.G"),
            ("0.001T", "1G"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    // K-OBJ-6
    #[test]
    fn json_numbers_are_quantities() {
        assert_eq!(canonical_value(&json!(1)).as_deref(), Ok("1"));
        assert_eq!(canonical_value(&json!(0.5)).as_deref(), Ok("500m"));
        assert_eq!(canonical_value(&json!(" 1Gi ")).as_deref(), Ok("1Gi"));
        assert_eq!(canonical_value(&Value::Null).as_deref(), Ok("0"));
        assert_eq!(canonical_value(&json!(true)), Err(ERROR_FORMAT.to_owned()));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in ["", "abc", "1x", "1.2.3", "1 Gi", "Gi1x", "１"] {
            assert_eq!(canonical(text), Err(ERROR_FORMAT.to_owned()), "{text}");
        }
        for text in ["1e", "1mm", "1Kie", "1kk", "1ki"] {
            assert_eq!(canonical(text), Err(ERROR_SUFFIX.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_larger_than_anything_is_held_at_a_limit_that_reads_as_itself() {
        for (text, rounded) in
            [("1e99", None), ("-1e99", None), ("170141183460469231731687303715884105727n", None), ("0.1n", Some("1m"))]
        {
            let amount = Quantity::parse(text).expect("a valid quantity");
            assert_eq!(Quantity::parse(&amount.to_string()), Ok(amount), "{text}");
            assert_eq!(amount.rounded_to_milli().map(|amount| amount.to_string()).as_deref(), rounded, "{text}");
            let sum = amount + amount;
            assert_eq!(sum + Quantity::ZERO, sum, "{text}: {sum}");
        }
    }

    #[test]
    fn amounts_compare_and_add_by_value() {
        let parse = |text| Quantity::parse(text).expect("a valid quantity");
        assert_eq!(parse("1024Mi"), parse("1Gi"));
        assert!(parse("1G") < parse("1Gi"));
        assert_eq!((parse("100m") + parse("900m")).to_string(), "1");
        assert_eq!((Quantity::ZERO + parse("2048Ki")).to_string(), "2Mi");
        assert_eq!((parse("1Gi") - parse("1Mi")).to_string(), "1023Mi");
        assert_eq!((parse("1.5").value(), parse("1.5").milli_value(), parse("1u").milli_value()), (2, 1500, 1));
        assert_eq!(parse("1e100").value(), i64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn writing_again_keeps_the_amount_and_settles(number in -1_000_000i64..1_000_000, places in 0usize..4,
                                         suffix in prop::sample::select(vec!["", "m", "u", "k", "M", "Ki", "Mi", "Gi", "e3", "E-2"])) {
            let text = match places {
                0 => format!("{number}{suffix}"),
                _ => format!("{number}.{}{suffix}", "5".repeat(places)),
            };
            let once = canonical(&text).expect("a valid quantity");
            let twice = canonical(&once).expect("canonical text is valid");
            // A binary amount may come out without a suffix and is decimal from then on, as in the reference.
            prop_assert_eq!(canonical(&twice), Ok(twice.clone()));
            let quantity = Quantity::parse(&text).expect("a valid quantity");
            prop_assert_eq!(quantity, Quantity::parse(&once).expect("canonical text is valid"));
            prop_assert_eq!(quantity, Quantity::parse(&quantity.to_string()).expect("written text is valid"));
        }

        #[test]
        fn adding_and_taking_away_leaves_the_amount(a in any::<i64>(), b in any::<i64>()) {
            let (a, b) = (Quantity::milli(a), Quantity::milli(b));
            prop_assert_eq!(a + b - b, a);
            prop_assert_eq!(a + b, b + a);
            prop_assert_eq!(a + b > a, b > Quantity::ZERO);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.eEinumkKMGTP]{0,60}") {
            let _ = canonical(&text);
        }
    }
}
