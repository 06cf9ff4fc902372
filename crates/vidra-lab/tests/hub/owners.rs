//! Watches start and end by who needs them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use vidra_lab::controlplane::{ControlPlane, Mark, shared, unique};

use crate::support::{Maps, Scene, brisk, eventually, set, watched};

/// How many watches this user has begun, and how many of them have ended.
fn watches(plane: &ControlPlane, mark: Mark, user: &str) -> (usize, usize) {
    let entries = plane.audit().since(mark).unwrap();
    let own = |stage: &str| {
        let is_own = |entry: &&vidra_lab::controlplane::Entry| {
            entry.user == user && entry.verb == "watch" && entry.stage == stage
        };
        entries.iter().filter(is_own).count()
    };
    (own("ResponseStarted"), own("ResponseComplete"))
}

#[tokio::test]
async fn a_shared_watch_stays_with_one_owner_and_its_connection_ends_with_the_last() {
    let plane = shared().await;
    let user = unique("sharer");
    let mark = plane.audit().mark().unwrap();
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("owners").await.unwrap(),
    );
    let client = plane.client_as(&user, &["system:masters"]).unwrap();
    let mut scene = Scene::new(client, brisk());
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    scene.hub.need("two", set(&[&kind]));
    scene.watching(&kind.kind).await;
    assert_eq!(scene.state(&kind.kind).unwrap().owners, 2);

    scene.hub.release("one");
    let key = maps.create("settings").await;
    scene.seen(&key).await;
    assert_eq!(
        (scene.state(&kind.kind).unwrap().owners, scene.hub.tasks()),
        (1, 1)
    );
    assert_eq!(
        watches(plane, mark, &user),
        (1, 0),
        "one stream for both, still open"
    );

    scene.hub.release("two");
    eventually("the task has ended", || scene.hub.tasks() == 0).await;
    eventually("the stream has ended", || {
        watches(plane, mark, &user) == (1, 1)
    })
    .await;
    assert_eq!(scene.hub.state(), []);
}

#[tokio::test]
async fn an_owner_that_needs_other_kinds_than_before_keeps_only_the_new_watches() {
    let plane = shared().await;
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    let (maps, accounts) = (watched::<ConfigMap>(), watched::<ServiceAccount>());
    scene.hub.need("one", set(&[&maps]));
    scene.listed(&maps.kind).await;
    scene.hub.need("one", set(&[&accounts]));
    scene.listed(&accounts.kind).await;
    eventually("one task is left", || scene.hub.tasks() == 1).await;
    assert_eq!(
        (scene.state(&maps.kind), scene.hub.state().len()),
        (None, 1)
    );
}

#[tokio::test]
async fn a_kind_that_is_needed_again_is_listed_again() {
    let plane = shared().await;
    let maps = Maps::new(
        plane.client().unwrap(),
        &plane.namespace("again").await.unwrap(),
    );
    let mut scene = Scene::new(plane.client().unwrap(), brisk());
    let kind = watched::<ConfigMap>();
    scene.hub.need("one", set(&[&kind]));
    scene.watching(&kind.kind).await;
    scene.hub.need("one", BTreeSet::new());
    let key = maps.create("settings").await;
    scene.hub.need("two", set(&[&kind]));
    scene.seen(&key).await;
    assert!(scene.listed(&kind.kind).await.contains(&key));
}

#[tokio::test]
async fn after_a_shutdown_there_is_no_task_and_no_stream() {
    let plane = shared().await;
    let user = unique("leaver");
    let mark = plane.audit().mark().unwrap();
    let client = plane.client_as(&user, &["system:masters"]).unwrap();
    let scene = Scene::new(client, brisk());
    let kinds = [watched::<ConfigMap>(), watched::<ServiceAccount>()];
    scene.hub.need("one", set(&[&kinds[0], &kinds[1]]));
    scene.watching(&kinds[0].kind).await;
    scene.watching(&kinds[1].kind).await;
    scene.hub.shutdown().await;
    assert_eq!(scene.hub.tasks(), 0);
    eventually("both streams have ended", || {
        watches(plane, mark, &user) == (2, 2)
    })
    .await;
}
