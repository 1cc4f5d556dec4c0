//! YAML (and JSON, which is YAML) as a tree that remembers where everything stands.
//!
//! The parser is the one beneath the YAML reader that the rest of the product uses, so both agree on what a text says.

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Deeper nesting than this is an attack, or nonsense.
const DEPTH_MAX: usize = 64;
/// Aliases of aliases grow without bound; a document written by hand has fewer parts than this.
const NODES_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// From its first to behind its last character, without what follows on the line.
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// The text, and whether it was written without quotes.
    Scalar {
        text: String,
        is_plain: bool,
        is_block: bool,
    },
    Map {
        entries: Vec<Entry>,
        is_flow: bool,
    },
    List {
        items: Vec<Node>,
        is_flow: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: String,
    pub key_span: Range<usize>,
    pub value: Node,
    /// A merge key takes it over from another mapping, where it is written.
    pub is_merged: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub at: usize,
    pub message: String,
}

impl Node {
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map { entries, .. } => entries,
            Kind::Scalar { .. } | Kind::List { .. } => &[],
        }
    }

    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List { items, .. } => items,
            Kind::Scalar { .. } | Kind::Map { .. } => &[],
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, key| node.get(key))
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Map { .. } | Kind::List { .. } => None,
        }
    }

    pub fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map { .. })
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, is_plain: true, .. } if matches!(text.as_str(), "" | "~" | "null"))
    }

    fn size(&self) -> usize {
        match &self.kind {
            Kind::Scalar { .. } => 1,
            Kind::List { items, .. } => 1 + items.iter().map(Node::size).sum::<usize>(),
            Kind::Map { entries, .. } => 1 + entries.iter().map(|entry| entry.value.size()).sum::<usize>(),
        }
    }

    /// The same as JSON, plain scalars read as YAML's core schema has it.
    pub fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, is_plain, .. } => {
                if *is_plain {
                    plain(text)
                } else {
                    Value::from(text.as_str())
                }
            }
            Kind::List { items, .. } => items.iter().map(Node::value).collect(),
            Kind::Map { entries, .. } => Value::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.value())).collect::<Map<_, _>>(),
            ),
        }
    }
}

fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => {
            let is_number =
                text.starts_with(|letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.'));
            let whole = text.parse::<i64>().ok().map(Number::from);
            let number = whole.or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64));
            number.filter(|_| is_number).map_or_else(|| Value::from(text), Value::Number)
        }
    }
}

/// Every document of a text; one that cannot be read does not hide the next.
pub fn parse(text: &str) -> Vec<Result<Node, Problem>> {
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    loop {
        match document(text, &mut parser) {
            Ok(Some(node)) => documents.push(Ok(node)),
            Ok(None) => return documents,
            Err(problem) => {
                documents.push(Err(problem));
                // Bounded by the text: each call leaves at least one document behind.
                if !matches!(parser.proceed_next_document(), Ok(true)) {
                    return documents;
                }
            }
        }
    }
}

type Source<'a> = Parser<'a, granit_parser::StrInput<'a>>;

fn next<'a>(parser: &mut Source<'a>) -> Result<Option<(Event<'a>, Range<usize>)>, Problem> {
    match parser.next_event() {
        None => Ok(None),
        Some(Ok((event, span))) => {
            let at = |mark: &granit_parser::Marker| mark.byte_offset().unwrap_or(0);
            Ok(Some((event, at(&span.start)..at(&span.end))))
        }
        Some(Err(error)) => Err(Problem {
            at: error.marker().byte_offset().unwrap_or(0),
            message: format!("not YAML: {}", error.info()),
        }),
    }
}

fn document(text: &str, parser: &mut Source<'_>) -> Result<Option<Node>, Problem> {
    let mut anchors = Anchors::default();
    while let Some((event, span)) = next(parser)? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => (),
            Event::StreamEnd => return Ok(None),
            event if event.is_node() => return node(text, parser, (event, span), &mut anchors, 0).map(Some),
            _ => (),
        }
    }
    Ok(None)
}

fn node<'a>(
    text: &str,
    parser: &mut Source<'a>,
    (event, span): (Event<'a>, Range<usize>),
    anchors: &mut Anchors,
    depth: usize,
) -> Result<Node, Problem> {
    if depth > DEPTH_MAX {
        return Err(Problem { at: span.start, message: format!("nested more than {DEPTH_MAX} deep") });
    }
    let anchor = event.anchor_id();
    let made = match event {
        Event::Scalar(scalar, style, ..) => {
            let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
            let end = span.start + text[span.start..span.end.max(span.start)].trim_end().len();
            let kind = Kind::Scalar { text: scalar.into_owned(), is_plain: style == ScalarStyle::Plain, is_block };
            Node { span: span.start..end, kind }
        }
        Event::SequenceStart(style, ..) => {
            let is_flow = style == StructureStyle::Flow;
            let (items, end) = list(text, parser, anchors, depth)?;
            let last = items.last().map_or(span.start, |item| item.span.end);
            Node { span: span.start..if is_flow { end } else { last }, kind: Kind::List { items, is_flow } }
        }
        Event::MappingStart(style, ..) => {
            let is_flow = style == StructureStyle::Flow;
            let (entries, written, end) = map(text, parser, anchors, depth)?;
            let written = written.unwrap_or(span.start..span.start);
            let span = if is_flow { span.start..end } else { written };
            Node { span, kind: Kind::Map { entries, is_flow } }
        }
        Event::Alias(id) => {
            anchors.nodes += anchors.known.get(&id).map_or(0, Node::size);
            if anchors.nodes > NODES_MAX {
                return Err(Problem { at: span.start, message: "its aliases make too many parts".to_owned() });
            }
            let target = anchors.known.get(&id).map(|node| node.kind.clone());
            let nothing = Kind::Scalar { text: String::new(), is_plain: true, is_block: false };
            Node { span, kind: target.unwrap_or(nothing) }
        }
        _ => Node { span, kind: Kind::Scalar { text: String::new(), is_plain: true, is_block: false } },
    };
    if let Some(anchor) = anchor {
        anchors.known.insert(anchor, made.clone());
    }
    Ok(made)
}

/// What has a name so far, and how many parts its aliases have made.
#[derive(Default)]
struct Anchors {
    known: BTreeMap<usize, Node>,
    nodes: usize,
}

fn list(
    text: &str,
    parser: &mut Source<'_>,
    anchors: &mut Anchors,
    depth: usize,
) -> Result<(Vec<Node>, usize), Problem> {
    let mut items = Vec::new();
    while let Some((event, span)) = next(parser)? {
        match event {
            Event::SequenceEnd => return Ok((items, span.end)),
            event if event.is_node() => items.push(node(text, parser, (event, span), anchors, depth + 1)?),
            _ => (),
        }
    }
    Ok((items, text.len()))
}

/// The entries, from where to where they are written, and where the mapping ends.
type Members = (Vec<Entry>, Option<Range<usize>>, usize);

fn map(text: &str, parser: &mut Source<'_>, anchors: &mut Anchors, depth: usize) -> Result<Members, Problem> {
    let (mut entries, mut inherited) = (Vec::new(), Vec::new());
    let mut written: Option<Range<usize>> = None;
    let mut key: Option<Node> = None;
    while let Some((event, span)) = next(parser)? {
        if event == Event::MappingEnd {
            inherit(&mut entries, inherited);
            return Ok((entries, written, span.end));
        }
        if !event.is_node() {
            continue;
        }
        let made = node(text, parser, (event, span), anchors, depth + 1)?;
        match key.take() {
            None => key = Some(made),
            Some(own) => {
                let start = written.map_or(own.span.start, |written| written.start);
                written = Some(start..made.span.end.max(own.span.end));
                if let Some(more) = merged(&own, &made) {
                    inherited.extend(more);
                    continue;
                }
                let name = own.text().map_or_else(|| text[own.span.clone()].to_owned(), str::to_owned);
                entries.push(Entry { key: name, key_span: own.span, value: made, is_merged: false });
            }
        }
    }
    inherit(&mut entries, inherited);
    Ok((entries, written, text.len()))
}

/// What `<<` takes over from one mapping or several; its places are those of where it is written.
fn merged(key: &Node, value: &Node) -> Option<Vec<Entry>> {
    let is_merge = matches!(&key.kind, Kind::Scalar { text, is_plain: true, .. } if text == "<<");
    match &value.kind {
        Kind::Map { entries, .. } if is_merge => Some(entries.clone()),
        Kind::List { items, .. } if is_merge && items.iter().all(Node::is_map) => {
            Some(items.iter().flat_map(Node::entries).cloned().collect())
        }
        Kind::Map { .. } | Kind::List { .. } | Kind::Scalar { .. } => None,
    }
}

/// A mapping's own entries go before those that it takes over, and the first of these before the rest.
fn inherit(entries: &mut Vec<Entry>, inherited: Vec<Entry>) {
    if inherited.is_empty() {
        return;
    }
    let mut known: BTreeSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let inherited = inherited.into_iter().map(|entry| Entry { is_merged: true, ..entry });
    entries.extend(inherited.filter(|entry| known.insert(entry.key.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn only(text: &str) -> Node {
        parse(text).remove(0).unwrap()
    }

    #[test]
    fn a_tree_knows_what_it_says_and_where() {
        let text = "가: &a\n  b: [1, 'x']\n  c: |\n    text\n\n# end\nd: *a\n";
        let root = only(text);
        assert_eq!(root.value(), json!({"가": {"b": [1, "x"], "c": "text\n"}, "d": {"b": [1, "x"], "c": "text\n"}}));
        let list = root.at("가.b").unwrap();
        assert_eq!(&text[list.span.clone()], "[1, 'x']");
        assert_eq!(&text[root.get("가").unwrap().span.clone()], "b: [1, 'x']\n  c: |\n    text");
        assert_eq!(&text[root.entry("d").unwrap().key_span.clone()], "d");
    }

    // As the reader of queues has it.
    #[test]
    fn merge_keys_are_merged() {
        for (text, value) in [
            ("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n", json!({"x": 1, "y": 3})),
            ("b:\n  <<: {x: 1}\n", json!({"x": 1})),
            ("b:\n  <<: [{x: 1}, {x: 2, y: 2}]\n", json!({"x": 1, "y": 2})),
            ("a: &a {x: 1}\nc: &c\n  <<: *a\nb: {<<: *c, z: 3}\n", json!({"x": 1, "z": 3})),
            ("b:\n  '<<': {x: 1}\n", json!({"<<": {"x": 1}})),
            ("b: {<<: text}\n", json!({"<<": "text"})),
        ] {
            assert_eq!(only(text).get("b").unwrap().value(), value, "{text}");
        }
        let text = "a: &a\n  x: 1\nb:\n  <<: *a\n  y: 2\n";
        assert_eq!(&text[only(text).get("b").unwrap().span.clone()], "<<: *a\n  y: 2");
    }

    #[test]
    fn documents_after_a_broken_one_are_read() {
        let all = parse("a: 1\n---\nb: [1\n---\nc: 3\n");
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].as_ref().unwrap().value(), json!({"a": 1}));
        assert!(all[1].is_err());
        assert_eq!(all[2].as_ref().unwrap().value(), json!({"c": 3}));
        assert!(parse("").is_empty() && parse("# nothing\n").is_empty());
    }

    #[test]
    fn scalars_are_read_as_yaml_has_them() {
        for (text, value) in [
            ("1", json!(1)),
            ("1.5", json!(1.5)),
            ("yes", json!("yes")),
            ("True", json!(true)),
            ("'1'", json!("1")),
            ("12Gi", json!("12Gi")),
            ("null", json!(null)),
            ("inf", json!("inf")),
        ] {
            assert_eq!(only(&format!("a: {text}")).get("a").unwrap().value(), value, "{text}");
        }
    }

    #[test]
    fn aliases_of_aliases_are_bounded() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for number in 1..12 {
            let alias = format!("*a{}, ", number - 1).repeat(9);
            text += &format!("a{number}: &a{number} [{alias}]\n");
        }
        assert!(parse(&text)[0].as_ref().is_err_and(|problem| problem.message.contains("aliases")));
    }
}
