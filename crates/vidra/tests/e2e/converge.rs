//! Whatever the order of a manifest, one reconcile makes the cluster equal to it.

use std::collections::BTreeSet;

use kube::{
    Client,
    api::{Api, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::json;
use vidra_lab::controlplane::unique;

use crate::support::*;

const SEEDS: u64 = 20;
/// Resources that are under way at once.
const AT_ONCE: usize = 5;

/// What a manifest is made of: kind, how many, and the document of the n-th.
struct Part {
    gvk: (&'static str, &'static str, &'static str),
    count: usize,
    document: fn(&Names, usize) -> String,
}

/// Every seed has its own namespaces and its own groups, so that each begins with nothing.
struct Names {
    seed: u64,
}

impl Names {
    fn namespace(&self, number: usize) -> String {
        format!("space-{}-{}", self.seed, number % 4)
    }

    fn group(&self, number: usize) -> String {
        format!("g{}-{}.converge.test", number % 2, self.seed)
    }

    fn name(&self, number: usize) -> String {
        format!("n{}-{number}", self.seed)
    }

    fn head(&self, api: &str, kind: &str, number: usize) -> String {
        let (name, namespace) = (self.name(number), self.namespace(number));
        format!(
            "---\napiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n"
        )
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// 200 objects of eleven kinds.
const PARTS: [Part; 11] = [
    Part {
        gvk: ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        count: 2,
        document: |names, number| definition(&names.group(number), "widgets", "Widget"),
    },
    Part {
        gvk: ("converge.test", "v1", "Widget"),
        count: 20,
        document: |names, number| {
            let api = format!("{}/v1", names.group(number));
            names.head(&api, "Widget", number) + "spec: {size: large}\n"
        },
    },
    Part {
        gvk: ("", "v1", "Namespace"),
        count: 4,
        document: |names, number| {
            let name = names.namespace(number);
            format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
        },
    },
    Part {
        gvk: ("", "v1", "ServiceAccount"),
        count: 20,
        document: |names, number| names.head("v1", "ServiceAccount", number),
    },
    Part {
        gvk: (RBAC, "v1", "Role"),
        count: 20,
        document: |names, number| {
            names.head("rbac.authorization.k8s.io/v1", "Role", number)
                + "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"
        },
    },
    Part {
        gvk: (RBAC, "v1", "RoleBinding"),
        count: 20,
        document: |names, number| {
            let name = names.name(number);
            names.head("rbac.authorization.k8s.io/v1", "RoleBinding", number)
                + &format!(
                    "roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}\n\
                     subjects: [{{kind: ServiceAccount, name: {name}}}]\n"
                )
        },
    },
    Part {
        gvk: (RBAC, "v1", "ClusterRole"),
        count: 7,
        document: |names, number| {
            let name = names.name(number);
            format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
                 metadata: {{name: {name}}}\n\
                 rules: [{{apiGroups: [\"\"], resources: [nodes], verbs: [get]}}]\n"
            )
        },
    },
    Part {
        gvk: (RBAC, "v1", "ClusterRoleBinding"),
        count: 7,
        document: |names, number| {
            let (name, space) = (names.name(number), names.namespace(number));
            format!(
                "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n\
                 metadata: {{name: {name}}}\n\
                 roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {name}}}\n\
                 subjects: [{{kind: ServiceAccount, name: {name}, namespace: {space}}}]\n"
            )
        },
    },
    Part {
        gvk: ("apps", "v1", "Deployment"),
        count: 20,
        document: |names, number| {
            names.head("apps/v1", "Deployment", number)
                + "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, \
                   spec: {containers: [{name: c, image: registry.example/c:1}]}}}\n"
        },
    },
    Part {
        gvk: ("networking.k8s.io", "v1", "NetworkPolicy"),
        count: 20,
        document: |names, number| {
            names.head("networking.k8s.io/v1", "NetworkPolicy", number)
                + "spec: {podSelector: {}}\n"
        },
    },
    Part {
        gvk: ("", "v1", "ConfigMap"),
        count: 60,
        document: |names, number| names.head("v1", "ConfigMap", number) + "data: {key: value}\n",
    },
];

/// The documents of a seed, in its order.
fn shuffled(seed: u64) -> Vec<String> {
    let names = Names { seed };
    let mut documents: Vec<String> = PARTS
        .iter()
        .flat_map(|part| (0..part.count).map(|number| (part.document)(&names, number)))
        .collect();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for end in (1..documents.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = usize::try_from(state % (end as u64 + 1)).unwrap();
        documents.swap(end, place);
    }
    documents
}

/// The names of all objects of a kind that carry our label.
async fn managed(client: &Client, gvk: (&str, &str, &str)) -> BTreeSet<String> {
    let params = ListParams::default().labels("managed-by=vidra");
    let api: Api<DynamicObject> = dynamic(client, gvk, None);
    let found = api.list(&params).await.unwrap();
    let named = |it: DynamicObject| {
        let (space, name) = (it.metadata.namespace, it.metadata.name.unwrap());
        format!("{}/{name}", space.unwrap_or_default())
    };
    found.items.into_iter().map(named).collect()
}

#[tokio::test]
async fn a_manifest_of_200_objects_in_any_order_converges_in_one_reconcile() {
    let (plane, client) = own_plane().await;
    let operator = Operator::start(plane.config(), quick_settings());
    let seeds: Vec<u64> = (1..=SEEDS).collect();
    for chunk in seeds.chunks(AT_ONCE) {
        for seed in chunk {
            let documents = shuffled(*seed);
            assert_eq!(documents.len(), 200);
            create(
                &client,
                &format!("seed-{seed}"),
                &documents.concat(),
                json!({}),
            )
            .await;
        }
        for seed in chunk {
            let status = ready(&client, &format!("seed-{seed}"))
                .await
                .status
                .unwrap();
            let counts = status.counts.unwrap();
            assert_eq!((counts.desired, counts.applied), (200, 200), "seed {seed}");
            assert_eq!(status.last_trigger, ["Event"], "seed {seed}");
        }
    }
    for part in PARTS.iter().filter(|part| part.gvk.0 != "converge.test") {
        let found = managed(&client, part.gvk).await;
        let expected = part.count * seeds.len();
        assert_eq!(found.len(), expected, "{:?}", part.gvk);
    }
    for seed in seeds {
        let names = Names { seed };
        for group in [names.group(0), names.group(1)] {
            let found = managed(&client, (&group, "v1", "Widget")).await;
            assert_eq!(found.len(), 10, "{group}");
        }
    }
    operator.stop();
}

#[tokio::test]
async fn different_seeds_give_different_orders_of_the_same_objects() {
    let generic = |seed: u64| -> Vec<String> {
        let own = [
            format!("n{seed}-"),
            format!("-{seed}-"),
            format!("-{seed}."),
        ];
        let documents = shuffled(seed).into_iter();
        documents
            .map(|text| own.iter().fold(text, |text, own| text.replace(own, "SEED")))
            .collect()
    };
    let orders: BTreeSet<Vec<String>> = (1..=SEEDS).map(generic).collect();
    assert_eq!(orders.len(), 20);
    let sets: BTreeSet<BTreeSet<String>> = orders
        .into_iter()
        .map(|order| order.into_iter().collect())
        .collect();
    assert_eq!(sets.len(), 1);
}

#[tokio::test]
async fn a_definition_and_its_objects_in_one_manifest_need_one_apply_each() {
    let world = world().await;
    let namespace = world.plane.namespace("converge").await.unwrap();
    let name = unique("definition");
    let group = format!("{name}.test");
    let object = |name: &str| {
        format!(
            "---\napiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{size: small}}\n"
        )
    };
    let manifest = object("one") + &definition(&group, "gadgets", "Gadget") + &object("two");
    let mark = world.plane.audit().mark().unwrap();
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = ready(&world.client, &name).await;
    let status = resource.status.unwrap();
    assert_eq!(status.last_trigger, ["Event"], "{}", show(&status));
    let writes = writes_in(world.plane, mark, &namespace).await;
    let written: BTreeSet<(String, u16)> = writes
        .iter()
        .map(|entry| (entry.name.clone(), entry.code))
        .collect();
    let expected = [("one".to_owned(), 201), ("two".to_owned(), 201)];
    assert_eq!(written, BTreeSet::from(expected), "{}", show(&writes));
    assert_eq!(writes.len(), 2, "{}", show(&writes));
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn a_refused_definition_keeps_only_its_own_objects_waiting() {
    let world = world().await;
    let namespace = world.plane.namespace("converge").await.unwrap();
    let name = unique("refused");
    let group = format!("{name}.test");
    let bad = definition(&group, "gadgets", "Gadget").replace("storage: true", "storage: false");
    let manifest = format!(
        "{bad}---\napiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: one, namespace: {namespace}}}\n{}",
        config_map(&namespace, "other", "1")
    );
    create(&world.client, &name, &manifest, json!({})).await;
    let resource = condition(&world.client, &name, "Ready", "False").await;
    let status = resource.status.unwrap();
    let reasons: Vec<&str> = status
        .failures
        .iter()
        .map(|it| it.reason.as_str())
        .collect();
    assert_eq!(reasons, ["Rejected", "UnknownKind"], "{}", show(&status));
    value_is(&world.client, &namespace, "other", "1").await;
    let good = manifest.replace("storage: false", "storage: true");
    change(&world.client, &name, json!({"manifest": good})).await;
    ready(&world.client, &name).await;
    delete(&world.client, &name).await;
}

#[tokio::test]
async fn an_unknown_kind_is_reported_for_that_object_only_and_applied_when_its_definition_comes() {
    let (plane, client) = own_plane().await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("unknown").await.unwrap();
    let manifest = config_map(&namespace, "known", "1")
        + &format!(
            "---\napiVersion: later.test/v1\nkind: Gadget\nmetadata: {{name: one, namespace: {namespace}}}\n"
        );
    let mark = plane.audit().mark().unwrap();
    create(&client, "unknown", &manifest, json!({})).await;
    let status = condition(&client, "unknown", "Ready", "False")
        .await
        .status
        .unwrap();
    assert_eq!(status.failures.len(), 1, "{}", show(&status));
    assert_eq!(status.failures[0].reason, "UnknownKind");
    assert!(status.failures[0].object.contains("Gadget"));
    assert!(status.failures[0].message.contains("install its CRD"));
    value_is(&client, &namespace, "known", "1").await;
    assert!(status.counts.unwrap().applied == 1);

    // Long enough for the pause between tries to outgrow the rest of this test.
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    plane.audit_fence().await.unwrap();
    let asked = plane.audit().since(mark).unwrap();
    let of_vidra = |uri: &str| {
        let own = asked
            .iter()
            .filter(|it| it.user_agent.starts_with("vidra/"));
        own.filter(|it| it.is_complete() && it.uri.starts_with(uri))
            .count()
    };
    let discoveries = asked
        .iter()
        .filter(|it| it.user_agent.starts_with("vidra/") && it.uri == "/apis")
        .count();
    assert!((1..=6).contains(&discoveries), "{discoveries} discoveries");
    let status_writes =
        of_vidra("/apis/infrahub.operators.com/v1alpha1/vidraresources/unknown/status");
    assert!(status_writes <= 3, "{status_writes} writes of the status");

    let later: serde_json::Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.later.test"},
        "spec": {"group": "later.test", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let definitions = dynamic(
        &client,
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        None,
    );
    definitions
        .patch(
            "gadgets.later.test",
            &PatchParams::apply("somebody"),
            &Patch::Apply(&later),
        )
        .await
        .unwrap();
    let status = ready(&client, "unknown").await.status.unwrap();
    assert_eq!(status.last_trigger, ["Event"], "{}", show(&status));
    let gadgets = dynamic(&client, ("later.test", "v1", "Gadget"), Some(&namespace));
    assert!(fetch(&gadgets, "one").await.is_some());
    operator.stop();
}
