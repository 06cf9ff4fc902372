//! What `kubectl get` shows, asked for the way kubectl does: as a table.

use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::Request,
    discovery,
};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, VidraResource, names};

use crate::support::{client, object};

/// One object as a table: column names with their priority, and the cells of its row.
async fn table(client: &Client, plural: &str, name: &str) -> (Vec<(String, i64)>, Vec<Value>) {
    let path = format!("/apis/{}/{plural}", names::API_VERSION);
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    let mut request = Request::new(path).list(&only).unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    request
        .headers_mut()
        .insert("accept", accept.parse().unwrap());
    let table: Value = client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns = columns.map(|column| {
        (
            column["name"].as_str().unwrap().to_owned(),
            column["priority"].as_i64().unwrap(),
        )
    });
    (
        columns.collect(),
        table["rows"][0]["cells"].as_array().unwrap().clone(),
    )
}

fn names_of(columns: &[(String, i64)], wide: bool) -> Vec<&str> {
    let wanted = columns
        .iter()
        .filter(|(_, priority)| (*priority > 0) == wide);
    wanted.map(|(name, _)| name.as_str()).collect()
}

fn ready() -> Value {
    json!([
        { "type": "Reconciling", "status": "Unknown", "reason": "Other", "message": "other",
          "lastTransitionTime": "2025-06-01T10:00:00Z" },
        { "type": "Ready", "status": "False", "reason": "NoArtifacts", "message": "check the name",
          "lastTransitionTime": "2025-06-01T10:00:00Z" }
    ])
}

#[tokio::test]
async fn a_sync_is_printed_with_what_a_person_looks_for() {
    let client = client().await;
    let api: Api<InfrahubSync> = Api::all(client.clone());
    for spelling in ["artefactName", "artifactName"] {
        let source = json!({
            "infrahubAPIURL": "https://infrahub", spelling: "Webservers", "targetBranch": "release"
        });
        let sync = object::<InfrahubSync>(json!({ "source": source }));
        let name = sync["metadata"]["name"].as_str().unwrap().to_owned();
        let sync = serde_json::from_value(sync).unwrap();
        api.create(&PostParams::default(), &sync).await.unwrap();
        let status = json!({ "status": { "syncState": "Failed", "conditions": ready() } });
        let parameters = PatchParams::default();
        api.patch_status(&name, &parameters, &Patch::Merge(status))
            .await
            .unwrap();

        let (columns, cells) = table(&client, "infrahubsyncs", &name).await;
        let expected = [
            "Name", "Artifact", "Branch", "State", "Ready", "Reason", "Age",
        ];
        assert_eq!(names_of(&columns, false), expected);
        let wide = [
            "URL",
            "Date",
            "Cluster",
            "Suspended",
            "Last Sync",
            "Message",
        ];
        assert_eq!(names_of(&columns, true), wide);
        let shown = json!([
            name,
            "Webservers",
            "release",
            "Failed",
            "False",
            "NoArtifacts"
        ]);
        assert_eq!(json!(cells[..6]), shown);
        assert_eq!(cells.last().unwrap(), "check the name");
    }
}

#[tokio::test]
async fn a_resource_is_printed_with_what_a_person_looks_for() {
    let client = client().await;
    let api: Api<VidraResource> = Api::all(client.clone());
    let resource = object::<VidraResource>(json!({ "manifest": "" }));
    let name = resource["metadata"]["name"].as_str().unwrap().to_owned();
    let resource = serde_json::from_value(resource).unwrap();
    api.create(&PostParams::default(), &resource).await.unwrap();
    let status = json!({ "status": {
        "DeployState": "Failed", "conditions": ready(),
        "counts": { "desired": 7, "failed": 2 }, "held": { "hash": "h", "total": 3 }
    } });
    let parameters = PatchParams::default();
    api.patch_status(&name, &parameters, &Patch::Merge(status))
        .await
        .unwrap();

    let (columns, cells) = table(&client, "vidraresources", &name).await;
    let expected = ["Name", "State", "Ready", "Objects", "Reason", "Age"];
    assert_eq!(names_of(&columns, false), expected);
    let wide = [
        "Failed",
        "Held",
        "Cluster",
        "Suspended",
        "Last Sync",
        "Message",
    ];
    assert_eq!(names_of(&columns, true), wide);
    assert_eq!(
        json!(cells[..5]),
        json!([name, "Failed", "False", 7, "NoArtifacts"])
    );
    assert_eq!(json!(cells[6..8]), json!([2, 3]));
}

#[tokio::test]
async fn short_names_and_the_category_are_served() {
    let client = client().await;
    let group = discovery::group(&client, names::GROUP).await.unwrap();
    assert_eq!(group.versioned_resources(names::VERSION).len(), 2);
    let list = client
        .list_api_group_resources(names::API_VERSION)
        .await
        .unwrap();
    for (plural, short) in [("infrahubsyncs", "ihs"), ("vidraresources", "vr")] {
        let resource = list
            .resources
            .iter()
            .find(|one| one.name == plural)
            .unwrap();
        assert!(!resource.namespaced);
        assert_eq!(resource.short_names.as_deref().unwrap(), [short]);
        assert_eq!(resource.categories.as_deref().unwrap(), ["vidra"]);
    }
}
