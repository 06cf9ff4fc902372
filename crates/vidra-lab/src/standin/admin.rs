//! The scripting interface over HTTP, under a path that a real Infrahub does not have.
//!
//! ```text
//! GET    /_standin            this list
//! POST   /_standin/artifacts  {"name","status"?,"content"?,"target"?,"kind"?,"branch"?,"content_type"?}
//! DELETE /_standin/artifacts  {"name","target"?,"branch"?}
//! POST   /_standin/branches   {"name"}
//! DELETE /_standin/branches   {"name"}
//! POST   /_standin/queries    {"name","query"}
//! DELETE /_standin/queries    {"name"}
//! POST   /_standin/accounts   {"name","password","group","token"?}
//! POST   /_standin/settings   {"anonymous"?,"web_ui"?,"version"?,"access_seconds"?,"refresh_seconds"?}
//! POST   /_standin/clock      {"now"} or {"advance_seconds"}
//! POST   /_standin/faults     {"method"?,"path","when"?,"effect":{"kind",…}}
//! DELETE /_standin/faults
//! POST   /_standin/webhooks   {"url","key"?,"generation"?,"event"?}
//! DELETE /_standin/webhooks
//! GET    /_standin/journal
//! DELETE /_standin/journal
//! ```
//!
//! `status` is `Ready` unless said otherwise; `when` is `"every"` or `{"first":2}`, `{"nth":2}`,
//! `{"after":2}`; `effect.kind` is one of `answer`, `delay`, `hang`, `drip`, `truncate`,
//! `content`, `oversized`, `packed`, `expire`, `redirect`.

use std::time::Duration;

use axum::{body::Bytes, http::StatusCode, response::Response};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    faults::{Armed, Fault},
    json::Json,
    lock,
    render::{Change, Subject},
    respond,
    shared::Shared,
    webhook::Subscription,
    world::{DEFAULT_BRANCH, Group, Status},
};

/// Where the interface lives.
pub(super) const ROOT: &str = "/_standin";

const ROUTES: [&str; 15] = [
    "POST /_standin/artifacts",
    "DELETE /_standin/artifacts",
    "POST /_standin/branches",
    "DELETE /_standin/branches",
    "POST /_standin/queries",
    "DELETE /_standin/queries",
    "POST /_standin/accounts",
    "POST /_standin/settings",
    "POST /_standin/clock",
    "POST /_standin/faults",
    "DELETE /_standin/faults",
    "POST /_standin/webhooks",
    "DELETE /_standin/webhooks",
    "GET /_standin/journal",
    "DELETE /_standin/journal",
];

/// What is wrong with a script, in words.
type Complaint = (StatusCode, String);
type Outcome = Result<serde_json::Value, Complaint>;

pub(super) fn answer(shared: &Shared, method: &str, path: &str, body: &Bytes) -> Response {
    let what = path
        .strip_prefix(ROOT)
        .unwrap_or_default()
        .trim_matches('/');
    let outcome = match (method, what) {
        ("GET", "") => Ok(json!({ "routes": ROUTES })),
        ("POST", "artifacts") => read(body).and_then(|script| change_artifact(shared, script)),
        ("DELETE", "artifacts") => read(body).map(|script| delete_artifact(shared, script)),
        ("POST", "branches") => read(body)
            .map(|Named { name }| json!({ "id": lock(&shared.world).add_branch(&name).id })),
        ("DELETE", "branches") => read(body).map(|Named { name }| {
            lock(&shared.world)
                .branches
                .retain(|branch| branch.name != name);
            json!(null)
        }),
        ("POST", "queries") => read(body).map(|NamedQuery { name, query }| {
            lock(&shared.world).put_query(&name, &query);
            json!(null)
        }),
        ("DELETE", "queries") => read(body).map(|Named { name }| {
            lock(&shared.world)
                .queries
                .retain(|query| query.name != name);
            json!(null)
        }),
        ("POST", "accounts") => read(body).map(|script| put_account(shared, &script)),
        ("POST", "settings") => read(body).map(|script| set(shared, script)),
        ("POST", "clock") => read(body).map(|script| set_clock(shared, &script)),
        ("POST", "webhooks") => read(body).map(|one: Subscription| {
            lock(&shared.subscriptions).push(one);
            json!(null)
        }),
        ("DELETE", "webhooks") => {
            lock(&shared.subscriptions).clear();
            Ok(json!(null))
        }
        (_, "faults" | "journal") => observe(shared, method, what, body),
        _ => Err(unknown(method, path)),
    };
    let (status, value) = match outcome {
        Ok(value) => (StatusCode::OK, value),
        Err((status, message)) => (status, json!({ "error": message })),
    };
    respond::json(status, &Json::from(value))
}

fn observe(shared: &Shared, method: &str, what: &str, body: &Bytes) -> Outcome {
    match (method, what) {
        ("POST", "faults") => {
            let fault: Fault = read(body)?;
            let mut faults = lock(&shared.faults);
            let id = faults.last().map_or(1, |armed| armed.id + 1);
            faults.push(Armed {
                id,
                fault,
                calls: 0,
            });
            Ok(json!({ "id": id }))
        }
        ("DELETE", "faults") => {
            lock(&shared.faults).clear();
            Ok(json!(null))
        }
        ("GET", "journal") => {
            let journal = lock(&shared.journal);
            Ok(json!({ "calls": journal.calls, "max_in_flight": journal.max_in_flight }))
        }
        ("DELETE", "journal") => {
            lock(&shared.journal).clear();
            Ok(json!(null))
        }
        _ => Err(unknown(method, &format!("{ROOT}/{what}"))),
    }
}

fn unknown(method: &str, path: &str) -> Complaint {
    let message = format!("no script route '{method} {path}'; GET {ROOT} lists them");
    (StatusCode::NOT_FOUND, message)
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Complaint> {
    serde_json::from_slice(body).map_err(|error| {
        (
            StatusCode::BAD_REQUEST,
            format!("the script does not fit: {error}"),
        )
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedQuery {
    name: String,
    query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtifactBody {
    name: String,
    #[serde(default = "ready")]
    status: Status,
    content: Option<String>,
    #[serde(default = "web_a")]
    target: String,
    #[serde(default = "webserver")]
    kind: String,
    #[serde(default = "default_branch")]
    branch: String,
    #[serde(default = "yaml")]
    content_type: String,
}

fn ready() -> Status {
    Status::Ready
}

fn web_a() -> String {
    "web-a".to_owned()
}

fn webserver() -> String {
    "KubernetesWebserver".to_owned()
}

fn default_branch() -> String {
    DEFAULT_BRANCH.to_owned()
}

fn yaml() -> String {
    "application/yaml".to_owned()
}

impl ArtifactBody {
    fn subject(self) -> Subject {
        let Self {
            name,
            target,
            kind,
            branch,
            content_type,
            ..
        } = self;
        Subject {
            name,
            target,
            kind,
            branch,
            content_type,
        }
    }
}

fn change_artifact(shared: &Shared, mut script: ArtifactBody) -> Outcome {
    let change = match (script.status, script.content.take()) {
        (Status::Ready, Some(content)) => Change::Rendered(content.into_bytes()),
        (Status::Ready, None) => {
            let message = "a ready artifact needs 'content'".to_owned();
            return Err((StatusCode::BAD_REQUEST, message));
        }
        (status, None) => Change::Status(status),
        (_, Some(_)) => {
            let message = "only a ready artifact has 'content'; others keep what they had";
            return Err((StatusCode::BAD_REQUEST, message.to_owned()));
        }
    };
    let rendered = shared.change(&script.subject(), &change);
    Ok(rendered.map_or(json!(null), |one| {
        json!({
            "id": one.id, "storage_id": one.storage_id,
            "checksum": one.checksum, "status": one.status,
        })
    }))
}

fn delete_artifact(shared: &Shared, script: ArtifactBody) -> serde_json::Value {
    shared.change(&script.subject(), &Change::Deleted);
    json!(null)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountBody {
    name: String,
    password: String,
    group: Group,
    token: Option<String>,
}

fn put_account(shared: &Shared, script: &AccountBody) -> serde_json::Value {
    let mut world = lock(&shared.world);
    let id = world.put_account(&script.name, &script.password, script.group);
    if let Some(token) = &script.token {
        world.put_token(&id, token, None);
    }
    json!({ "id": id })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsBody {
    anonymous: Option<bool>,
    web_ui: Option<bool>,
    version: Option<String>,
    access_seconds: Option<u64>,
    refresh_seconds: Option<u64>,
}

fn set(shared: &Shared, script: SettingsBody) -> serde_json::Value {
    let settings = &mut lock(&shared.world).settings;
    settings.is_anonymous_allowed = script.anonymous.unwrap_or(settings.is_anonymous_allowed);
    settings.has_web_ui = script.web_ui.unwrap_or(settings.has_web_ui);
    if let Some(version) = script.version {
        settings.version = version;
    }
    if let Some(seconds) = script.access_seconds {
        settings.access_lifetime = Duration::from_secs(seconds);
    }
    if let Some(seconds) = script.refresh_seconds {
        settings.refresh_lifetime = Duration::from_secs(seconds);
    }
    json!(null)
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClockBody {
    Now(Timestamp),
    AdvanceSeconds(u32),
}

fn set_clock(shared: &Shared, script: &ClockBody) -> serde_json::Value {
    let mut world = lock(&shared.world);
    match script {
        ClockBody::Now(now) => world.clock.freeze_at(*now),
        ClockBody::AdvanceSeconds(seconds) => {
            world
                .clock
                .advance(SignedDuration::from_secs(i64::from(*seconds)));
        }
    }
    json!({ "now": world.now().to_string() })
}
