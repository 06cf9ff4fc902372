//! The configuration ConfigMap: read at the start, followed from then on.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::sync::{MutexGuard, OnceCell};
use vidra_lab::{
    controlplane::{ControlPlane, unique},
    proxy::{Effect, Fault, FaultProxy, Gate, Rule, Seen, Strikes},
};
use vidra_operator::settings::Settings;

use crate::{drift::manager, support::*};

/// Long enough for two passes of a second each.
const NOTHING: Duration = Duration::from_millis(2_500);

/// A control plane for these tests alone, who take turns, each with a namespace of Vidra's own.
struct Stage {
    plane: &'static ControlPlane,
    client: Client,
    own: String,
    _turn: MutexGuard<'static, ()>,
}

async fn stage() -> Stage {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    let turn = TURN.lock().await;
    let plane = PLANE.get_or_init(|| async { own_plane().await.0 }).await;
    Stage {
        plane,
        client: plane.client().unwrap(),
        own: plane.namespace("vidra").await.unwrap(),
        _turn: turn,
    }
}

/// An operator that ends with its test, however that ends: two would fight.
struct Running(Option<Operator>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(operator) = self.0.take() {
            operator.stop();
        }
    }
}

impl Stage {
    /// Settings of a command line that asks for nothing but what is said to it.
    fn quiet(&self) -> Settings {
        Settings {
            namespace: self.own.clone(),
            event_based_reconcile: false,
            ..quick_settings()
        }
    }

    fn start(&self, settings: Settings) -> Running {
        Running(Some(Operator::start(self.plane.config(), settings)))
    }

    /// A way to the API server on which a fault meets whoever asks for the configuration.
    fn proxied(&self, fault: Fault) -> (FaultProxy, Strikes) {
        let proxy = FaultProxy::start(self.plane).unwrap();
        let path = format!("/api/v1/namespaces/{}/configmaps", self.own);
        let strikes = proxy.add(Rule::every(move |seen: &Seen| seen.path == path, fault).nth(1));
        (proxy, strikes)
    }

    /// Makes or changes a ConfigMap with the label.
    async fn configure(&self, name: &str, data: Value) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"app": "vidra"}}, "data": data});
        let params = PatchParams::apply("admin").force();
        config_maps(&self.client, &self.own)
            .patch(name, &params, &Patch::Apply(&map))
            .await
            .unwrap();
    }

    async fn remove(&self, name: &str) {
        config_maps(&self.client, &self.own)
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Events about ConfigMaps of Vidra's own, each with its reason and note.
    async fn events(&self, name: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.own);
        let fields = format!("regarding.kind=ConfigMap,regarding.name={name}");
        let found = api.list(&ListParams::default().fields(&fields)).await;
        found.unwrap().items
    }

    /// Waits until an Event with a reason has all the words, and answers it.
    async fn told(&self, name: &str, reason: &str, words: &[&str]) -> Event {
        eventually(&format!("{name} is told {reason} {words:?}"), || async {
            let events = self.events(name).await;
            events.into_iter().find(|event| {
                let note = event.note.as_deref().unwrap_or_default();
                event.reason.as_deref() == Some(reason) && words.iter().all(|it| note.contains(it))
            })
        })
        .await
    }

    /// A resource with one ConfigMap `one` in a namespace of its own.
    async fn keeper(&self, spec: Value) -> (String, String) {
        let namespace = self.plane.namespace("config").await.unwrap();
        let name = unique("config");
        let manifest = config_map(&namespace, "one", "good");
        create(&self.client, &name, &manifest, spec).await;
        ready(&self.client, &name).await;
        (namespace, name)
    }

    async fn drift(&self, namespace: &str) {
        let patch = json!({"data": {"key": "bad"}});
        config_maps(&self.client, namespace)
            .patch("one", &manager("drifter"), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Sees that drift stays for a while.
    async fn stays_bad(&self, namespace: &str) {
        tokio::time::sleep(NOTHING).await;
        let live = config_maps(&self.client, namespace).get("one").await;
        assert_eq!(live.unwrap().data.unwrap()["key"], "bad");
    }

    async fn is_healed(&self, namespace: &str) {
        value_is(&self.client, namespace, "one", "good").await;
    }

    async fn end(&self, operator: Running, names: &[&str]) {
        for name in names {
            delete(&self.client, name).await;
        }
        drop(operator);
    }
}

#[tokio::test]
async fn a_change_of_the_interval_applies_without_a_restart() {
    let stage = stage().await;
    let operator = stage.start(Settings {
        requeue_resources_after: Duration::from_hours(1),
        ..stage.quiet()
    });
    let (namespace, name) = stage.keeper(json!({})).await;
    let (slow, slow_name) = stage.keeper(json!({"interval": "1h"})).await;
    stage.drift(&namespace).await;
    stage.drift(&slow).await;
    stage
        .configure("vidra", json!({"requeueResourcesAfter": "1s"}))
        .await;
    stage.is_healed(&namespace).await;
    let triggered = eventually("the pass is in the status", || async {
        let status = resources(&stage.client).get(&name).await.unwrap().status?;
        status
            .last_trigger
            .contains(&"Timer".to_owned())
            .then_some(status.last_trigger)
    });
    assert_eq!(triggered.await, ["Timer"]);
    let change = ["requeueResourcesAfter is 1s (was 1h)"];
    let event = stage.told("vidra", "Configured", &change).await;
    assert_eq!(event.type_.as_deref(), Some("Normal"));

    stage
        .configure("vidra", json!({"requeueResourcesAfter": "0"}))
        .await;
    stage.told("vidra", "Configured", &["is 0s (was 1s)"]).await;
    stage.drift(&namespace).await;
    stage.stays_bad(&namespace).await;
    // An interval of its own is nobody else's.
    stage.stays_bad(&slow).await;
    stage.end(operator, &[&name, &slow_name]).await;
}

#[tokio::test]
async fn events_are_switched_on_and_off_for_every_resource_without_a_wish_of_its_own() {
    let stage = stage().await;
    stage
        .configure("vidra", json!({"eventBasedReconcile": "false"}))
        .await;
    let operator = stage.start(Settings {
        event_based_reconcile: true,
        ..stage.quiet()
    });
    let wish = |wish: bool| json!({"destination": {"reconcileOnEvents": wish}});
    let (plain, plain_name) = stage.keeper(json!({})).await;
    let (eager, eager_name) = stage.keeper(wish(true)).await;
    let (lazy, lazy_name) = stage.keeper(wish(false)).await;
    for namespace in [&plain, &eager, &lazy] {
        stage.drift(namespace).await;
    }
    stage.is_healed(&eager).await;
    stage.stays_bad(&plain).await;

    stage
        .configure("vidra", json!({"eventBasedReconcile": "true"}))
        .await;
    // First what had happened before, then what happens now.
    stage.is_healed(&plain).await;
    stage.drift(&plain).await;
    stage.is_healed(&plain).await;
    stage.stays_bad(&lazy).await;

    stage
        .configure("vidra", json!({"eventBasedReconcile": "false"}))
        .await;
    stage
        .told("vidra", "Configured", &["eventBasedReconcile is false"])
        .await;
    request(&stage.client, &plain_name).await;
    stage.drift(&plain).await;
    stage.drift(&eager).await;
    stage.is_healed(&eager).await;
    stage.stays_bad(&plain).await;
    stage
        .end(operator, &[&plain_name, &eager_name, &lazy_name])
        .await;
}

#[tokio::test]
async fn a_bad_value_keeps_the_last_good_one_and_its_config_map_is_told() {
    let stage = stage().await;
    let operator = stage.start(stage.quiet());
    let (namespace, name) = stage.keeper(json!({})).await;
    stage
        .configure("vidra", json!({"requeueResourcesAfter": "1s"}))
        .await;
    stage.told("vidra", "Configured", &["is 1s (was 0s)"]).await;

    let bad = json!({"requeueResourcesAfter": "soon", "queryName": "Other"});
    stage.configure("vidra", bad).await;
    let words = [
        "requeueResourcesAfter is \"soon\"",
        "expected a duration",
        "stays at 1s",
    ];
    let event = stage.told("vidra", "InvalidConfiguration", &words).await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    // The other key applies all the same.
    stage
        .told("vidra", "Configured", &["queryName is \"Other\""])
        .await;
    stage.drift(&namespace).await;
    stage.is_healed(&namespace).await;

    let good = json!({"requeueResourcesAfter": "1s", "queryName": "Other"});
    stage.configure("vidra", good).await;
    stage
        .told("vidra", "Configured", &["the settings are as they were"])
        .await;
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn what_is_removed_goes_back_to_the_command_line() {
    let stage = stage().await;
    let never = json!({"requeueResourcesAfter": "0s", "queryName": "Other"});
    stage.configure("vidra", never.clone()).await;
    let operator = stage.start(Settings {
        requeue_resources_after: Duration::from_secs(1),
        ..stage.quiet()
    });
    let (namespace, name) = stage.keeper(json!({})).await;
    stage.drift(&namespace).await;
    stage.stays_bad(&namespace).await;
    stage
        .configure("vidra", json!({"queryName": "Other"}))
        .await;
    stage.is_healed(&namespace).await;

    stage.configure("vidra", never).await;
    stage.told("vidra", "Configured", &["is 0s (was 1s)"]).await;
    stage.drift(&namespace).await;
    stage.stays_bad(&namespace).await;
    stage.remove("vidra").await;
    stage.is_healed(&namespace).await;
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn two_configurations_are_both_told_of_both_and_change_nothing() {
    let stage = stage().await;
    stage
        .configure("somebody-else", json!({"nginx.conf": "", "colour": "blue"}))
        .await;
    stage
        .configure("first", json!({"requeueResourcesAfter": "1s"}))
        .await;
    let operator = stage.start(stage.quiet());
    let (namespace, name) = stage.keeper(json!({})).await;
    stage
        .configure("second", json!({"requeueResourcesAfter": "0s"}))
        .await;
    for name in ["first", "second"] {
        let event = stage
            .told(name, "AmbiguousConfiguration", &["first, second"])
            .await;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
    }
    stage.drift(&namespace).await;
    stage.is_healed(&namespace).await;

    stage.remove("first").await;
    stage
        .told(
            "second",
            "Configured",
            &["requeueResourcesAfter is 0s (was 1s)"],
        )
        .await;
    stage.drift(&namespace).await;
    stage.stays_bad(&namespace).await;
    assert!(stage.events("somebody-else").await.is_empty());
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn an_unknown_key_is_told_once_and_the_others_apply() {
    let stage = stage().await;
    let operator = stage.start(stage.quiet());
    // It has started; what it finds at the start it only logs.
    let (_, name) = stage.keeper(json!({})).await;
    let slip = |name: &str| json!({"requeueSyncsAfter": "1m", "queryName": name});
    stage.configure("vidra", slip("One")).await;
    let words = ["\"requeueSyncsAfter\" (did you mean requeueSyncAfter?)"];
    stage.told("vidra", "UnknownKey", &words).await;
    stage.told("vidra", "Configured", &["\"One\""]).await;
    stage.configure("vidra", slip("Two")).await;
    stage.told("vidra", "Configured", &["\"Two\""]).await;
    let mut events = stage.events("vidra").await;
    events.retain(|event| event.reason.as_deref() == Some("UnknownKey"));
    assert_eq!(events.len(), 1, "{}", show(&events));
    assert!(events[0].series.is_none(), "{}", show(&events));
    // Nothing that Vidra knows: perhaps a slip, but no configuration.
    stage
        .configure("slip", json!({"requeueSyncsAfter": "1m"}))
        .await;
    stage
        .told("slip", "UnknownKey", &["requeueSyncAfter?"])
        .await;
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn a_change_that_changes_nothing_writes_nothing() {
    let stage = stage().await;
    stage
        .configure("vidra", json!({"requeueSyncAfter": "60s"}))
        .await;
    let operator = stage.start(stage.quiet());
    let (_, name) = stage.keeper(json!({})).await;
    stage.plane.audit_fence().await.unwrap();
    let mark = stage.plane.audit().mark().unwrap();
    let same = [
        json!({"requeueSyncAfter": "1m"}),
        json!({"requeueSyncAfter": "1m", "resourceWorkers": "8"}),
        json!({"eventBasedReconcile": "False", "requeueSyncAfter": "1m0s"}),
    ];
    for data in same {
        stage.configure("vidra", data).await;
    }
    // What is told about this one was found after the others. It does change something: all
    // resources are looked at again, but nothing is wrong with them.
    stage
        .configure("vidra", json!({"eventBasedReconcile": "true"}))
        .await;
    stage
        .told("vidra", "Configured", &["eventBasedReconcile is true"])
        .await;
    request(&stage.client, &name).await;
    stage.plane.audit_fence().await.unwrap();
    let mut writes = stage.plane.audit().mutations(mark, "vidra/").unwrap();
    // The request itself is acknowledged and applies everything.
    writes.retain(|it| it.resource != "vidraresources" && it.resource != "configmaps");
    assert_eq!(writes.len(), 1, "{}", show(&writes));
    assert_eq!(writes[0].resource, "events");
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn the_first_turn_after_a_start_knows_the_configuration() {
    let stage = stage().await;
    let operator = stage.start(stage.quiet());
    let namespace = stage.plane.namespace("config").await.unwrap();
    let name = unique("config");
    let both = config_map(&namespace, "one", "1") + &config_map(&namespace, "two", "2");
    create(&stage.client, &name, &both, json!({})).await;
    ready(&stage.client, &name).await;
    drop(operator);

    stage
        .configure("vidra", json!({"pruneMaxCount": "0"}))
        .await;
    let one = json!({"manifest": config_map(&namespace, "one", "1")});
    change(&stage.client, &name, one).await;
    // The answer takes longer than everything that a turn needs.
    let slow = Fault::Request(Effect::Delay(Duration::from_secs(2)));
    let (proxy, strikes) = stage.proxied(slow);
    let operator = Running(Some(Operator::start(proxy.config(), stage.quiet())));
    let resource = condition(&stage.client, &name, "PruneHeld", "True").await;
    assert_eq!(strikes.struck(), 1);
    let (_, message) = said(&resource, "PruneHeld");
    assert!(message.contains("at most 0 may"), "{message}");
    assert_eq!(names(&stage.client, &namespace).await, ["one", "two"]);

    stage
        .configure("vidra", json!({"pruneMaxCount": "1"}))
        .await;
    stage
        .told("vidra", "Configured", &["pruneMaxCount is 1 (was 0)"])
        .await;
    request(&stage.client, &name).await;
    is_gone(&stage.client, &namespace, "two").await;
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_does_not_stop_the_start() {
    let stage = stage().await;
    let (proxy, strikes) = stage.proxied(Fault::Request(Effect::Hold(Gate::closed())));
    let operator = Running(Some(Operator::start(proxy.config(), stage.quiet())));
    let (_, name) = stage.keeper(json!({})).await;
    assert_eq!(strikes.struck(), 1);
    stage.end(operator, &[&name]).await;
}

#[tokio::test]
async fn the_number_of_workers_changes_and_work_is_done_all_the_same() {
    let stage = stage().await;
    let operator = stage.start(stage.quiet());
    let mut made = vec![stage.keeper(json!({"interval": "1s"})).await];
    for workers in ["1", "20", "2"] {
        stage
            .configure("vidra", json!({"resourceWorkers": workers}))
            .await;
        let change = format!("resourceWorkers is {workers} ");
        stage.told("vidra", "Configured", &[&change]).await;
        let spec = json!({"interval": "1s"});
        made.push(stage.keeper(spec).await);
        for (namespace, _) in &made {
            stage.drift(namespace).await;
            stage.is_healed(namespace).await;
        }
    }
    let names: Vec<&str> = made.iter().map(|(_, name)| name.as_str()).collect();
    stage.end(operator, &names).await;
}

#[tokio::test]
async fn without_the_right_to_read_it_the_command_line_holds_until_there_is_one() {
    let stage = stage().await;
    let user = unique("unconfigured");
    let enough = json!([
        {"apiGroups": ["infrahub.operators.com"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]);
    grant(&stage.client, &user, "enough", enough).await;
    stage
        .configure("vidra", json!({"pruneMaxCount": "0"}))
        .await;
    let config = stage.plane.config_as(&user, &[]).unwrap();
    let operator = Running(Some(Operator::start(config, stage.quiet())));
    let namespace = stage.plane.namespace("config").await.unwrap();
    let name = unique("config");
    let service = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
             spec: {{clusterIP: None}}\n"
        )
    };
    let manifest = |names: &[&str]| -> String { names.iter().map(|it| service(it)).collect() };
    create(
        &stage.client,
        &name,
        &manifest(&["one", "two", "three"]),
        json!({}),
    )
    .await;
    ready(&stage.client, &name).await;
    change(
        &stage.client,
        &name,
        json!({"manifest": manifest(&["one", "two"])}),
    )
    .await;
    let resource = ready(&stage.client, &name).await;
    assert!(
        resource.status.unwrap().held.is_none(),
        "the command line holds"
    );

    let reading =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]);
    grant(&stage.client, &user, "reading", reading).await;
    stage
        .told("vidra", "Configured", &["pruneMaxCount is 0 (was 25)"])
        .await;
    change(
        &stage.client,
        &name,
        json!({"manifest": manifest(&["one"])}),
    )
    .await;
    condition(&stage.client, &name, "PruneHeld", "True").await;
    stage.end(operator, &[&name]).await;
}

/// Gives a user rights in the whole cluster.
async fn grant(client: &Client, user: &str, what: &str, permissions: Value) {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let name = format!("{user}-{what}");
    let role = json!({"apiVersion": version, "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": permissions});
    let binding = json!({"apiVersion": version, "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}]});
    for (kind, object) in [("ClusterRole", role), ("ClusterRoleBinding", binding)] {
        let params = PatchParams::apply("e2e").force();
        dynamic(client, (group, "v1", kind), None)
            .patch(&name, &params, &Patch::Apply(&object))
            .await
            .unwrap();
    }
}
