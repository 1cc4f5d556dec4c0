//! `${name}` in a config's values: what the agent knows of the launch, and those of its variables that it may tell.
//!
//! `${name:-fallback}` gives a value for an absent one and may hold macros itself, `${name|dns}` and `${name|label}` make
//! it fit, `$${` is a plain `${`. What is no macro of ours stays as it is written: it may be meant for a shell.

use super::layers::joined;
use super::order::Order;
use super::{Note, names};
use crate::queue::template;
use serde_json::Value;
use std::collections::BTreeMap;

/// A fallback in a fallback in a fallback is as deep as anybody writes; what is around more is no macro.
const DEPTH_MAX: usize = 8;
/// Names whose values are secrets wherever they come from; they are given as secrets or not at all.
const SECRET_ENDS: [&str; 5] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS"];

/// What macros stand for.
#[derive(Debug, Clone, Default)]
pub struct Macros {
    /// An absent value (a run without a name) is `None`.
    pub known: BTreeMap<&'static str, Option<String>>,
    /// The agent's own variables.
    pub environment: BTreeMap<String, String>,
    /// Which of them may be told: names, or beginnings that end in `*`.
    pub allowed: Vec<String>,
    /// Template variables are put in place afterwards, so values that look like one are kept from it.
    pub is_before_template: bool,
}

enum Found {
    Value(String),
    /// It could have a value, but has none.
    Absent,
    /// Not ours to replace.
    Unknown,
}

impl Macros {
    /// The order's config with macros in place. Values of template variables are inert (T-12): where the config is the
    /// queue's template, macros are replaced in the template, and its values put in place afterwards.
    pub fn config(&self, order: &Order, notes: &mut Vec<Note>) -> Value {
        let of_template = order.template.as_ref().filter(|own| template::render(&own.raw, &own.values) == order.config);
        match of_template {
            None => self.expand(&order.config, notes),
            Some(own) => {
                let before = Macros { is_before_template: true, ..self.clone() };
                template::render(&before.expand(&own.raw, notes), &own.values)
            }
        }
    }

    /// Replaces macros in every text value, at any depth; keys stay.
    pub fn expand(&self, config: &Value, notes: &mut Vec<Note>) -> Value {
        self.walk(config, String::new(), notes)
    }

    fn walk(&self, value: &Value, path: String, notes: &mut Vec<Note>) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, &path, notes)),
            Value::Array(items) => {
                let item = |(index, item)| self.walk(item, format!("{path}[{index}]"), notes);
                Value::Array(items.iter().enumerate().map(item).collect())
            }
            Value::Object(members) => {
                let member =
                    |(key, value): (&String, &Value)| (key.clone(), self.walk(value, joined(&path, key), notes));
                Value::Object(members.iter().map(member).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    pub fn text(&self, text: &str, path: &str, notes: &mut Vec<Note>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$${") {
                out.push_str("${");
                rest = after;
                continue;
            }
            let Some(token) = Token::read(rest) else {
                out.push('$');
                rest = &rest[1..];
                continue;
            };
            match self.find(&token) {
                Found::Value(value) if self.is_before_template => {
                    out.push_str(&token.filtered(&value).replace("{{", "{{{{"));
                }
                Found::Value(value) => out.push_str(&token.filtered(&value)),
                Found::Absent => match token.fallback {
                    Some(fallback) => out.push_str(&self.text(fallback, path, notes)),
                    None => out.push_str(&token.filtered("")),
                },
                Found::Unknown => {
                    out.push_str(token.whole);
                    notes.extend(unknown(&token, path));
                }
            }
            rest = &rest[token.whole.len()..];
        }
        out.push_str(rest);
        out
    }

    /// An allowed variable of the agent goes before a macro of the same name, as with W&B's agent.
    fn find(&self, token: &Token<'_>) -> Found {
        let name = token.name;
        if token.odd.is_some() {
            return Found::Unknown;
        }
        if self.may_tell(name) {
            if let Some(value) = self.environment.get(name) {
                return Found::Value(value.clone());
            }
            if !self.known.contains_key(name) {
                return Found::Absent;
            }
        }
        match self.known.get(name) {
            Some(Some(value)) => Found::Value(value.clone()),
            Some(None) => Found::Absent,
            None => Found::Unknown,
        }
    }

    fn may_tell(&self, name: &str) -> bool {
        let is_listed = self.allowed.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => pattern == name,
        });
        is_listed && !is_secret(name)
    }
}

/// Whether a variable of this name holds a secret.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| name.ends_with(end) || name == end[1..])
}

/// One macro as it is written.
struct Token<'a> {
    whole: &'a str,
    name: &'a str,
    fallback: Option<&'a str>,
    filter: Option<&'a str>,
    /// What stands behind the `|` and is no filter.
    odd: Option<&'a str>,
}

impl<'a> Token<'a> {
    /// Reads a macro at the start of the text.
    fn read(text: &'a str) -> Option<Token<'a>> {
        let inside = text.strip_prefix("${")?;
        let end = closing(inside)?;
        let (whole, inside) = (&text[..end + 3], &inside[..end]);
        let length =
            inside.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inside.len());
        let (name, rest) = inside.split_at(length);
        let plain = Token { whole, name, fallback: None, filter: None, odd: None };
        let token = match rest {
            "" => plain,
            "|dns" | "|label" => Token { filter: Some(&rest[1..]), ..plain },
            other => match other.strip_prefix('|') {
                Some(odd) => Token { odd: Some(odd), ..plain },
                None => Token { fallback: Some(other.strip_prefix(":-")?), ..plain },
            },
        };
        (!name.is_empty()).then_some(token)
    }

    fn filtered(&self, value: &str) -> String {
        match self.filter {
            Some("dns") => names::dns(value, 63),
            Some("label") => names::label(value),
            _ => value.to_owned(),
        }
    }
}

/// Where the `}` of a macro is: a fallback may hold macros that have their own.
fn closing(inside: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, letter) in inside.char_indices() {
        match letter {
            '{' if inside[..at].ends_with('$') && depth == DEPTH_MAX => return None,
            '{' if inside[..at].ends_with('$') => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => (),
        }
    }
    None
}

/// A name in capitals inside a command is for the shell that runs it; anywhere else it is probably a mistake.
fn unknown(token: &Token<'_>, path: &str) -> Option<Note> {
    if let Some(odd) = token.odd {
        let text = format!("`{}` stays as it is: `{odd}` is no filter, `dns` and `label` are", token.whole);
        return Some(Note { rule: "M-12", path: path.to_owned(), text });
    }
    let is_for_a_shell = !token.name.chars().any(|letter| letter.is_ascii_lowercase()) && is_command(path);
    let (rule, text) = if is_for_a_shell {
        ("M-10", format!("`{}` is left for the shell", token.whole))
    } else {
        (
            "M-9",
            format!("`{}` is neither a macro nor a variable that the agent may tell; it stays as it is", token.whole),
        )
    };
    Some(Note { rule, path: path.to_owned(), text })
}

/// The first macro of a text that asks for a secret, by its name.
pub fn secret_in(text: &str) -> Option<&str> {
    let tokens = text.match_indices("${").filter_map(|(at, _)| Token::read(&text[at..]));
    tokens.map(|token| token.name).find(|name| is_secret(name))
}

pub fn is_command(path: &str) -> bool {
    let field = path.trim_end_matches(|letter: char| letter == ']' || letter.is_ascii_digit()).trim_end_matches('[');
    field.ends_with("command") || field.ends_with("args")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn macros() -> Macros {
        let known =
            [("run_id", Some("ab12")), ("run_name", None), ("project_name", Some("My Proj")), ("author", Some("al"))];
        let environment = [("REGION", "eu"), ("TEAM_A", "a"), ("AWS_SECRET_ACCESS_KEY", "s3cret"), ("HOME", "/root")];
        Macros {
            known: known.map(|(name, value)| (name, value.map(str::to_owned))).into(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            allowed: ["REGION", "TEAM_*", "AWS_*", "UNSET"].map(str::to_owned).into(),
            is_before_template: false,
        }
    }

    fn expanded(text: &str) -> String {
        macros().text(text, "", &mut Vec::new())
    }

    // M-1, M-3, M-5, M-6, M-10, M-11, M-12
    #[test]
    fn macros_are_replaced_and_the_rest_stays() {
        for (text, out) in [
            ("x-${run_id}-${run_id}", "x-ab12-ab12"),
            ("$run_id $(run_id) ${a-b} ${} ${run_id", "$run_id $(run_id) ${a-b} ${} ${run_id"),
            ("${unknown}", "${unknown}"),
            ("[${run_name}]", "[]"),
            ("${run_name:-none}", "none"),
            ("${run_id:-none}", "ab12"),
            ("${run_name:-${run_id}}!", "ab12!"),
            ("${run_id:-${author}}!", "ab12!"),
            ("${run_name:-a-${UNSET:-${author}}-${oops}}", "a-al-${oops}"),
            ("${run_name:-$${x}}", "${x}"),
            ("${SHELL_THING:-${run_id}}", "${SHELL_THING:-${run_id}}"),
            ("${run_name:-${run_id", "${run_name:-${run_id"),
            ("$${run_id}", "${run_id}"),
            ("$$${run_id}", "$${run_id}"),
            ("${project_name|dns} ${project_name|label}", "my-proj My-Proj"),
            ("${project_name|shout} ${run_name|dns:-y}", "${project_name|shout} ${run_name|dns:-y}"),
            ("${SHELL_THING:-x}", "${SHELL_THING:-x}"),
            ("${UNSET:-x}", "x"),
            ("실행 ${run_id} 중", "실행 ab12 중"),
        ] {
            assert_eq!(expanded(text), out, "{text}");
        }
    }

    // M-12
    #[test]
    fn what_is_no_filter_is_told() {
        let mut notes = Vec::new();
        macros().text("${project_name|dns} ${project_name|shout} ${x|dns:-y}", "a", &mut notes);
        let told: Vec<_> = notes.iter().map(|note| (note.rule, note.text.as_str())).collect();
        assert_eq!(
            told,
            [
                ("M-12", "`${project_name|shout}` stays as it is: `shout` is no filter, `dns` and `label` are"),
                ("M-12", "`${x|dns:-y}` stays as it is: `dns:-y` is no filter, `dns` and `label` are"),
            ]
        );
    }

    // M-11
    #[test]
    fn fallbacks_have_a_depth_around_which_nothing_is_a_macro() {
        let nested = |times: usize| format!("{}x{}", "${run_name:-".repeat(times), "}".repeat(times));
        assert_eq!(expanded(&nested(DEPTH_MAX + 1)), "x");
        assert_eq!(expanded(&nested(DEPTH_MAX + 2)), "${run_name:-x}");
        assert!(expanded(&nested(50_000)).starts_with("${run_name:-${run_name:-"));
    }

    // M-4, M-8, M-9
    #[test]
    fn only_allowed_variables_of_the_agent_are_told_and_no_secret_ever() {
        assert_eq!(expanded("${REGION}${TEAM_A}"), "eua");
        assert_eq!(expanded("${HOME}"), "${HOME}");
        assert_eq!(expanded("${AWS_SECRET_ACCESS_KEY}"), "${AWS_SECRET_ACCESS_KEY}");
        let mut notes = Vec::new();
        let mut all = macros();
        all.allowed.push("*".to_owned());
        all.environment.insert("WANDB_API_KEY".to_owned(), "k3y".to_owned());
        all.environment.insert("run_id".to_owned(), "mine".to_owned());
        assert_eq!(all.text("${WANDB_API_KEY} ${HOME} ${run_id}", "a", &mut notes), "${WANDB_API_KEY} /root mine");
        assert_eq!(notes.iter().map(|note| note.rule).collect::<Vec<_>>(), ["M-9"]);
    }

    // M-2, M-7, M-10
    #[test]
    fn values_are_walked_at_any_depth_and_shells_keep_their_variables() {
        let config =
            json!({"${run_id}": [{"a": "${run_id}"}, 1, true, null], "args": ["torchrun ${PET_NNODES} ${oops}"]});
        let mut notes = Vec::new();
        let out = macros().expand(&config, &mut notes);
        assert_eq!(
            out,
            json!({"${run_id}": [{"a": "ab12"}, 1, true, null], "args": ["torchrun ${PET_NNODES} ${oops}"]})
        );
        let told: Vec<_> = notes.iter().map(|note| (note.rule, note.path.as_str())).collect();
        assert_eq!(told, [("M-10", "args[0]"), ("M-9", "args[0]")]);
    }
}
