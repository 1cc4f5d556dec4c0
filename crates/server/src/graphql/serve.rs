//! Executes GraphQL requests and words what went wrong as W&B's clients expect.
//!
//! A resolver's fault decides the HTTP status, because clients retry by status: a permanent failure must be 4xx.

use crate::Shared;
use crate::fault::Fault;
use crate::graphql::root::Schema;
use crate::people::Caller;
use async_graphql::{Request, Response, ServerError};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

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

pub async fn execute(schema: &Schema, shared: &Shared, caller: Caller, body: &[u8]) -> Result<Answer, Fault> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Fault::bad(format!("the body is not a GraphQL request: {error}")))?;
    let mut request = Request::new(body.query).data(shared.clone()).data(caller);
    if let Some(variables) = body.variables {
        request = request.variables(async_graphql::Variables::from_json(variables));
    }
    if let Some(name) = body.operation_name.filter(|name| !name.is_empty()) {
        request = request.operation_name(name);
    }
    let mut response = schema.execute(request).await;
    let status = status_of(&response);
    for error in &mut response.errors {
        error.message = reworded(&error.message);
    }
    let body = serde_json::to_vec(&response).map_err(Fault::internal)?;
    Ok(Answer { status, body })
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

    // GQL-6
    #[test]
    fn an_unknown_field_is_worded_as_clients_look_for_it() {
        let said = reworded("Unknown field \"runSpec\" on type \"Payload\". Did you mean \"run\"?");
        assert_eq!(said, "Cannot query field \"runSpec\" on type \"Payload\".");
        assert_eq!(reworded("anything else"), "anything else");
    }
}
