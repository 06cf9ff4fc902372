//! Reading and writing Vidra's own objects: whole, by path, and within the deadline of a call.

use http::{Method, Request, header};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    connect::Cluster,
    failure::{Failure, Reply},
};

impl Cluster {
    /// Reads an object, or `None` if it does not exist.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        let request = request(Method::GET, path, None)?;
        let reply = match self.call(request).await {
            Ok(reply) => reply,
            Err(failure) if failure.is_not_found() => return Ok(None),
            Err(failure) => return Err(failure),
        };
        decode(&reply).map(Some)
    }

    /// Makes an object in a collection; answers what became of it.
    pub async fn create<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<T, Failure> {
        let body = ("application/json", object);
        let request = request(Method::POST, path, Some(body))?;
        decode(&self.call(request).await?)
    }

    /// Merges a change into an object; one that names a resource version holds only for that.
    pub async fn merge<T: DeserializeOwned>(
        &self,
        path: &str,
        change: &Value,
    ) -> Result<T, Failure> {
        let body = ("application/merge-patch+json", change);
        let request = request(Method::PATCH, path, Some(body))?;
        decode(&self.call(request).await?)
    }
}

fn decode<T: DeserializeOwned>(reply: &Reply) -> Result<T, Failure> {
    serde_json::from_slice(&reply.body).map_err(|error| Failure::undecodable(&error))
}

fn request(
    method: Method,
    path: &str,
    body: Option<(&str, &Value)>,
) -> Result<Request<Vec<u8>>, Failure> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some((kind, _)) = body {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let bytes = body.map(|(_, value)| value.to_string().into_bytes());
    request
        .body(bytes.unwrap_or_default())
        .map_err(|error| Failure::unbuildable(&error))
}
