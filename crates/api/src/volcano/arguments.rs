//! Arguments of job plugins, read as Go's `flag` package reads them (PLG-1).
//!
//! Reading stops at the first flag that is unknown or malformed; what was read before it keeps its effect.

use std::collections::BTreeMap;

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    Switch,
}

/// One flag: its name, what it takes, and its value when it is not given.
pub type Flag = (&'static str, Kind, &'static str);

#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    values: BTreeMap<&'static str, String>,
    /// Why reading stopped early, if it did.
    pub problem: Option<String>,
}

impl Arguments {
    pub fn read(flags: &[Flag], words: &[String]) -> Arguments {
        let values = flags.iter().map(|(name, _, default)| (*name, (*default).to_owned())).collect();
        let mut arguments = Arguments { values, problem: None };
        arguments.problem = arguments.take(flags, words).err();
        arguments
    }

    fn take(&mut self, flags: &[Flag], words: &[String]) -> Result<(), String> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(dashed) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
                return Err(format!("`{word}` is not a flag"));
            };
            let body = dashed.strip_prefix('-').unwrap_or(dashed);
            if body.is_empty() {
                return Ok(());
            }
            let (name, given) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
            let Some((name, kind, _)) = flags.iter().find(|(known, ..)| *known == name) else {
                return Err(format!("flag provided but not defined: -{name}"));
            };
            let value = match (given, kind) {
                (Some(value), _) => value,
                (None, Kind::Switch) => "true",
                (None, Kind::Text | Kind::Number) => {
                    words.next().ok_or_else(|| format!("flag needs an argument: -{name}"))?
                }
            };
            let value = checked(*kind, value).ok_or_else(|| format!("invalid value \"{value}\" for flag -{name}"))?;
            self.values.insert(name, value);
        }
        Ok(())
    }

    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }
}

fn checked(kind: Kind, value: &str) -> Option<String> {
    match kind {
        Kind::Text => Some(value.to_owned()),
        Kind::Number => value.parse::<i64>().ok().map(|number| number.to_string()),
        Kind::Switch => match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some("true".to_owned()),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some("false".to_owned()),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] =
        &[("master", Kind::Text, "master"), ("port", Kind::Number, "1"), ("on", Kind::Switch, "false")];

    // PLG-1
    #[test]
    fn flags_are_read_as_go_reads_them() {
        let check = |words: &[&str], expected: (&str, i64, bool), problem: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let read = Arguments::read(FLAGS, &words);
            assert_eq!((read.text("master"), read.number("port"), read.is_on("on")), expected, "{words:?}");
            assert_eq!(read.problem.as_deref().unwrap_or_default(), problem, "{words:?}");
        };
        check(&[], ("master", 1, false), "");
        check(&["--master=a", "-port=2", "--on"], ("a", 2, true), "");
        check(&["--master", "a", "-on=T", "--port", "3"], ("a", 3, true), "");
        check(&["--port=2", "--novel=1", "--master=x"], ("master", 2, false), "flag provided but not defined: -novel");
        check(&["--port=x", "--master=x"], ("master", 1, false), "invalid value \"x\" for flag -port");
        check(&["--master"], ("master", 1, false), "flag needs an argument: -master");
        check(&["plain"], ("master", 1, false), "`plain` is not a flag");
        check(&["--", "--port=5"], ("master", 1, false), "");
    }
}
