//! Several resources with the same object: who keeps it, who decides, who deletes it.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Client, api::DeleteParams};
use serde_json::{Value, json};
use vidra_lab::controlplane::{ControlPlane, unique};

use crate::support::*;

/// A ConfigMap with several values.
fn settings(namespace: &str, name: &str, data: &Value) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": data,
    });
    format!("---\n{object}\n")
}

async fn data(client: &Client, namespace: &str, name: &str) -> BTreeMap<String, String> {
    let found = config_maps(client, namespace).get(name).await.unwrap();
    found.data.unwrap_or_default()
}

async fn uid(client: &Client, namespace: &str, name: &str) -> String {
    let found = config_maps(client, namespace).get(name).await.unwrap();
    found.metadata.uid.unwrap()
}

/// Waits until the condition names the other resource.
async fn conflict_names(client: &Client, name: &str, other: &str) {
    eventually(&format!("{name} names {other}"), || async {
        let resource = resources(client).get(name).await.unwrap();
        let (_, message) = said(&resource, "OwnershipConflict");
        message.contains(other).then_some(())
    })
    .await;
}

async fn no_conflict(client: &Client, name: &str) {
    eventually(&format!("{name} has no conflict"), || async {
        let resource = resources(client).get(name).await.unwrap();
        said(&resource, "OwnershipConflict")
            .0
            .is_empty()
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn deleting_one_owner_keeps_the_shared_object_and_the_last_one_deletes_it() {
    let world = world().await;
    let namespace = world.plane.namespace("owners").await.unwrap();
    let owners = [unique("one"), unique("two"), unique("three")];
    for owner in &owners {
        let manifest = config_map(&namespace, "shared", "same");
        create(&world.client, owner, &manifest, json!({})).await;
    }
    for owner in &owners {
        let resource = ready(&world.client, owner).await;
        assert_eq!(said(&resource, "OwnershipConflict").0, "", "equal content");
    }
    let before = uid(&world.client, &namespace, "shared").await;
    for owner in &owners[..2] {
        delete(&world.client, owner).await;
        assert_eq!(uid(&world.client, &namespace, "shared").await, before);
        value_is(&world.client, &namespace, "shared", "same").await;
    }
    delete(&world.client, &owners[2]).await;
    is_gone(&world.client, &namespace, "shared").await;
}

#[tokio::test]
async fn an_object_that_leaves_one_manifest_stays_for_the_other_owner() {
    let world = world().await;
    let namespace = world.plane.namespace("owners").await.unwrap();
    let (stays, leaves) = (unique("stays"), unique("leaves"));
    let shared = config_map(&namespace, "shared", "same");
    let own = config_map(&namespace, "own", "1");
    create(&world.client, &stays, &shared, json!({})).await;
    create(&world.client, &leaves, &(shared.clone() + &own), json!({})).await;
    ready(&world.client, &stays).await;
    ready(&world.client, &leaves).await;
    let before = uid(&world.client, &namespace, "shared").await;
    change(&world.client, &leaves, json!({"manifest": own})).await;
    let status = ready(&world.client, &leaves).await.status.unwrap();
    assert_eq!(status.managed_resources.len(), 1, "{}", show(&status));
    assert_eq!(uid(&world.client, &namespace, "shared").await, before);
    change(
        &world.client,
        &stays,
        json!({"manifest": config_map(&namespace, "other", "1")}),
    )
    .await;
    ready(&world.client, &stays).await;
    is_gone(&world.client, &namespace, "shared").await;
}

#[tokio::test]
async fn fields_that_only_one_owner_wanted_go_with_it() {
    let world = world().await;
    let namespace = world.plane.namespace("owners").await.unwrap();
    let (plain, rich) = (unique("plain"), unique("rich"));
    let few = settings(&namespace, "shared", &json!({"both": "1", "plain": "1"}));
    let many = settings(&namespace, "shared", &json!({"both": "1", "rich": "1"}));
    create(&world.client, &plain, &few, json!({})).await;
    create(&world.client, &rich, &many, json!({})).await;
    ready(&world.client, &plain).await;
    ready(&world.client, &rich).await;
    let all = data(&world.client, &namespace, "shared").await;
    assert_eq!(
        all.into_keys().collect::<Vec<_>>(),
        ["both", "plain", "rich"]
    );
    delete(&world.client, &rich).await;
    let left = data(&world.client, &namespace, "shared").await;
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["both", "plain"]);
}

/// Whichever comes first: the weaker or the stronger owner.
async fn contest(is_weak_first: bool) {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("contest").await.unwrap();
    let (weak, strong) = (unique("weak"), unique("strong"));
    let mut owners = [(&weak, "low", 1), (&strong, "high", 10)];
    if !is_weak_first {
        owners.reverse();
    }
    for (owner, value, precedence) in owners {
        let manifest = config_map(&namespace, "shared", value);
        create(client, owner, &manifest, json!({"precedence": precedence})).await;
        ready(client, owner).await;
    }
    value_is(client, &namespace, "shared", "high").await;
    conflict_names(client, &weak, &strong).await;
    conflict_names(client, &strong, &weak).await;

    let mark = world.plane.audit().mark().unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(writes.is_empty(), "a fight: {}", show(&writes));

    delete(client, &strong).await;
    value_is(client, &namespace, "shared", "low").await;
    no_conflict(client, &weak).await;
    delete(client, &weak).await;
    is_gone(client, &namespace, "shared").await;
}

#[tokio::test]
async fn the_stronger_owner_decides_when_it_comes_last_and_both_name_the_other() {
    contest(true).await;
}

#[tokio::test]
async fn the_stronger_owner_decides_when_it_comes_first_and_both_name_the_other() {
    contest(false).await;
}

#[tokio::test]
async fn a_changed_precedence_changes_who_decides() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("contest").await.unwrap();
    let (rising, falling) = (unique("rising"), unique("falling"));
    for (owner, precedence) in [(&rising, 1), (&falling, 5)] {
        let manifest = config_map(&namespace, "shared", owner);
        create(client, owner, &manifest, json!({"precedence": precedence})).await;
        ready(client, owner).await;
    }
    value_is(client, &namespace, "shared", &falling).await;
    change(client, &rising, json!({"precedence": 9})).await;
    value_is(client, &namespace, "shared", &rising).await;
    change(client, &rising, json!({"precedence": 2})).await;
    value_is(client, &namespace, "shared", &falling).await;
}

#[tokio::test]
async fn owners_that_come_to_agree_are_no_longer_in_conflict() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("contest").await.unwrap();
    let (weak, strong) = (unique("weak"), unique("strong"));
    for (owner, value, precedence) in [(&weak, "a", 1), (&strong, "b", 5)] {
        let manifest = config_map(&namespace, "shared", value);
        create(client, owner, &manifest, json!({"precedence": precedence})).await;
        ready(client, owner).await;
    }
    conflict_names(client, &weak, &strong).await;
    conflict_names(client, &strong, &weak).await;
    change(
        client,
        &strong,
        json!({"manifest": config_map(&namespace, "shared", "a")}),
    )
    .await;
    no_conflict(client, &weak).await;
    no_conflict(client, &strong).await;
    delete(client, &strong).await;
    value_is(client, &namespace, "shared", "a").await;
}

#[tokio::test]
async fn a_yielding_owner_still_heals_what_is_its_own() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("contest").await.unwrap();
    let (weak, strong) = (unique("weak"), unique("strong"));
    let wanted = json!({"dotted.key": "weak", "own": "1"});
    create(
        client,
        &strong,
        &settings(&namespace, "shared", &json!({"dotted.key": "strong"})),
        json!({"precedence": 5}),
    )
    .await;
    ready(client, &strong).await;
    create(
        client,
        &weak,
        &settings(&namespace, "shared", &wanted),
        json!({}),
    )
    .await;
    ready(client, &weak).await;
    let edit = json!({"data": {"own": "2", "dotted.key": "nobody"}});
    let api = config_maps(client, &namespace);
    api.patch(
        "shared",
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(&edit),
    )
    .await
    .unwrap();
    eventually("both values are put back", || async {
        let found = data(client, &namespace, "shared").await;
        (found["own"] == "1" && found["dotted.key"] == "strong").then_some(())
    })
    .await;
    conflict_names(client, &weak, &strong).await;
}

#[tokio::test]
async fn owners_that_all_leave_at_once_leave_nothing_behind() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("owners").await.unwrap();
    let owners: Vec<String> = (0..5).map(|_| unique("leaver")).collect();
    let names: Vec<String> = (0..10).map(|n| format!("shared-{n}")).collect();
    let manifest: String = names
        .iter()
        .map(|name| config_map(&namespace, name, "same"))
        .collect();
    for owner in &owners {
        create(client, owner, &manifest, json!({})).await;
    }
    for owner in &owners {
        ready(client, owner).await;
    }
    for owner in &owners {
        resources(client)
            .delete(owner, &DeleteParams::default())
            .await
            .unwrap();
    }
    for owner in &owners {
        eventually("the resource is gone", || async {
            let found = resources(client).get_opt(owner).await.unwrap();
            found.is_none().then_some(())
        })
        .await;
    }
    assert!(crate::support::names(client, &namespace).await.is_empty());
}

#[tokio::test]
async fn resources_with_disjoint_objects_never_touch_each_other() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("disjoint").await.unwrap();
    let owners = [unique("left"), unique("right")];
    let manifest = |owner: &str, round: usize| {
        config_map(&namespace, &format!("{owner}-a"), &round.to_string())
            + &config_map(&namespace, &format!("{owner}-b"), "fixed")
    };
    for owner in &owners {
        create(
            client,
            owner,
            &manifest(owner, 0),
            json!({"destination": {"namespace": namespace}}),
        )
        .await;
        ready(client, owner).await;
    }
    let mark = world.plane.audit().mark().unwrap();
    for round in 1..=20 {
        for owner in &owners {
            change(client, owner, json!({"manifest": manifest(owner, round)})).await;
            request(client, owner).await;
        }
    }
    let writes = writes_in(world.plane, mark, &namespace).await;
    assert!(!writes.is_empty());
    assert!(
        writes.iter().all(|entry| entry.verb == "patch"),
        "{}",
        show(&writes)
    );
    for owner in &owners {
        value_is(client, &namespace, &format!("{owner}-a"), "20").await;
    }
}

#[tokio::test]
async fn the_real_garbage_collector_collects_no_shared_object() {
    let plane = ControlPlane::builder()
        .controllers(&["garbage-collector-controller", "namespace-controller"])
        .start()
        .await
        .unwrap();
    let client = plane.client().unwrap();
    install_definitions(&client).await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("collected").await.unwrap();
    for owner in ["one", "two"] {
        create(
            &client,
            owner,
            &config_map(&namespace, "shared", "same"),
            json!({}),
        )
        .await;
        ready(&client, owner).await;
    }
    delete(&client, "one").await;
    // The collector works on what it saw before: once it has collected this one it has seen all.
    await_collection(&client, &namespace).await;
    value_is(&client, &namespace, "shared", "same").await;
    delete(&client, "two").await;
    is_gone(&client, &namespace, "shared").await;
    operator.stop();
}

/// Makes an object whose owner does not exist and waits until the collector has taken it.
pub(crate) async fn await_collection(client: &Client, namespace: &str) {
    let name = unique("orphan");
    let orphan = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace,
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody",
                "uid": "00000000-0000-0000-0000-000000000001"}]},
    });
    let api = config_maps(client, namespace);
    let orphan = serde_json::from_value(orphan).unwrap();
    api.create(&kube::api::PostParams::default(), &orphan)
        .await
        .unwrap();
    is_gone(client, namespace, &name).await;
}

/// A small generator of numbers, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// Which resource wants which shared object with which value.
struct Crowd {
    namespace: String,
    owners: Vec<String>,
    wishes: Vec<BTreeMap<usize, usize>>,
}

impl Crowd {
    const OBJECTS: usize = 50;

    fn manifest(&self, owner: usize) -> String {
        let own = config_map(&self.namespace, &format!("own-{owner}"), "1");
        let shared = self.wishes[owner].iter();
        let shared = shared.map(|(object, value)| {
            config_map(
                &self.namespace,
                &format!("shared-{object:02}"),
                &value.to_string(),
            )
        });
        own + &shared.collect::<String>()
    }

    /// One join, leave or change of content; answers whose.
    fn step(&mut self, dice: &mut Dice) -> usize {
        let owner = dice.throw(self.owners.len());
        let (object, value) = (dice.throw(Self::OBJECTS), dice.throw(3));
        let wishes = &mut self.wishes[owner];
        if wishes.contains_key(&object) && dice.throw(2) == 0 {
            wishes.remove(&object);
        } else {
            wishes.insert(object, value);
        }
        owner
    }

    fn alive(&self) -> BTreeSet<String> {
        let shared = self.wishes.iter().flat_map(BTreeMap::keys);
        let shared = shared.map(|object| format!("shared-{object:02}"));
        let own = (0..self.owners.len()).map(|owner| format!("own-{owner}"));
        shared.chain(own).collect()
    }

    /// The value that the strongest owner of an object wants.
    fn decided(&self, object: usize) -> Option<String> {
        let strongest = (0..self.owners.len())
            .rev()
            .find_map(|owner| self.wishes[owner].get(&object));
        strongest.map(ToString::to_string)
    }

    async fn check(&self, client: &Client, step: usize) {
        let alive: BTreeSet<String> = names(client, &self.namespace).await.into_iter().collect();
        assert_eq!(alive, self.alive(), "after {step} steps");
        for object in 0..Self::OBJECTS {
            if let Some(value) = self.decided(object) {
                value_is(
                    client,
                    &self.namespace,
                    &format!("shared-{object:02}"),
                    &value,
                )
                .await;
            }
        }
    }
}

#[tokio::test]
async fn an_object_lives_exactly_while_it_has_an_owner() {
    const SEED: u64 = 0x5eed_0001;
    const STEPS: usize = 500;
    const BATCH: usize = 20;
    let world = world().await;
    let client = &world.client;
    let mut dice = Dice(SEED);
    let mut crowd = Crowd {
        namespace: world.plane.namespace("crowd").await.unwrap(),
        owners: (0..5).map(|_| unique("crowd")).collect(),
        wishes: vec![BTreeMap::new(); 5],
    };
    for (index, owner) in crowd.owners.iter().enumerate() {
        let spec = json!({"precedence": index, "prune": {"maxPercent": 100, "maxCount": 1000}});
        create(client, owner, &crowd.manifest(index), spec).await;
    }
    for step in (BATCH..=STEPS).step_by(BATCH) {
        let changed: BTreeSet<usize> = (0..BATCH).map(|_| crowd.step(&mut dice)).collect();
        for owner in changed {
            let manifest = json!({"manifest": crowd.manifest(owner)});
            change(client, &crowd.owners[owner], manifest).await;
        }
        for owner in &crowd.owners {
            ready(client, owner).await;
        }
        crowd.check(client, step).await;
    }
    for owner in &crowd.owners {
        delete(client, owner).await;
    }
    assert!(names(client, &crowd.namespace).await.is_empty());
}
