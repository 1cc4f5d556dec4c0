//! Calls on the API, each after its turn at the limiter: JSON in, JSON out.

use crate::kinds::Kind;
use crate::rate::Limiter;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::{DynamicObject, Request, Resource};
use kube::{Client, Error};
use serde_json::Value;
use volley_plan::control::Propagation;
use volley_turns::calls::answered;

/// Who is named as the writer of fields.
pub const MANAGER: &str = "volley-operator";

pub struct Calls {
    client: Client,
    limiter: Limiter,
}

/// Where a call goes: one object, or a subresource of it.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    pub kind: &'static Kind,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Address<'_> {
    fn requests(&self) -> Request {
        let namespace = Some(self.namespace).filter(|_| self.kind.is_namespaced);
        Request::new(DynamicObject::url_path(&self.kind.resource, namespace))
    }
}

/// The HTTP status of a refusal; 0 when no answer came.
pub fn code(error: &Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        _ => 0,
    }
}

pub fn is_already_there(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.reason == "AlreadyExists")
}

/// The server's own words, which is what users know.
pub fn words(error: &Error) -> String {
    match error {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Answers are kept, and nothing here reads who owns which field.
fn lean(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

fn unfit(error: kube::core::request::Error) -> Error {
    Error::BuildRequest(error)
}

async fn answer(call: impl Future<Output = Result<Value, Error>>) -> Result<Value, Error> {
    answered(call, |words| Error::Service(words.into())).await
}

impl Calls {
    pub fn new(client: Client, limiter: Limiter) -> Calls {
        Calls { client, limiter }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The object, if it is there.
    pub async fn get(&self, address: Address<'_>) -> Result<Option<Value>, Error> {
        self.limiter.pass().await;
        let request = address.requests().get(address.name, &GetParams::default()).map_err(unfit)?;
        match answer(self.client.request(request)).await {
            Ok(object) => Ok(Some(lean(object))),
            Err(error) if code(&error) == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn create(&self, address: Address<'_>, object: &Value) -> Result<Value, Error> {
        self.limiter.pass().await;
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
        let request = address.requests().create(&parameters, body).map_err(unfit)?;
        answer(self.client.request(request)).await.map(lean)
    }

    /// A merge patch on the object or, where it is named, a subresource.
    pub async fn patch(&self, address: Address<'_>, subresource: &str, patch: &Value) -> Result<Value, Error> {
        self.limiter.pass().await;
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let (requests, patch) = (address.requests(), Patch::Merge(patch));
        let request = match subresource {
            "" => requests.patch(address.name, &parameters, &patch),
            subresource => requests.patch_subresource(subresource, address.name, &parameters, &patch),
        };
        answer(self.client.request(request.map_err(unfit)?)).await.map(lean)
    }

    /// Deletes the object with this uid; what is left of it, if it goes later.
    pub async fn delete(
        &self,
        address: Address<'_>,
        uid: &str,
        propagation: Propagation,
    ) -> Result<Option<Value>, Error> {
        self.limiter.pass().await;
        let policy = match propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        };
        let uid = Some(uid.to_owned()).filter(|uid| !uid.is_empty());
        let parameters = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = address.requests().delete(address.name, &parameters).map_err(unfit)?;
        let answer: Value = answer(self.client.request(request)).await?;
        let is_going = answer["kind"] != "Status" && !answer["metadata"]["deletionTimestamp"].is_null();
        Ok(is_going.then(|| lean(answer)))
    }
}
