//! Executes GraphQL requests and words what went wrong as W&B's clients expect.
//!
//! A resolver's fault decides the HTTP status, because clients retry by status: a permanent failure must be 4xx.

use crate::Shared;
use crate::fault::{Fault, TRIES_MAX};
use crate::file::graphql::CALLED;
use crate::graphql::Sender;
use crate::graphql::root::Schema;
use crate::people::Caller;
use async_graphql::parser::parse_query;
use async_graphql::parser::types::ExecutableDocument;
use async_graphql::{Request, Response, ServerError, Value as ConstValue, Variables};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

/// W&B's longest document has some twenty kilobytes; what is large is in the variables, which are not parsed as a language.
const QUERY_MAX: usize = 256 << 10;

#[derive(Deserialize)]
struct Body {
    query: String,
    #[serde(default)]
    variables: Option<Value>,
    #[serde(default, rename = "operationName")]
    operation_name: Option<String>,
}

pub struct Answer {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

pub async fn execute(
    schema: &Schema,
    shared: &Shared,
    caller: Caller,
    sender: Sender,
    body: &[u8],
) -> Result<Answer, Fault> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Fault::bad(format!("the body is not a GraphQL request: {error}")))?;
    if body.query.len() > QUERY_MAX {
        let message = format!("the GraphQL document has more than {QUERY_MAX} bytes; hint: send values as variables");
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    let mut response = attempt(schema, shared, &caller, &sender, &body).await;
    for _ in 1..TRIES_MAX {
        if !may_try_again(&response) {
            break;
        }
        response = attempt(schema, shared, &caller, &sender, &body).await;
    }
    let status = status_of(&response);
    for error in &mut response.errors {
        error.message = reworded(&error.message);
    }
    let body = serde_json::to_vec(&response).map_err(Fault::internal)?;
    Ok(Answer { status, body })
}

/// A request of which nothing was done: its transaction lost against others, and no other field was answered.
fn may_try_again(response: &Response) -> bool {
    let is_passing = |error: &ServerError| error.source::<Fault>().is_some_and(Fault::is_passing);
    let is_nothing_done = match &response.data {
        ConstValue::Object(fields) => fields.len() <= 1,
        _ => true,
    };
    is_nothing_done && response.errors.len() == 1 && response.errors.iter().all(is_passing)
}

async fn attempt(schema: &Schema, shared: &Shared, caller: &Caller, sender: &Sender, body: &Body) -> Response {
    let mut variables = Variables::from_json(body.variables.clone().unwrap_or_default());
    let document = parse_query(&body.query).ok();
    let mut request = Request::new(body.query.clone()).data(shared.clone()).data(caller.clone());
    request = request.data(sender.clone());
    // What cannot be parsed is told by the schema, with its place.
    if let Some(document) = document {
        fill_in(&document, &mut variables);
        request.set_parsed_query(document);
    }
    request = request.variables(variables);
    if let Some(name) = body.operation_name.as_deref().filter(|name| !name.is_empty()) {
        request = request.operation_name(name);
    }
    // Links to bytes lead where the client found the server: pods know this machine by another address than people do.
    let called = sender.called.filter(|_| !shared.has_public_url).map(|address| format!("http://{address}"));
    CALLED.scope(called, schema.execute(request)).await
}

/// Gives variables that were not sent, or sent as null, the default that the document declares.
///
/// The library does so for arguments, but not where a variable decides whether a field is included.
fn fill_in(document: &ExecutableDocument, variables: &mut Variables) {
    for (_, operation) in document.operations.iter() {
        for definition in &operation.node.variable_definitions {
            let name = &definition.node.name.node;
            let is_missing = variables.get(name).is_none_or(|value| *value == ConstValue::Null);
            if let Some(default) = definition.node.default_value().filter(|_| is_missing) {
                variables.insert(name.clone(), default.clone());
            }
        }
    }
}

/// The status of the first resolver that failed; a request that is wrong in itself is 400.
fn status_of(response: &Response) -> StatusCode {
    let status = |error: &ServerError| error.source::<Fault>().map_or(StatusCode::BAD_REQUEST, |fault| fault.status);
    response.errors.first().map_or(StatusCode::OK, status)
}

/// Clients look for the text by which other servers say that a field is unknown, and then ask for less.
fn reworded(message: &str) -> String {
    let Some(rest) = message.strip_prefix("Unknown field ") else {
        return message.to_owned();
    };
    let sentence = rest.split_once("\".").map_or(rest, |(sentence, _)| sentence);
    format!("Cannot query field {sentence}\".")
}

#[cfg(test)]
mod tests {
    use super::*;

    // GQL-1, GQL-2
    #[test]
    fn a_variable_without_a_value_has_its_default() {
        let document =
            parse_query("query Q($a: Int = 5, $b: Boolean = true, $c: Int = 7) { x(a: $a, c: $c) @include(if: $b) }");
        let mut variables = Variables::from_json(serde_json::json!({ "a": null, "c": 1, "unknown": 2 }));
        fill_in(&document.unwrap(), &mut variables);
        let now = serde_json::to_value(&variables).unwrap();
        assert_eq!(now, serde_json::json!({ "a": 5, "b": true, "c": 1, "unknown": 2 }));
    }

    // GQL-6
    #[test]
    fn an_unknown_field_is_worded_as_clients_look_for_it() {
        let said = reworded("Unknown field \"runSpec\" on type \"Payload\". Did you mean \"run\"?");
        assert_eq!(said, "Cannot query field \"runSpec\" on type \"Payload\".");
        assert_eq!(reworded("anything else"), "anything else");
    }
}
