//! Answers of Infrahub that cost nothing but time: each has its reason, none deletes anything, and
//! all are over when the answers are good again.
#![allow(clippy::too_many_lines, reason = "a table is as long as it has rows")]

mod answers;
mod contents;
mod lists;
mod timings;

use std::collections::BTreeMap;

use futures::future::join_all;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use vidra_api::{InfrahubSync, State};
use vidra_lab::{
    controlplane::{Entry, Mark},
    standin::{Effect, Fault, Rendered, When},
};

use super::{ARTIFACT, Stage, said};
use crate::support::{config_maps, show, value_is};

/// How often Infrahub is asked, so that no row waits long for its end.
const OFTEN: &str = "1s";
/// Never, but for requests and retries.
const NEVER: &str = "0";

/// What goes wrong.
enum Trouble {
    /// Every call of GraphQL is answered like this.
    List(Effect),
    /// Calls of GraphQL are answered like this, one after the other and all over again; `None` is
    /// the real answer. Only for stages that are never asked by the timer.
    Lists(Vec<Option<Effect>>),
    /// Every login, after all tokens have become invalid.
    Login(Effect),
    /// Every download, and there is something new to be downloaded.
    Content(Effect),
    /// The rendering yields this.
    Rendered(Vec<u8>),
    /// Every call of the registered query.
    Query(Effect),
    /// Something happens to the server.
    Happening(fn(&Ground)),
}

/// One answer, and what a platform engineer reads about it.
struct Row {
    name: &'static str,
    trouble: Trouble,
    reason: &'static str,
    /// A part of the message.
    says: &'static str,
    state: State,
}

impl Row {
    fn new(name: &'static str, trouble: Trouble, reason: &'static str, says: &'static str) -> Self {
        Self {
            name,
            trouble,
            reason,
            says,
            state: State::Stale,
        }
    }

    /// For rows with an artifact that has never been delivered.
    fn failed(self) -> Self {
        Self {
            state: State::Failed,
            ..self
        }
    }

    /// Whether it is Infrahub that could not be read, and not what it has rendered.
    fn is_of_source(&self) -> bool {
        !matches!(
            self.reason,
            "ArtifactNotReady" | "EmptyManifest" | "ManifestInvalid" | "ManifestTooLarge"
        )
    }
}

/// A sync with two artifacts that is ready.
struct Ground {
    stage: Stage,
    web: Rendered,
    db: Rendered,
    /// The value in the object of `web`, and how many there were.
    value: String,
    count: usize,
}

impl Ground {
    async fn new(interval: &str) -> Self {
        Self::with(interval, json!({})).await
    }

    async fn with(interval: &str, source: serde_json::Value) -> Self {
        let stage = Stage::new().await;
        let value = "v0".to_owned();
        let (web, db) = (stage.render("web", &value), stage.render("db", "one"));
        let mut all = json!({"interval": interval});
        for (key, value) in source.as_object().unwrap() {
            all[key] = value.clone();
        }
        stage.sync(all).await;
        stage.ready().await;
        Self {
            stage,
            web,
            db,
            value,
            count: 0,
        }
    }

    /// All rows, one after the other.
    async fn endure(&mut self, rows: Vec<Row>) {
        for (index, row) in rows.iter().enumerate() {
            self.endure_one(row, index == 0).await;
        }
    }

    async fn endure_one(&mut self, row: &Row, is_first: bool) {
        let audit = self.stage.world.plane.audit();
        let (mark, before) = (audit.mark().unwrap(), self.identities().await);
        self.arm(&row.trouble);
        let sync = self.stage.look().await;
        judge(row, &sync);
        if matches!(row.trouble, Trouble::Rendered(_)) {
            // Nothing has changed, so there is nothing to fetch.
            judge(row, &self.stage.look().await);
        }
        if is_first {
            self.is_healed_meanwhile().await;
        }
        self.disarm(&row.trouble);
        self.stage.ready().await;
        value_is(self.stage.client(), &self.stage.name, "web", &self.value).await;
        let deletions = self.deletions(mark).await;
        assert!(deletions.is_empty(), "{}: {}", row.name, show(&deletions));
        assert_eq!(self.identities().await, before, "{}", row.name);
    }

    fn arm(&mut self, trouble: &Trouble) {
        let infrahub = &self.stage.infrahub;
        let every = |path: &str, effect: &Effect| {
            infrahub.fault(Fault::on(path, effect.clone()));
        };
        match trouble {
            Trouble::List(effect) => every("/graphql", effect),
            Trouble::Query(effect) => every("/api/query", effect),
            Trouble::Lists(effects) => self.arm_turns(effects),
            Trouble::Login(effect) => {
                every("/api/auth/login", effect);
                infrahub.change_secret();
            }
            Trouble::Content(effect) => {
                every("/api/storage/object", effect);
                self.render_next();
            }
            Trouble::Rendered(bytes) => {
                let artifact = infrahub.artifact(ARTIFACT).target("web");
                artifact.content(bytes.clone()).ready();
            }
            Trouble::Happening(happen) => happen(self),
        }
    }

    fn arm_turns(&self, effects: &[Option<Effect>]) {
        // More rounds than any retry makes before the row is over.
        for (index, effect) in effects.iter().cycle().enumerate().take(200) {
            let Some(effect) = effect else { continue };
            let fault = Fault::on("/graphql", effect.clone());
            self.stage.infrahub.fault(fault.when(When::Nth(index + 1)));
        }
    }

    fn disarm(&mut self, trouble: &Trouble) {
        self.stage.infrahub.clear_faults();
        if matches!(trouble, Trouble::Rendered(_)) {
            self.render_next();
        }
        self.stage.infrahub.resume().unwrap();
    }

    fn render_next(&mut self) {
        self.count += 1;
        self.value = format!("v{}", self.count);
        self.web = self.stage.render("web", &self.value);
    }

    /// What was delivered is still kept as it is.
    async fn is_healed_meanwhile(&self) {
        let (client, name) = (self.stage.client(), &self.stage.name);
        let objects = config_maps(client, name);
        let edit = json!({"data": {"key": "edited"}});
        objects
            .patch("db", &PatchParams::default(), &Patch::Merge(&edit))
            .await
            .unwrap();
        value_is(client, name, "db", "one").await;
    }

    /// What must stay what it is: resources and objects by their uids.
    async fn identities(&self) -> BTreeMap<String, Option<String>> {
        let resources = self.stage.resources().await.into_iter();
        let mut all: BTreeMap<_, _> = resources.map(|(name, it)| (name, it.uid())).collect();
        let expected = [self.web.id.clone(), self.db.id.clone()];
        assert_eq!(
            all.keys().collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
        let objects = config_maps(self.stage.client(), &self.stage.name);
        for object in ["web", "db"] {
            let found = objects.get(object).await.unwrap();
            all.insert(object.to_owned(), found.uid());
        }
        all
    }

    /// What anybody asked to be deleted of this ground.
    async fn deletions(&self, mark: Mark) -> Vec<Entry> {
        let plane = self.stage.world.plane;
        plane.audit_fence().await.unwrap();
        let mut entries = plane.audit().since(mark).unwrap();
        entries.retain(|entry| {
            let is_ours = entry.namespace == self.stage.name
                || [&self.web.id, &self.db.id].contains(&&entry.name);
            is_ours && entry.verb.starts_with("delete")
        });
        entries
    }
}

/// Rows take turns, and turns mostly wait: several grounds share them.
const GROUNDS: usize = 4;

/// All rows of a part of the table, each on one of several grounds.
async fn endure(
    interval: &str,
    source: serde_json::Value,
    rows: impl Fn(&Ground) -> Vec<Row>,
) -> Vec<Ground> {
    let (source, rows) = (&source, &rows);
    let grounds = (0..GROUNDS).map(|part| async move {
        let mut ground = Ground::with(interval, source.clone()).await;
        let rows = rows(&ground).into_iter().skip(part).step_by(GROUNDS);
        ground.endure(rows.collect()).await;
        ground
    });
    join_all(grounds).await
}

/// What a sync has to say while a row holds.
fn judge(row: &Row, sync: &InfrahubSync) {
    let status = sync.status.as_ref().unwrap();
    let (reason, message) = said(sync, "Ready");
    let told = format!("{}: {}", row.name, show(status));
    assert_eq!(reason, row.reason, "{told}");
    assert!(message.contains(row.says), "{told}");
    assert!(message.chars().count() < 1_000, "{told}");
    for foreign in ["eyJ", "<html>\n", "\u{1b}"] {
        assert!(!message.contains(foreign), "{told}");
    }
    assert_eq!(status.sync_state, Some(row.state), "{told}");
    assert_eq!(
        status.last_error.as_deref(),
        Some(message.as_str()),
        "{told}"
    );
    let source = said(sync, "SourceReady").0;
    let expected = if row.is_of_source() {
        row.reason
    } else {
        "PlainHttp"
    };
    assert_eq!(source, expected, "{told}");
    assert!(!status.artifacts.is_empty(), "{told}");
}

/// An answer.
fn answer(status: u16, body: &str) -> Effect {
    with(status, body, &[])
}

/// An answer with headers.
fn with(status: u16, body: &str, headers: &[(&str, &str)]) -> Effect {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Effect::Answer {
        status,
        body: body.to_owned(),
        headers: headers.iter().map(owned).collect(),
    }
}

fn redirect(status: u16, location: &str) -> Effect {
    let location = location.to_owned();
    Effect::Redirect { status, location }
}

/// Infrahub's own envelope.
fn envelope(message: &str, code: u16) -> String {
    json!({"data": null, "errors": [{"message": message, "extensions": {"code": code}}]})
        .to_string()
}

#[tokio::test]
async fn the_table_has_at_least_sixty_rows_with_names_of_their_own() {
    let ground = Ground::new(NEVER).await;
    let rows = [
        lists::bodies(),
        lists::lists(&ground),
        lists::artifacts(&ground),
        lists::turns(&ground),
        lists::registered(&ground),
        answers::statuses("http://127.0.0.1:9"),
        answers::connections(),
        answers::logins("http://127.0.0.1:9"),
        contents::answers("http://127.0.0.1:9"),
        contents::manifests(),
    ];
    let mut names: Vec<&str> = rows.iter().flatten().map(|row| row.name).collect();
    let total = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), total, "{names:?}");
    assert!(total >= 60, "{total}");
}
