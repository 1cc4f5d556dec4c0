//! Cron schedules and time zone names, with the texts that Kubernetes gives for broken ones.
//!
//! Only the syntax is read here; when a schedule is due is the CronJob controller's affair.

use crate::kube::time::parse_duration;

/// A field of a schedule: its bounds and the names that may stand for numbers.
struct Part {
    low: u32,
    high: u32,
    names: &'static [&'static str],
    /// What the first name stands for.
    first: u32,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const PARTS: [Part; 5] = [
    Part { low: 0, high: 59, names: &[], first: 0 },
    Part { low: 0, high: 23, names: &[], first: 0 },
    Part { low: 1, high: 31, names: &[], first: 0 },
    Part { low: 1, high: 12, names: MONTHS, first: 1 },
    Part { low: 0, high: 6, names: DAYS, first: 0 },
];

const MACROS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Reads a schedule of five fields or one macro; the error is the reference's text.
pub fn check_schedule(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule)?;
    if schedule.starts_with('@') {
        return check_macro(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != PARTS.len() {
        let list = fields.join(" ");
        return Err(format!("expected exactly {} fields, found {}: [{list}]", PARTS.len(), fields.len()));
    }
    for (field, part) in fields.iter().zip(&PARTS) {
        for expression in field.split(',').filter(|expression| !expression.is_empty()) {
            check_range(expression, part)?;
        }
    }
    Ok(())
}

/// Drops a leading `TZ=<zone> `; who may use it is for the caller to say.
fn without_zone(schedule: &str) -> Result<&str, String> {
    if !schedule.starts_with("TZ=") && !schedule.starts_with("CRON_TZ=") {
        return Ok(schedule);
    }
    let Some((zone, rest)) = schedule.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
    check_time_zone(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
    Ok(rest.trim())
}

fn check_macro(schedule: &str) -> Result<(), String> {
    if MACROS.contains(&schedule) {
        return Ok(());
    }
    match schedule.strip_prefix("@every ") {
        Some(duration) if parse_duration(duration).is_some() => Ok(()),
        Some(duration) => Err(format!("failed to parse duration {schedule}: time: invalid duration \"{duration}\"")),
        None => Err(format!("unrecognized descriptor: {schedule}")),
    }
}

fn check_range(expression: &str, part: &Part) -> Result<(), String> {
    let mut steps = expression.split('/');
    let bounds: Vec<&str> = steps.next().unwrap_or("").split('-').collect();
    let (mut low, mut high) = (part.low, part.high);
    if !matches!(bounds[0], "*" | "?") {
        low = read(bounds[0], part)?;
        high = match bounds.as_slice() {
            [_] => low,
            [_, end] => read(end, part)?,
            _ => return Err(format!("too many hyphens: {expression}")),
        };
    }
    let mut step = 1;
    if let Some(text) = steps.next() {
        step = read_number(text)?;
        if bounds.len() == 1 {
            high = part.high;
        }
    }
    if steps.next().is_some() {
        return Err(format!("too many slashes: {expression}"));
    }
    if low < part.low {
        return Err(format!("beginning of range ({low}) below minimum ({}): {expression}", part.low));
    }
    if high > part.high {
        return Err(format!("end of range ({high}) above maximum ({}): {expression}", part.high));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {expression}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

fn read(text: &str, part: &Part) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    match (part.first..).zip(part.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => read_number(text),
    }
}

fn read_number(text: &str) -> Result<u32, String> {
    let wrong = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| wrong("value out of range")),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => Err(wrong("value out of range")),
        Err(_) => Err(wrong("invalid syntax")),
    }
}

/// Whether a name may be an IANA time zone. That the zone exists is not checked: the list of zones is the machine's.
pub fn check_time_zone(zone: &str) -> Result<(), String> {
    /// The longest step of a name in the IANA list.
    const STEP_MAX: usize = 14;
    if zone.is_empty() {
        return Err("timeZone must be nil or non-empty string".to_owned());
    }
    let is_step = |step: &str| {
        let shaped = step.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b));
        shaped && (1..=STEP_MAX).contains(&step.len()) && !matches!(step, "." | "..") && !step.starts_with('-')
    };
    if !zone.split('/').all(is_step) {
        return Err(format!("unknown time zone {zone}"));
    }
    if zone.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Err(text.to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_schedules_pass() {
        for schedule in [
            "* * * * *", "*/5 0-6 1,15 jan-MAR sun", "0 0 1 1 ?", "5/10 * * * *", "@hourly", "@every 1h30m",
            "0 22 * * 1-5", "TZ=Asia/Seoul 0 1 * * *", "CRON_TZ=UTC @daily",
        ] {
            assert_eq!(check_schedule(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn broken_schedules_get_the_texts_of_the_reference() {
        for (schedule, expected) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* 5-2 * * *", "beginning of range (5) beyond end of range (2): 5-2"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/1/2 * * * *", "too many slashes: */1/2"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ] {
            assert_eq!(check_schedule(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }

    #[test]
    fn time_zones_must_look_like_one() {
        for zone in ["UTC", "Asia/Seoul", "America/Argentina/Buenos_Aires", "Etc/GMT+1"] {
            assert_eq!(check_time_zone(zone), Ok(()), "{zone}");
        }
        for zone in ["Asia//Seoul", "../etc", "a b", "Averyveryverylongname/X"] {
            assert_eq!(check_time_zone(zone), Err(format!("unknown time zone {zone}")));
        }
        assert!(check_time_zone("").is_err() && check_time_zone("local").is_err());
    }
}
