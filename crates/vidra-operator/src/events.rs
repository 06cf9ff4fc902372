//! Kubernetes Events: what people see with `kubectl describe`.

use kube::{
    Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tracing::debug;
use vidra_api::VidraResource;
use vidra_cluster::connect::Cluster;

/// The API server refuses longer notes.
const LONGEST_NOTE: usize = 1_000;

/// One thing to tell.
pub(crate) struct Note<'a> {
    kind: EventType,
    reason: &'a str,
    text: &'a str,
}

impl<'a> Note<'a> {
    /// Something that went as it should.
    pub(crate) fn normal(reason: &'a str, text: &'a str) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            text,
        }
    }

    /// Something that somebody may have to look at.
    pub(crate) fn warning(reason: &'a str, text: &'a str) -> Self {
        Self {
            kind: EventType::Warning,
            reason,
            text,
        }
    }
}

/// Tells about custom resources. Repeats are counted, not written anew.
pub(crate) struct Events {
    recorder: Recorder,
    timeout: std::time::Duration,
}

impl Events {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let reporter = Reporter {
            controller: "vidra".to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(cluster.client.clone(), reporter),
            timeout: cluster.timeout,
        }
    }

    /// Tells something about a resource. An Event that cannot be written is not worth failing for.
    pub(crate) async fn tell(&self, resource: &VidraResource, note: Note<'_>) {
        let event = Event {
            type_: note.kind,
            reason: note.reason.to_owned(),
            note: Some(note.text.chars().take(LONGEST_NOTE).collect()),
            action: note.reason.to_owned(),
            secondary: None,
        };
        let reference = resource.object_ref(&());
        let published = self.recorder.publish(&event, &reference);
        match tokio::time::timeout(self.timeout, published).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "an Event was not written"),
            Err(_) => debug!("an Event was not written in time"),
        }
    }
}
