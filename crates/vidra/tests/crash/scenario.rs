//! What is under way when the operator dies, and what must be true in the end.
//!
//! Everything of one run bears one name, the tag: the namespace, the resource and its
//! cluster-scoped object.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ObjectMeta, PostParams},
};
use serde_json::{Value, json};
use vidra_core::inventory::Origin;

use crate::support::{change, create, dynamic, eventually, ready, resources};

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    FirstSync,
    Update,
    Shrink,
    Delete,
    /// A first sync, and before the operator is back the manifest wants less: only the inventory
    /// that was written ahead knows what may have been made.
    Overtaken,
}

/// An object that the manifest asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) kind: (&'static str, &'static str, &'static str),
    pub(crate) name: String,
    pub(crate) content: Value,
    pub(crate) origin: Origin,
}

impl Scenario {
    /// Those in which nothing happens behind the operator's back.
    pub(crate) const STEADY: [Self; 4] =
        [Self::FirstSync, Self::Update, Self::Shrink, Self::Delete];
    pub(crate) const ALL: [Self; 5] = [
        Self::FirstSync,
        Self::Update,
        Self::Shrink,
        Self::Delete,
        Self::Overtaken,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FirstSync => "first-sync",
            Self::Update => "update",
            Self::Shrink => "shrink",
            Self::Delete => "delete",
            Self::Overtaken => "overtaken",
        }
    }

    /// Brings the world to where the scenario begins. Answers whether the operator had to work.
    pub(crate) async fn set_up(self, client: &Client, tag: &str) -> bool {
        if matches!(self, Self::FirstSync | Self::Overtaken) {
            return false;
        }
        create(client, tag, &manifest(tag, &base(tag)), json!({})).await;
        ready(client, tag).await;
        true
    }

    /// Does what the operator has to react to.
    pub(crate) async fn act(self, client: &Client, tag: &str) {
        let manifest = match self {
            Self::Overtaken => manifest(tag, &base(tag)),
            _ => manifest(tag, &self.wanted(tag)),
        };
        match self {
            Self::FirstSync | Self::Overtaken => create(client, tag, &manifest, json!({})).await,
            Self::Update | Self::Shrink => {
                change(client, tag, json!({ "manifest": manifest })).await;
            }
            Self::Delete => {
                let params = DeleteParams::default();
                resources(client).delete(tag, &params).await.unwrap();
            }
        }
    }

    /// What happens while nobody is there to react.
    pub(crate) async fn meanwhile(self, client: &Client, tag: &str) {
        if self == Self::Overtaken {
            let manifest = manifest(tag, &self.wanted(tag));
            change(client, tag, json!({ "manifest": manifest })).await;
        }
    }

    /// Waits until the operator says that it is done.
    pub(crate) async fn converge(self, client: &Client, tag: &str) {
        if self == Self::Delete {
            until_gone(client, tag).await;
        } else {
            ready(client, tag).await;
        }
    }

    /// What must be there in the end.
    pub(crate) fn wanted(self, tag: &str) -> Vec<Wanted> {
        let mut wanted = base(tag);
        match self {
            Self::FirstSync => {}
            Self::Update => {
                wanted[0].content = json!({"data": {"key": "changed"}});
                wanted.push(config_map("added", "1", Origin::Created));
            }
            Self::Shrink => wanted.retain(|it| it.name != "secret" && it.name != "adopted"),
            Self::Overtaken => wanted.retain(|it| it.name != "secret" && it.name != tag),
            Self::Delete => wanted.clear(),
        }
        wanted
    }
}

/// Waits until a resource is gone.
pub(crate) async fn until_gone(client: &Client, tag: &str) {
    eventually("the resource is gone", || async {
        let found = resources(client).get_opt(tag).await.unwrap();
        found.is_none().then_some(())
    })
    .await;
}

fn base(tag: &str) -> Vec<Wanted> {
    let secret = Wanted {
        kind: ("", "v1", "Secret"),
        name: "secret".to_owned(),
        content: json!({"data": {"key": "c2VjcmV0"}}),
        origin: Origin::Created,
    };
    let role = Wanted {
        kind: ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        name: tag.to_owned(),
        content: json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        origin: Origin::Created,
    };
    vec![
        config_map("one", "1", Origin::Created),
        secret,
        role,
        config_map("adopted", "ours", Origin::Adopted),
    ]
}

fn config_map(name: &str, value: &str, origin: Origin) -> Wanted {
    Wanted {
        kind: ("", "v1", "ConfigMap"),
        name: name.to_owned(),
        content: json!({"data": {"key": value}}),
        origin,
    }
}

impl Wanted {
    pub(crate) fn is_cluster_scoped(&self) -> bool {
        self.kind.2 == "ClusterRole"
    }

    pub(crate) fn api(&self, client: &Client, tag: &str) -> Api<DynamicObject> {
        let namespace = (!self.is_cluster_scoped()).then_some(tag);
        dynamic(client, self.kind, namespace)
    }

    fn document(&self, tag: &str) -> Value {
        let (group, version, kind) = self.kind;
        let api_version = format!("{group}/{version}");
        let mut document = self.content.clone();
        document["apiVersion"] = json!(api_version.trim_start_matches('/'));
        document["kind"] = json!(kind);
        document["metadata"] = json!({"name": self.name});
        if !self.is_cluster_scoped() {
            document["metadata"]["namespace"] = json!(tag);
        }
        document
    }
}

fn manifest(tag: &str, wanted: &[Wanted]) -> String {
    let documents = wanted.iter().map(|it| it.document(tag).to_string());
    documents.collect::<Vec<_>>().join("\n---\n")
}

/// What is there before Vidra: the namespace, an object to adopt, and two that are none of its
/// business, one of which looks as if it were.
pub(crate) async fn prepare(client: &Client, tag: &str) {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(tag.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    api.create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let marks = json!({"managed-by": "vidra"});
    let objects = [
        json!({"metadata": {"name": "adopted"}, "data": {"key": "theirs", "other": "kept"}}),
        json!({"metadata": {"name": "canary-plain"}, "data": {"key": "1"}}),
        json!({"metadata": {"name": "canary-alike", "labels": marks, "annotations": marks},
               "data": {"key": "1"}}),
    ];
    let api = dynamic(client, ("", "v1", "ConfigMap"), Some(tag));
    let params = PostParams {
        field_manager: Some("somebody".to_owned()),
        ..PostParams::default()
    };
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&params, &object).await.unwrap();
    }
}
