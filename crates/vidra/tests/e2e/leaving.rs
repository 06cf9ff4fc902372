//! Leaving an object that others keep with other values: it goes from ours to theirs in one step.

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::task::JoinHandle;
use vidra_lab::controlplane::unique;

use crate::support::*;

/// The annotation that ends a [`Film`].
const THE_END: &str = "the-end";

/// What one owner wants of the Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    replicas: i32,
    image: String,
    /// A variable that no other owner sets.
    variable: String,
}

impl Wish {
    fn new(name: &str, replicas: i32) -> Self {
        Self {
            replicas,
            image: format!("{name}:1"),
            variable: format!("ONLY_{}", name.to_uppercase()),
        }
    }

    fn manifest(&self, namespace: &str) -> String {
        let variables = [json!({"name": self.variable, "value": "1"})];
        let container = json!({"name": "web", "image": self.image, "env": variables});
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": self.replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]},
                },
            },
        });
        format!("---\n{object}\n")
    }
}

/// Replicas, image and names of variables: what a Deployment is.
type Look = (i32, String, Vec<String>);

fn look(live: &Deployment) -> Look {
    let spec = live.spec.as_ref().unwrap();
    let container = &spec.template.spec.as_ref().unwrap().containers[0];
    let variables = container.env.iter().flatten().map(|it| it.name.clone());
    let mut variables: Vec<String> = variables.collect();
    variables.sort();
    let image = container.image.clone().unwrap_or_default();
    (spec.replicas.unwrap(), image, variables)
}

/// What the Deployment is while these owners have it and the first of them decides.
fn mix(wishes: &[&Wish]) -> Look {
    let mut variables: Vec<String> = wishes.iter().map(|it| it.variable.clone()).collect();
    variables.sort();
    (wishes[0].replicas, wishes[0].image.clone(), variables)
}

fn deployments(client: &Client, namespace: &str) -> Api<Deployment> {
    Api::namespaced(client.clone(), namespace)
}

async fn looks(client: &Client, namespace: &str, wanted: &Look) {
    eventually(&format!("the Deployment is {wanted:?}"), || async {
        let live = deployments(client, namespace).get("web").await.unwrap();
        (look(&live) == *wanted).then_some(())
    })
    .await;
}

/// Every state that the Deployment takes, as the API server tells it.
struct Film {
    api: Api<Deployment>,
    states: JoinHandle<Vec<Look>>,
}

impl Film {
    async fn start(client: &Client, namespace: &str) -> Self {
        let api = deployments(client, namespace);
        let from = api.get("web").await.unwrap().resource_version().unwrap();
        let watched = api.clone();
        let states = tokio::spawn(async move {
            let params = WatchParams::default().disable_bookmarks();
            let events = watched.watch(&params, &from).await.unwrap();
            let states = events.map(|event| match event.unwrap() {
                WatchEvent::Modified(live) => live,
                other => panic!("not a change of the object: {other:?}"),
            });
            let shown = states.take_while(|live| {
                let is_over = live.annotations().contains_key(THE_END);
                std::future::ready(!is_over)
            });
            shown.map(|live| look(&live)).collect().await
        });
        Self { api, states }
    }

    /// The states since the start, without repetitions.
    async fn end(self) -> Vec<Look> {
        let end = json!({"metadata": {"annotations": {THE_END: "1"}}});
        let params = PatchParams::default();
        let written = self.api.patch("web", &params, &Patch::Merge(&end)).await;
        written.unwrap();
        let mut states = self.states.await.unwrap();
        states.dedup();
        states
    }
}

/// Owners whose names come in the order of their wishes, so that the first one decides.
struct Stage {
    client: Client,
    namespace: String,
    owners: Vec<(String, Wish)>,
}

impl Stage {
    /// Lets the owners come in the given order; all are ready in the end.
    async fn set(world: &World, wishes: &[Wish], order: &[usize]) -> Self {
        let namespace = world.plane.namespace("leaving").await.unwrap();
        let names = ["a", "b", "c"].map(unique);
        let owners: Vec<_> = names.into_iter().zip(wishes.iter().cloned()).collect();
        let client = world.client.clone();
        for index in order {
            let (name, wish) = &owners[*index];
            create(&client, name, &wish.manifest(&namespace), json!({})).await;
            ready(&client, name).await;
        }
        let all: Vec<&Wish> = wishes.iter().collect();
        looks(&client, &namespace, &mix(&all)).await;
        for (name, _) in &owners[1..] {
            condition(&client, name, "OwnershipConflict", "True").await;
        }
        Self {
            client,
            namespace,
            owners,
        }
    }

    fn name(&self, index: usize) -> &str {
        &self.owners[index].0
    }

    async fn film(&self) -> Film {
        Film::start(&self.client, &self.namespace).await
    }

    async fn looks(&self, wanted: &Look) {
        looks(&self.client, &self.namespace, wanted).await;
    }

    /// Which owners the object's marks name, without the unique parts of their names.
    async fn marks(&self) -> Vec<String> {
        let api = deployments(&self.client, &self.namespace);
        let live = api.get("web").await.unwrap();
        let marks = live.annotations().iter();
        let marks = marks.filter(|(key, _)| key.contains("/owner-"));
        let owner = |value: &String| value.split(['/', '-', ' ']).nth(1).map(ToOwned::to_owned);
        let mut names: Vec<String> = marks.filter_map(|(_, value)| owner(value)).collect();
        names.sort();
        names
    }
}

fn two() -> [Wish; 2] {
    [Wish::new("first", 3), Wish::new("second", 5)]
}

#[tokio::test]
async fn what_the_deciding_owner_leaves_goes_to_the_next_in_one_step() {
    let world = world().await;
    let [first, second] = two();
    for (order, policy) in [([0, 1], "Delete"), ([1, 0], "Delete"), ([0, 1], "Orphan")] {
        let stage = Stage::set(&world, &two(), &order).await;
        change(
            &stage.client,
            stage.name(0),
            json!({"deletionPolicy": policy}),
        )
        .await;
        ready(&stage.client, stage.name(0)).await;
        let film = stage.film().await;
        delete(&stage.client, stage.name(0)).await;
        stage.looks(&mix(&[&second])).await;
        let states = film.end().await;
        assert_eq!(
            states,
            [mix(&[&first, &second]), mix(&[&second])],
            "{policy}"
        );
        eventually("the next owner has nobody to yield to", || async {
            let left = ready(&stage.client, stage.name(1)).await;
            let (reason, _) = said(&left, "OwnershipConflict");
            reason.is_empty().then_some(())
        })
        .await;
        assert_eq!(stage.marks().await, ["b"]);
    }
}

#[tokio::test]
async fn a_yielding_owner_takes_only_its_own_with_it() {
    let world = world().await;
    let [first, _] = two();
    for order in [[0, 1], [1, 0]] {
        let stage = Stage::set(&world, &two(), &order).await;
        let film = stage.film().await;
        delete(&stage.client, stage.name(1)).await;
        stage.looks(&mix(&[&first])).await;
        let states = film.end().await;
        assert_eq!(states, [mix(&[&first])]);
        assert_eq!(stage.marks().await, ["a"]);
    }
}

#[tokio::test]
async fn an_object_that_leaves_the_deciding_manifest_goes_to_the_next_in_one_step() {
    let world = world().await;
    let [first, second] = two();
    let stage = Stage::set(&world, &two(), &[0, 1]).await;
    let film = stage.film().await;
    let other = config_map(&stage.namespace, "other", "1");
    change(&stage.client, stage.name(0), json!({"manifest": other})).await;
    let left = ready(&stage.client, stage.name(0)).await.status.unwrap();
    assert_eq!(left.managed_resources.len(), 1, "{}", show(&left));
    stage.looks(&mix(&[&second])).await;
    let states = film.end().await;
    assert_eq!(states, [mix(&[&first, &second]), mix(&[&second])]);
    assert_eq!(stage.marks().await, ["b"]);
}

#[tokio::test]
async fn of_three_owners_the_second_follows_the_first_and_the_third_the_second() {
    let world = world().await;
    let wishes = [
        Wish::new("first", 3),
        Wish::new("second", 5),
        Wish::new("third", 7),
    ];
    let [first, second, third] = &wishes;
    let stage = Stage::set(&world, &wishes, &[2, 0, 1]).await;
    let film = stage.film().await;
    delete(&stage.client, stage.name(0)).await;
    stage.looks(&mix(&[second, third])).await;
    condition(&stage.client, stage.name(2), "OwnershipConflict", "True").await;
    delete(&stage.client, stage.name(1)).await;
    stage.looks(&mix(&[third])).await;
    let states = film.end().await;
    let decided = states.iter().map(|(number, image, _)| (*number, image));
    let mut decided: Vec<_> = decided.collect();
    decided.dedup();
    let wanted = [first, second, third].map(|wish| (wish.replicas, &wish.image));
    assert_eq!(decided, wanted, "{states:#?}");
    assert_eq!(stage.marks().await, ["c"]);
}

#[tokio::test]
async fn what_is_left_to_a_suspended_owner_stays_until_it_goes_on() {
    let world = world().await;
    let [first, second] = two();
    let stage = Stage::set(&world, &two(), &[0, 1]).await;
    let client = &stage.client;
    change(client, stage.name(1), json!({"suspend": true})).await;
    condition(client, stage.name(1), "Ready", "Unknown").await;
    let film = stage.film().await;
    delete(client, stage.name(0)).await;
    assert_eq!(stage.marks().await, ["b"]);
    stage.looks(&mix(&[&first, &second])).await;
    change(client, stage.name(1), json!({"suspend": false})).await;
    stage.looks(&mix(&[&second])).await;
    let states = film.end().await;
    assert_eq!(states, [mix(&[&first, &second]), mix(&[&second])]);
}

#[tokio::test]
async fn what_the_next_owner_cannot_have_stays_as_it_was_and_holds_nobody() {
    let world = world().await;
    let wishes = [Wish::new("first", 3), Wish::new("second", -1)];
    let stage = Stage::set(&world, &wishes, &[0, 1]).await;
    let client = &stage.client;
    let film = stage.film().await;
    delete(client, stage.name(0)).await;
    let failing = condition(client, stage.name(1), "Ready", "False").await;
    assert_eq!(said(&failing, "Ready").0, "Rejected");
    let better = Wish::new("second", 5);
    let manifest = better.manifest(&stage.namespace);
    change(client, stage.name(1), json!({"manifest": manifest})).await;
    ready(client, stage.name(1)).await;
    let states = film.end().await;
    let [first, second] = &wishes;
    assert_eq!(states, [mix(&[first, second]), mix(&[&better])]);
}

#[tokio::test]
async fn fields_that_the_object_cannot_be_without_stay_when_their_owner_leaves() {
    let world = world().await;
    let client = &world.client;
    let namespace = world.plane.namespace("leaving").await.unwrap();
    let (whole, part) = (unique("whole"), unique("part"));
    let wish = Wish::new("whole", 3);
    create(client, &whole, &wish.manifest(&namespace), json!({})).await;
    ready(client, &whole).await;
    let overlay = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: {namespace}, labels: {{team: a}}}}\n"
    );
    create(client, &part, &overlay, json!({})).await;
    ready(client, &part).await;
    let film = Film::start(client, &namespace).await;
    delete(client, &whole).await;
    ready(client, &part).await;
    let live = deployments(client, &namespace).get("web").await.unwrap();
    assert_eq!(live.labels()["team"], "a");
    assert_eq!(live.labels()["managed-by"], "vidra");
    let states = film.end().await;
    assert_eq!(states, [mix(&[&wish])]);
}

#[tokio::test]
async fn rivals_that_all_leave_at_once_leave_nothing_behind() {
    let world = world().await;
    let wishes = [
        Wish::new("first", 3),
        Wish::new("second", 5),
        Wish::new("third", 7),
    ];
    let stage = Stage::set(&world, &wishes, &[0, 1, 2]).await;
    let api = resources(&stage.client);
    for (name, _) in &stage.owners {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    for (name, _) in &stage.owners {
        eventually(&format!("{name} is gone"), || async {
            api.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }
    let left = deployments(&stage.client, &stage.namespace);
    assert!(left.get_opt("web").await.unwrap().is_none());
}

#[tokio::test]
async fn an_operator_that_starts_later_gives_the_next_owner_what_was_left_to_it() {
    let (plane, client) = own_plane().await;
    let operator = Operator::start(plane.config(), quick_settings());
    let namespace = plane.namespace("leaving").await.unwrap();
    let [first, second] = two();
    for (name, wish) in [("a", &first), ("b", &second)] {
        create(&client, name, &wish.manifest(&namespace), json!({})).await;
        ready(&client, name).await;
    }
    change(&client, "b", json!({"suspend": true})).await;
    condition(&client, "b", "Ready", "Unknown").await;
    delete(&client, "a").await;
    operator.stop();
    looks(&client, &namespace, &mix(&[&first, &second])).await;
    change(&client, "b", json!({"suspend": false})).await;
    let film = Film::start(&client, &namespace).await;
    let operator = Operator::start(plane.config(), quick_settings());
    looks(&client, &namespace, &mix(&[&second])).await;
    assert_eq!(film.end().await, [mix(&[&second])]);
    operator.stop();
}
