//! A queue as a file: what `create -f` reads, `show` prints and `edit` opens.

use crate::output;
use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value, json};
use volley_client::people::QueueSpec;
use volley_plan::check::QUEUE_KEYS as KEYS;

/// The difference of longer files is not looked for; all of it is shown.
const LINES_MAX: usize = 2000;

#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub spec: QueueSpec,
}

impl Document {
    pub fn of(resource: &str, config: Value) -> Document {
        let spec = QueueSpec { resource: resource.to_owned(), config, variables: json!({}), has_priorities: false };
        Document { spec }
    }

    /// Reads YAML or JSON; with a resource, the text is the config alone.
    pub fn parse(text: &str, resource: Option<&str>) -> Result<Document> {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            // The library's advice is for those who call it.
            let cause = error.to_string();
            let cause = cause.split("; set ").next().unwrap_or_default().trim();
            anyhow!("it is neither YAML nor JSON: {cause}\nhint: `volley check FILE` shows where, with --fix it mends what is safe")
        })?;
        let Value::Object(mut fields) = value else { bail!("it is not an object, but {}", kind(&value)) };
        if let Some(resource) = resource.filter(|_| !fields.contains_key("config")) {
            return Ok(Document::of(resource, Value::Object(fields)));
        }
        if let Some(unknown) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
            bail!(
                "`{unknown}` is not known here\nhint: {}; or --resource KIND for a file that is the config alone",
                KEYS.join(", ")
            );
        }
        let given = fields.remove("resource").and_then(|value| value.as_str().map(str::to_owned));
        let resource = resource.map(str::to_owned).or(given);
        let resource = resource.ok_or_else(|| anyhow!("`resource` is missing\nhint: resource: kubernetes"))?;
        let object = |value: Option<Value>, name: &str| match value {
            None | Some(Value::Null) => Ok(json!({})),
            Some(Value::Object(map)) => Ok(Value::Object(map)),
            Some(other) => Err(anyhow!("`{name}` is not an object, but {}", kind(&other))),
        };
        let has_priorities = match fields.remove("prioritization") {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(Value::String(word)) if word == "V0" || word == "DISABLED" => word == "V0",
            Some(other) => bail!("`prioritization` is true or false, not {other}"),
        };
        let config = object(fields.remove("config"), "config")?;
        let variables = object(fields.remove("template_variables"), "template_variables")?;
        Ok(Document { spec: QueueSpec { resource, config, variables, has_priorities } })
    }

    /// Adds a variable as the command line has it: `gpus=integer,min=1,max=4,default=1`.
    pub fn declare(&mut self, written: &str) -> Result<()> {
        let hint = "hint: gpus=integer,min=1,max=4,default=1, or size=string,choices=small|large";
        let wrong = |why: &str| anyhow!("`--var {written}`: {why}\n{hint}");
        let (name, rest) = written.split_once('=').ok_or_else(|| wrong("it has no type"))?;
        let mut words = rest.split(',');
        let kind = match words.next().unwrap_or_default().to_ascii_lowercase().as_str() {
            "integer" | "int" => "integer",
            "number" | "float" => "number",
            "string" => "string",
            "boolean" | "bool" => "boolean",
            "quantity" => "quantity",
            "duration" => "duration",
            other => {
                let types = "integer, number, string, boolean, quantity or duration";
                return Err(wrong(&format!("`{other}` is no type: {types}")));
            }
        };
        // A text stays one, however much it looks like a number.
        let limit = |text: &str| match kind {
            "string" => Value::from(text),
            _ => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        };
        let value = |text: &str| match kind {
            "quantity" | "duration" => Value::from(text),
            _ => limit(text),
        };
        let mut schema = json!({ "type": kind });
        for word in words {
            match word.split_once('=') {
                Some(("min", text)) => schema["minimum"] = limit(text),
                Some(("max", text)) => schema["maximum"] = limit(text),
                Some(("default", text)) => schema["default"] = value(text),
                Some(("choices", text)) => schema["enum"] = text.split('|').map(value).collect(),
                Some(_) | None => return Err(wrong(&format!("`{word}` is not known"))),
            }
        }
        self.spec.variables[name] = json!({ "schema": schema });
        Ok(())
    }

    /// A queue as the server tells it.
    pub fn read(queue: &Value) -> Document {
        let config = &queue["defaultResourceConfig"];
        let resource = config["resource"].as_str().unwrap_or_default().to_owned();
        let mut variables = Map::new();
        for variable in config["templateVariables"].as_array().into_iter().flatten() {
            let schema = variable["schema"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
            let mut told = json!({ "schema": schema });
            if !variable["description"].is_null() {
                told["description"] = variable["description"].clone();
            }
            variables.insert(variable["name"].as_str().unwrap_or_default().to_owned(), told);
        }
        let inner = match config["config"]["resource_args"].get(&resource) {
            Some(inner) => inner.clone(),
            None => json!({}),
        };
        let has_priorities = queue["prioritizationMode"] == "V0";
        Document { spec: QueueSpec { resource, config: inner, variables: variables.into(), has_priorities } }
    }

    pub fn value(&self) -> Value {
        let QueueSpec { resource, config, variables, has_priorities } = &self.spec;
        json!({ "resource": resource, "config": config, "template_variables": variables, "prioritization": has_priorities })
    }

    pub fn text(&self) -> Result<String> {
        output::yaml(&self.value())
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The lines that went and came, with `-` and `+`; those that stayed have a blank.
pub fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut told = String::new();
    let mut tell = |sign: char, line: &str| {
        told.push(sign);
        told.push_str(line);
        told.push('\n');
    };
    if old.len().max(new.len()) > LINES_MAX {
        old.iter().for_each(|line| tell('-', line));
        new.iter().for_each(|line| tell('+', line));
        return told;
    }
    // common[i][j]: how many lines old[i..] and new[j..] have in common, in order.
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            tell(' ', old[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            tell('-', old[i]);
            i += 1;
        } else {
            tell('+', new[j]);
            j += 1;
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_can_be_read() {
        let text = "resource: kubernetes\nconfig:\n  n: \"{{n}}\"\ntemplate_variables:\n  n: {schema: {type: integer}}\nprioritization: true\n";
        let document = Document::parse(text, None).unwrap();
        assert!(document.spec.has_priorities);
        assert_eq!(Document::parse(&document.text().unwrap(), None).unwrap(), document);
        let json = document.value().to_string();
        assert_eq!(Document::parse(&json, None).unwrap(), document);
    }

    #[test]
    fn a_config_alone_needs_a_resource() {
        let document = Document::parse("kind: Job", Some("kubernetes")).unwrap();
        assert_eq!(document.spec.config, json!({ "kind": "Job" }));
        for (text, told) in [
            ("kind: Job", "`kind` is not known here"),
            ("config: {}", "`resource` is missing"),
            ("[]", "it is not an object, but a list"),
            ("resource: x\nconfig: 3", "`config` is not an object, but a number"),
            ("resource: x\nprioritization: 3", "`prioritization` is true or false"),
        ] {
            let error = Document::parse(text, None).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn a_variable_is_declared_in_one_word() {
        let mut document = Document::of("kubernetes", json!({}));
        document.declare("gpus=Integer,min=1,max=4,default=1").unwrap();
        document.declare("size=string,choices=1|large,default=1").unwrap();
        let gpus = json!({ "schema": { "type": "integer", "minimum": 1, "maximum": 4, "default": 1 } });
        let size = json!({ "schema": { "type": "string", "enum": ["1", "large"], "default": "1" } });
        document.declare("memory=quantity,max=1024,default=4").unwrap();
        let memory = json!({ "schema": { "type": "quantity", "maximum": 1024, "default": "4" } });
        assert_eq!(document.spec.variables, json!({ "gpus": gpus, "size": size, "memory": memory }));
        for wrong in ["gpus", "gpus=", "gpus=date", "gpus=integer,least=1", "gpus=integer,min"] {
            assert!(document.declare(wrong).unwrap_err().to_string().contains("hint:"), "{wrong}");
        }
    }

    #[test]
    fn a_difference_has_the_lines_that_went_and_came() {
        assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), " a\n-b\n+x\n c\n+d\n");
        assert_eq!(difference("a\n", "a\n"), " a\n");
    }
}
