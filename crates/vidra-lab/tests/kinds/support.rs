//! Installing the definitions and asking the API server for its verdict.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use vidra_api::{InfrahubSync, VidraResource};
use vidra_lab::controlplane::{shared, unique};

/// A client of the shared control plane, in which the definitions of `deploy/crds` are installed.
pub(crate) async fn client() -> Client {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let client = shared().await.client().unwrap();
    INSTALLED
        .get_or_init(async || {
            for definition in checked_in_definitions() {
                install(&client, &definition).await;
            }
        })
        .await;
    client
}

/// The definitions exactly as the files that users install have them.
pub(crate) fn checked_in_definitions() -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let files = vidra_api::crd_yaml().unwrap().into_iter();
    files
        .map(|(name, _)| std::fs::read_to_string(directory.join(name)).unwrap())
        .map(|yaml| serde_saphyr::from_str(&yaml).unwrap())
        .collect()
}

/// Applies a definition as `kubectl apply --server-side --force-conflicts` does, and waits until
/// its kind is served.
pub(crate) async fn install(client: &Client, definition: &Value) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition["metadata"]["name"].as_str().unwrap();
    let parameters = PatchParams::apply("installer").force().validation_strict();
    crds.patch(name, &parameters, &Patch::Apply(definition))
        .await
        .unwrap();
    await_condition(crds, name, is_crd_established())
        .await
        .unwrap();
}

/// The untyped access to the kind of an object.
pub(crate) fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let resource = match object["kind"].as_str().unwrap() {
        "InfrahubSync" => ApiResource::erase::<InfrahubSync>(&()),
        _ => ApiResource::erase::<VidraResource>(&()),
    };
    Api::all_with(client.clone(), &resource)
}

/// An object of a kind with a name of its own.
pub(crate) fn object<K: Resource<DynamicType = ()>>(spec: Value) -> Value {
    json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": { "name": unique("test") },
        "spec": spec,
    })
}

/// What the API server says to an object, without storing it. Unknown fields are refused.
pub(crate) async fn verdict(client: &Client, object: &Value) -> Result<Value, String> {
    let parameters = PatchParams::apply("test").dry_run().validation_strict();
    let name = object["metadata"]["name"].as_str().unwrap();
    let answer = api_of(client, object)
        .patch(name, &parameters, &Patch::Apply(object))
        .await;
    match answer {
        Ok(accepted) => Ok(serde_json::to_value(accepted).unwrap()),
        Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message.clone()),
        Err(error) => panic!("neither accepted nor refused: {error}"),
    }
}

/// What the API server says to a POST of an object, without storing it.
pub(crate) async fn create(client: &Client, object: &Value) -> Result<Value, String> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let parsed = serde_json::from_value(object.clone()).unwrap();
    match api_of(client, object).create(&parameters, &parsed).await {
        Ok(created) => Ok(serde_json::to_value(created).unwrap()),
        Err(error) => Err(error.to_string()),
    }
}

/// Asserts that the API server refuses an object, in exactly one message with these words.
pub(crate) async fn assert_refused(client: &Client, object: &Value, words: &str) {
    let message = verdict(client, object)
        .await
        .expect_err(&object["spec"].to_string());
    assert!(message.contains(words), "{}: {message}", object["spec"]);
    assert_eq!(message.matches(": Invalid value:").count(), 1, "{message}");
}

/// Asserts that the API server refuses an object by its own checks, which name the field.
pub(crate) async fn assert_refused_by_schema(client: &Client, object: &Value, words: &str) {
    let message = verdict(client, object)
        .await
        .expect_err(&object["spec"].to_string());
    assert!(message.contains(words), "{}: {message}", object["spec"]);
}

/// Asserts that the API server accepts an object as it is.
pub(crate) async fn assert_accepted(client: &Client, object: &Value) {
    let accepted = verdict(client, object).await.unwrap();
    assert_eq!(accepted["spec"], object["spec"]);
}
