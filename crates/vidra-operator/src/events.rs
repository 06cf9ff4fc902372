//! Kubernetes Events: what people see with `kubectl describe`.
//!
//! The same thing told again is counted on the Event that told it first. What counts as the same
//! is the text and not only the reason, or else the second heal would hide behind the first.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ObjectReference,
        events::v1::{Event, EventSeries},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;
use vidra_cluster::connect::Cluster;

/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1_000;
/// For how long the same thing is counted; later it is told anew.
const COUNTED_FOR: Duration = Duration::from_mins(6);
/// Events about cluster-scoped objects live here by convention.
const NAMESPACE: &str = "default";
/// Who tells.
const CONTROLLER: &str = "vidra";

/// One thing to tell.
pub(crate) struct Note<'a> {
    kind: &'static str,
    reason: &'a str,
    text: &'a str,
    subject: &'a str,
}

impl<'a> Note<'a> {
    /// Something that went as it should.
    pub(crate) fn normal(reason: &'a str, text: &'a str) -> Self {
        Self {
            kind: "Normal",
            reason,
            text,
            subject: text,
        }
    }

    /// Something that somebody may have to look at.
    pub(crate) fn warning(reason: &'a str, text: &'a str) -> Self {
        Self {
            kind: "Warning",
            ..Self::normal(reason, text)
        }
    }

    /// Notes with the same subject are counted as one, even if their texts differ.
    pub(crate) fn about(self, subject: &'a str) -> Self {
        Self { subject, ..self }
    }
}

/// What makes two notes the same: the uid of the object, the reason and the subject.
type Told = (String, String, String);

/// An Event that can be counted on.
#[derive(Clone)]
struct Series {
    name: String,
    count: i32,
    last: Instant,
}

/// Tells about objects. Repeats are counted, not written anew.
pub(crate) struct Events {
    client: Client,
    timeout: Duration,
    told: Mutex<HashMap<Told, Series>>,
}

impl Events {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self {
            client: cluster.client.clone(),
            timeout: cluster.timeout,
            told: Mutex::default(),
        }
    }

    /// Tells something about an object. An Event that cannot be written is not worth failing for.
    pub(crate) async fn tell(&self, regarding: &ObjectReference, note: Note<'_>) {
        match tokio::time::timeout(self.timeout, self.publish(regarding, &note)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "an Event was not written"),
            Err(_) => debug!("an Event was not written in time"),
        }
    }

    async fn publish(&self, regarding: &ObjectReference, note: &Note<'_>) -> kube::Result<()> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace(regarding));
        let uid = regarding.uid.clone().unwrap_or_default();
        let told = (uid, note.reason.to_owned(), note.subject.to_owned());
        let series = if let Some(series) = self.counted(&told) {
            count(&api, &series).await?;
            series
        } else {
            let event = written(regarding, note);
            let made = api.create(&PostParams::default(), &event).await?;
            Series {
                name: made.metadata.name.unwrap_or_default(),
                count: 1,
                last: Instant::now(),
            }
        };
        self.lock().insert(told, series);
        Ok(())
    }

    /// The Event to count on, already with its new count. It is put back once that is written: if
    /// it cannot be, the thing is told anew the next time.
    fn counted(&self, told: &Told) -> Option<Series> {
        let mut known = self.lock();
        known.retain(|_, series| series.last.elapsed() < COUNTED_FOR);
        let series = known.remove(told)?;
        Some(Series {
            count: series.count.saturating_add(1),
            last: Instant::now(),
            ..series
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Told, Series>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn count(api: &Api<Event>, series: &Series) -> kube::Result<()> {
    let patch = json!({"series": EventSeries {
        count: series.count,
        last_observed_time: MicroTime(Timestamp::now()),
    }});
    api.patch(&series.name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(|_| ())
}

/// Where Events about an object live: beside it.
fn namespace(regarding: &ObjectReference) -> &str {
    regarding.namespace.as_deref().unwrap_or(NAMESPACE)
}

fn written(regarding: &ObjectReference, note: &Note<'_>) -> Event {
    // The longest names would be refused as prefixes.
    let prefix: String = regarding
        .name
        .iter()
        .flat_map(|name| name.chars())
        .take(200)
        .collect();
    let prefix = prefix.trim_end_matches(['-', '.']);
    Event {
        type_: Some(note.kind.to_owned()),
        reason: Some(note.reason.to_owned()),
        action: Some(note.reason.to_owned()),
        note: Some(note.text.chars().take(LONGEST_NOTE).collect()),
        event_time: Some(MicroTime(Timestamp::now())),
        regarding: Some(regarding.clone()),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            namespace: Some(namespace(regarding).to_owned()),
            ..ObjectMeta::default()
        },
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use vidra_api::VidraResource;

    use super::*;

    fn resource() -> ObjectReference {
        VidraResource::new("web", vidra_api::VidraResourceSpec::default()).object_ref(&())
    }

    #[test]
    fn a_note_that_is_too_long_is_cut_where_the_api_server_would_refuse_it() {
        let text = "ä".repeat(2_000);
        let event = written(&resource(), &Note::warning("Rejected", &text));
        assert_eq!(
            event.note.map(|note| note.chars().count()),
            Some(LONGEST_NOTE)
        );
    }

    #[test]
    fn an_event_is_about_the_resource_and_where_events_of_cluster_scoped_objects_are() {
        let event = written(&resource(), &Note::normal("Healed", "text"));
        let regarding = event.regarding.unwrap_or_default();
        assert_eq!(regarding.kind.as_deref(), Some("VidraResource"));
        assert_eq!(regarding.name.as_deref(), Some("web"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    }
}
