//! `kill -9` at every write of a sync, from the artifact to the object, once each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use vidra_api::{
    InfrahubSync, VidraResource,
    names::{ORIGIN_ANNOTATION, RECONCILE_REQUESTED_AT_ANNOTATION},
};
use vidra_lab::{
    controlplane::{Mark, shared, unique},
    proxy::{Callback, Effect, Fault, Rule, Seen},
    standin::{ADMIN, StandIn},
};

use crate::{
    rig::Rig,
    support::{PATIENCE, config_map, config_maps, eventually, resources},
};

const HOME: &str = "vidra-system";
const ARTIFACT: &str = "manifests";
/// Events are what this is about; the timers must not help.
const ARGUMENTS: [&str; 4] = ["--resync", "0", "--namespace", HOME];
/// After this long without a write, none is expected any more.
const QUIET: Duration = Duration::from_millis(800);

/// What is under way when the operator dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    First,
    Change,
    Removal,
}

impl Course {
    /// The values of the objects in the end.
    fn wanted(self) -> BTreeMap<String, String> {
        let wanted: &[(&str, &str)] = match self {
            Self::First => &[
                ("db", "one"),
                ("hidden", "one"),
                ("shared", "one"),
                ("web", "one"),
            ],
            Self::Change => &[
                ("db", "two"),
                ("hidden", "two"),
                ("shared", "one"),
                ("web", "two"),
            ],
            // What was in both artifacts stays with the other.
            Self::Removal => &[("hidden", "one"), ("shared", "one"), ("web", "one")],
        };
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        wanted.iter().map(own).collect()
    }

    /// What may be deleted on the way.
    fn losses(self, db: &str) -> BTreeSet<String> {
        match self {
            Self::First | Self::Change => BTreeSet::new(),
            Self::Removal => [db.to_owned(), "db".to_owned()].into(),
        }
    }
}

/// One run: an Infrahub, a namespace and a sync, all of one name.
struct Run {
    client: Client,
    infrahub: StandIn,
    tag: String,
    /// The artifacts by their target.
    ids: BTreeMap<&'static str, String>,
    begin: Mark,
}

impl Run {
    async fn prepare(client: &Client) -> Self {
        let plane = shared().await;
        plane.audit_fence().await.unwrap();
        let tag = unique("sync");
        for name in [HOME, &tag] {
            ensure_namespace(client, name).await;
        }
        let mut run = Self {
            client: client.clone(),
            infrahub: StandIn::start().unwrap(),
            ids: BTreeMap::new(),
            begin: plane.audit().mark().unwrap(),
            tag,
        };
        run.put_secret().await;
        run.render("one");
        run
    }

    async fn put_secret(&self) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": self.tag, "annotations": {ORIGIN_ANNOTATION: self.infrahub.url()}},
            "stringData": {"username": ADMIN.0, "password": ADMIN.1},
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), HOME);
        api.create(&PostParams::default(), &secret).await.unwrap();
        // Looks as if it were ours.
        let canary = json!({"metadata": {"name": "canary", "labels": {"managed-by": "vidra"}}});
        let canary = serde_json::from_value(canary).unwrap();
        let api = config_maps(&self.client, &self.tag);
        api.create(&PostParams::default(), &canary).await.unwrap();
    }

    /// Three artifacts: two that share an object, and one whose content is stored elsewhere.
    fn render(&mut self, value: &str) {
        let own = |name: &str| config_map(&self.tag, name, value);
        let shared = config_map(&self.tag, "shared", "one");
        let hidden = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: hidden, namespace: {}}}\n\
             stringData: {{key: {value}}}\n",
            self.tag
        );
        let texts = [
            ("web", own("web") + &shared),
            ("db", own("db") + &shared),
            ("hidden", hidden),
        ];
        let ids = texts.map(|(target, text)| {
            let artifact = self.infrahub.artifact(ARTIFACT).target(target);
            (target, artifact.content(text.into_bytes()).ready().id)
        });
        self.ids = ids.into();
    }

    async fn make_sync(&self) {
        let sync = json!({
            "apiVersion": "infrahub.operators.com/v1alpha1", "kind": "InfrahubSync",
            "metadata": {"name": self.tag},
            "spec": {"source": {"infrahubAPIURL": self.infrahub.url(), "artifactName": ARTIFACT,
                "interval": "0s"}},
        });
        let sync: InfrahubSync = serde_json::from_value(sync).unwrap();
        let api: Api<InfrahubSync> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &sync).await.unwrap();
    }

    async fn act(&mut self, course: Course) {
        match course {
            Course::First => return self.make_sync().await,
            Course::Change => self.render("two"),
            Course::Removal => self.infrahub.artifact(ARTIFACT).target("db").delete(),
        }
        let wish = unique("now");
        let patch = json!({"metadata": {"annotations": {RECONCILE_REQUESTED_AT_ANNOTATION: wish}}});
        let api: Api<InfrahubSync> = Api::all(self.client.clone());
        api.patch(&self.tag, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    async fn owned(&self) -> BTreeMap<String, VidraResource> {
        let found = resources(&self.client).list(&ListParams::default()).await;
        let found = found.unwrap().into_iter();
        found
            .filter(|it| it.owner_references().iter().any(|it| it.name == self.tag))
            .map(|it| (it.name_any(), it))
            .collect()
    }

    async fn values(&self) -> BTreeMap<String, String> {
        let api = config_maps(&self.client, &self.tag);
        let found = api.list(&ListParams::default()).await.unwrap();
        let value = |data: Option<BTreeMap<String, String>>| data?.remove("key");
        let mut values: BTreeMap<String, String> = found
            .into_iter()
            .map(|it| (it.name_any(), value(it.data).unwrap_or_default()))
            .filter(|(name, _)| name != "canary" && name != "kube-root-ca.crt")
            .collect();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.tag);
        let hidden = secrets.get_opt("hidden").await.unwrap();
        values.extend(hidden.map(|it| {
            let value = it.data.unwrap_or_default().remove("key");
            let text = String::from_utf8(value.unwrap_or_default().0).unwrap();
            ("hidden".to_owned(), text)
        }));
        values
    }

    async fn is_ready(&self) -> bool {
        let api: Api<InfrahubSync> = Api::all(self.client.clone());
        let sync = api.get(&self.tag).await.unwrap();
        let conditions = sync.status.unwrap_or_default().conditions;
        conditions
            .iter()
            .any(|it| it.type_ == "Ready" && it.status == "True")
    }

    async fn is_done(&self, course: Course) -> bool {
        let mut ids: Vec<&String> = self.ids.values().collect();
        if course == Course::Removal {
            ids.retain(|id| **id != self.ids["db"]);
        }
        ids.sort();
        let owned = self.owned().await;
        self.is_ready().await
            && owned.keys().collect::<Vec<_>>() == ids
            && self.values().await == course.wanted()
    }

    async fn converge(&self, course: Course) {
        let begin = Instant::now();
        while !self.is_done(course).await {
            assert!(
                begin.elapsed() < PATIENCE,
                "it has {:?} of {:?}",
                self.values().await,
                self.owned().await.into_keys().collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Nothing was deleted that should not be, and what is not ours is as it was.
    async fn nothing_else_was_lost(&self, course: Course) {
        let plane = shared().await;
        plane.audit_fence().await.unwrap();
        let deleted = plane.audit().mutations(self.begin, "vidra/").unwrap();
        let deleted = deleted.into_iter().filter(|it| {
            let is_ours = it.namespace == self.tag || self.ids.values().any(|id| *id == it.name);
            it.verb.starts_with("delete") && is_ours
        });
        let deleted: BTreeSet<String> = deleted.map(|it| it.name).collect();
        assert_eq!(deleted, course.losses(&self.ids["db"]), "deletions");
        let api = config_maps(&self.client, &self.tag);
        api.get("canary").await.unwrap();
    }

    /// There is no garbage collector here. The sync is paused first: the operator may see the end
    /// of a resource before the end of its sync, and would make the resource again.
    async fn clean_up(&self) {
        let api: Api<InfrahubSync> = Api::all(self.client.clone());
        let params = DeleteParams::default();
        let patch = json!({"spec": {"suspend": true}});
        api.patch(&self.tag, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        eventually("the sync is paused", || async {
            let status = api.get(&self.tag).await.unwrap().status?;
            let mut conditions = status.conditions.iter();
            conditions.any(|it| it.reason == "Suspended").then_some(())
        })
        .await;
        for name in self.owned().await.into_keys() {
            resources(&self.client)
                .delete(&name, &params)
                .await
                .unwrap();
        }
        let begin = Instant::now();
        loop {
            let (owned, values) = (self.owned().await, self.values().await);
            if owned.is_empty() && values.is_empty() {
                api.delete(&self.tag, &params).await.unwrap();
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{values:?} are left, of {owned:#?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Which writes are of this run.
    fn matcher(&self) -> impl Fn(&Seen) -> bool + Send + Sync + 'static {
        let mut marks: Vec<String> = self.ids.values().cloned().collect();
        marks.push(self.tag.clone());
        move |seen| {
            let is_content = seen.path.contains("/vidra-system/secrets");
            let is_ours = is_content || marks.iter().any(|mark| seen.mentions(mark));
            let is_vidra = seen.user_agent.starts_with("vidra/");
            seen.is_mutation() && is_vidra && is_ours && !seen.path.contains("/events")
        }
    }

    fn writes(&self, rig: &Rig) -> usize {
        let is_ours = self.matcher();
        rig.proxy.journal().iter().filter(|it| is_ours(it)).count()
    }

    async fn until_quiet(&self, rig: &Rig) -> usize {
        let mut before = usize::MAX;
        loop {
            let now = self.writes(rig);
            if now == before {
                return now;
            }
            before = now;
            tokio::time::sleep(QUIET).await;
        }
    }

    /// Brings everything to where the course begins.
    async fn set_up(&self, rig: &Rig, course: Course) {
        rig.start(&ARGUMENTS);
        if course != Course::First {
            self.make_sync().await;
            self.converge(Course::First).await;
            self.until_quiet(rig).await;
        }
        rig.proxy.clear();
    }
}

async fn ensure_namespace(client: &Client, name: &str) {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    let params = PatchParams::apply("crash").force();
    api.patch(name, &params, &Patch::Apply(&namespace))
        .await
        .unwrap();
}

/// How many writes there are in a run without a crash, which must work.
async fn learn(rig: &Rig, course: Course) -> usize {
    let mut run = Run::prepare(&rig.client).await;
    run.set_up(rig, course).await;
    run.act(course).await;
    run.converge(course).await;
    let writes = run.until_quiet(rig).await;
    run.nothing_else_was_lost(course).await;
    run.clean_up().await;
    writes
}

/// Kills the operator at a write and starts it again; answers whether that write came. Status
/// writes are merged now and then, so the last ones may not.
async fn survive(rig: &Rig, course: Course, write: usize, fault: Moment) -> bool {
    let mut run = Run::prepare(&rig.client).await;
    run.set_up(rig, course).await;
    let is_dead = Arc::new(AtomicBool::new(false));
    let (kill, died) = (rig.killer(), is_dead.clone());
    let kill: Callback = Arc::new(move || {
        kill();
        died.store(true, Ordering::SeqCst);
    });
    let rule = Rule::every(run.matcher(), fault(kill)).nth(write);
    rig.proxy.add(rule);
    run.act(course).await;
    let begin = Instant::now();
    while !is_dead.load(Ordering::SeqCst) {
        if run.is_done(course).await {
            run.until_quiet(rig).await;
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "neither a crash nor an end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let is_struck = is_dead.load(Ordering::SeqCst);
    rig.start(&ARGUMENTS);
    run.converge(course).await;
    run.nothing_else_was_lost(course).await;
    run.clean_up().await;
    is_struck
}

/// When the operator dies: what its killer is made to be.
type Moment = fn(Callback) -> Fault;

const FAULTS: [(&str, Moment); 2] = [
    ("before", |kill| Fault::Request(Effect::Call(kill))),
    ("after", Fault::Afterwards),
];

async fn survives_a_kill_at_every_write(course: Course) {
    let rig = Arc::new(Rig::take().await);
    let begin = Instant::now();
    let writes = learn(&rig, course).await;
    let (mut crashes, mut failures) = (0, Vec::new());
    for write in 1..=writes {
        for (phase, fault) in FAULTS {
            rig.proxy.clear();
            let rig = rig.clone();
            // A task of its own, so that one failure does not hide the others.
            let run = tokio::spawn(async move { survive(&rig, course, write, fault).await });
            match run.await {
                Ok(is_struck) => crashes += usize::from(is_struck),
                Err(error) => failures.push(format!("{write}/{phase}: {}", message(error))),
            }
        }
    }
    eprintln!(
        "{course:?} of a sync: {writes} writes, {crashes} crashes, {} failures, {:.1} s",
        failures.len(),
        begin.elapsed().as_secs_f64()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        crashes * 3 >= writes * FAULTS.len() * 2,
        "{crashes} crashes"
    );
}

fn message(error: tokio::task::JoinError) -> String {
    let panic = error.into_panic();
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_default()
}

#[tokio::test]
async fn a_first_delivery_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Course::First).await;
}

#[tokio::test]
async fn a_change_in_infrahub_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Course::Change).await;
}

#[tokio::test]
async fn a_removal_survives_a_kill_at_every_write() {
    survives_a_kill_at_every_write(Course::Removal).await;
}
