//! Who Vidra is towards Infrahub: which Secret goes where, and what happens when it changes.

use std::net::{Ipv4Addr, SocketAddr};

use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use vidra_api::{InfrahubSync, State, names::INFRAHUB_API_URL_LABEL};
use vidra_lab::{
    controlplane::unique,
    standin::{ADMIN, ADMIN_TOKEN, Authorization, Call, Fault, Group, Options, StandIn, Tls},
};

use super::{ARTIFACT, OWN, Stage, put_secret, request, said, sync_condition, syncs};
use crate::{
    quiet::{CANARY, listen, nothing_was_heard, shows_canary},
    support::{config_map, eventually, names, show, value_is},
};

/// No timer: what happens, happens because of an event.
const NEVER: &str = "0";

/// A source with the Secret by name: it is waited for, even if the sync is seen before it.
fn named(stage: &Stage) -> Value {
    json!({"interval": NEVER, "credentialsRef": {"name": stage.name}})
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), OWN)
}

async fn delete_secret(client: &Client, name: &str) {
    let params = DeleteParams::default();
    secrets(client).delete(name, &params).await.unwrap();
}

/// Waits until `Ready` of a sync has a reason.
async fn reason_of(client: &Client, name: &str, reason: &str) -> InfrahubSync {
    eventually(&format!("Ready of {name} says {reason}"), || async {
        let sync = syncs(client).get(name).await.unwrap();
        (said(&sync, "Ready").0 == reason).then_some(sync)
    })
    .await
}

/// That a turn was taken because something changed, and not because time had passed.
fn by_event(sync: &InfrahubSync) {
    let triggers = &sync.status.as_ref().unwrap().last_trigger;
    assert_eq!(triggers, &["Event"], "{}", show(&sync.status));
}

/// The credentials that calls brought, each once, logins left out.
fn brought(infrahub: &StandIn) -> Vec<Authorization> {
    let mut all: Vec<Authorization> = Vec::new();
    for call in infrahub.journal() {
        if !call.path.starts_with("/api/auth") && !all.contains(&call.authorization) {
            all.push(call.authorization);
        }
    }
    all
}

fn has_credential(call: &Call) -> bool {
    call.authorization != Authorization::Anonymous || call.path.starts_with("/api/auth")
}

#[tokio::test]
async fn a_corrected_password_applies_at_once() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.password(&stage.name, ADMIN.0, "wrong").await;
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("CredentialsRejected").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("correct the Secret"), "{message}");
    assert_eq!(said(&sync, "SourceReady").0, "CredentialsRejected");
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Failed));
    stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
    stage.condition("SourceReady", "True").await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn an_unknown_user_is_told_as_wrong_credentials() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.password(&stage.name, "nobody", ADMIN.1).await;
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("CredentialsRejected").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("doesn't exist"), "{message}");
}

#[tokio::test]
async fn an_account_without_permissions_is_told_from_a_wrong_one() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.infrahub.account("poor", "password", Group::Nobody);
    stage.password(&stage.name, "poor", "password").await;
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("AccessDenied").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("give it a role"), "{message}");
    stage.infrahub.account("rich", "password", Group::Users);
    stage.password(&stage.name, "rich", "password").await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_rotated_password_applies_at_once_and_what_is_applied_stays() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.sync(json!({"interval": NEVER})).await;
    stage.ready().await;
    stage
        .infrahub
        .account(ADMIN.0, "rotated", Group::Administrators);
    stage.infrahub.change_secret();
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "CredentialsRejected");
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Stale));
    value_is(stage.client(), &stage.name, "web", "one").await;
    stage.password(&stage.name, ADMIN.0, "rotated").await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_password_can_be_replaced_by_a_token_and_back() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    stage.sync(named(&stage)).await;
    stage.ready().await;
    assert_eq!(brought(&stage.infrahub), [Authorization::Bearer]);

    stage.infrahub.clear_journal();
    stage.secret(&stage.name, &[("token", ADMIN_TOKEN)]).await;
    heard(&stage, Authorization::ApiToken).await;
    stage.render("web", "two");
    stage.look().await;
    value_is(stage.client(), &stage.name, "web", "two").await;
    assert_eq!(brought(&stage.infrahub), [Authorization::ApiToken]);
    assert_eq!(stage.infrahub.count("POST", "/api/auth"), 0);
    let journal = stage.infrahub.journal();
    let key = journal[0].header("x-infrahub-key");
    assert_eq!(key, Some(ADMIN_TOKEN));

    stage.infrahub.clear_journal();
    stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
    heard(&stage, Authorization::Bearer).await;
    assert_eq!(brought(&stage.infrahub), [Authorization::Bearer]);
    stage.ready().await;
}

/// Waits until a call came with this kind of credential, unasked.
async fn heard(stage: &Stage, kind: Authorization) {
    eventually(&format!("a call with {kind:?}"), || async {
        brought(&stage.infrahub).contains(&kind).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_revoked_token_is_rejected_and_a_new_one_applies_at_once() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    let account = stage.infrahub.account("robot", "password", Group::Users);
    let token = account.token();
    stage.secret(&stage.name, &[("token", &token)]).await;
    stage.sync(json!({"interval": NEVER})).await;
    stage.ready().await;
    stage.infrahub.revoke_token(&token);
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "CredentialsRejected", "{message}");
    assert!(!message.contains(&token), "{message}");
    let next = stage
        .infrahub
        .account("robot", "password", Group::Users)
        .token();
    stage.secret(&stage.name, &[("token", &next)]).await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn two_secrets_for_one_origin_are_an_error_that_names_both_until_one_is_named_or_gone() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    let second = format!("{}-second", stage.name);
    stage.password(&second, ADMIN.0, ADMIN.1).await;
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("CredentialsAmbiguous").await;
    let (_, message) = said(&sync, "Ready");
    let both = format!("{} and {second}", stage.name);
    assert!(message.contains(&both), "{message}");
    assert!(message.contains("credentialsRef"), "{message}");
    stage.infrahub.clear_journal();
    stage.look().await;
    assert_eq!(stage.infrahub.journal().len(), 0, "nobody was asked");
    let named = json!({"source": {"credentialsRef": {"name": second}}});
    stage.change(named).await;
    stage.ready().await;
    stage
        .change(json!({"source": {"credentialsRef": null}}))
        .await;
    stage.reason("CredentialsAmbiguous").await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    delete_secret(stage.client(), &second).await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_secret_that_is_named_must_exist_and_be_complete() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    let name = format!("{}-named", stage.name);
    stage
        .sync(json!({"interval": NEVER, "credentialsRef": {"name": name}}))
        .await;
    let sync = stage.reason("CredentialsMissing").await;
    let (_, message) = said(&sync, "Ready");
    assert!(
        message.contains(&name) && message.contains(OWN),
        "{message}"
    );
    stage.secret(&name, &[("username", ADMIN.0)]).await;
    eventually("the incomplete Secret is named", || async {
        let sync = syncs(stage.client()).get(&stage.name).await.unwrap();
        said(&sync, "Ready")
            .1
            .contains("fill them in")
            .then_some(())
    })
    .await;
    assert_eq!(stage.infrahub.journal().len(), 0, "nobody was asked");
    stage.password(&name, ADMIN.0, ADMIN.1).await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_secret_goes_to_no_other_origin_than_its_own() {
    let stage = Stage::new().await;
    let elsewhere = StandIn::start().unwrap();
    elsewhere.allow_anonymous(false);
    let client = stage.client();
    let at = |more: Value| {
        let mut source = json!({"interval": NEVER, "infrahubAPIURL": elsewhere.url()});
        for (key, value) in more.as_object().unwrap() {
            source[key] = value.clone();
        }
        source
    };
    let named = format!("{}-named", stage.name);
    let source = at(json!({"credentialsRef": {"name": stage.name}}));
    stage.sync_as(&named, source, json!({})).await;
    let sync = reason_of(client, &named, "CredentialsForeign").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains(&stage.infrahub.url()), "{message}");
    assert!(message.contains(&elsewhere.url()), "{message}");
    assert_eq!(elsewhere.journal().len(), 0, "nobody was asked");

    let unnamed = format!("{}-unnamed", stage.name);
    stage.sync_as(&unnamed, at(json!({})), json!({})).await;
    let sync = reason_of(client, &unnamed, "CredentialsMissing").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("make a Secret"), "{message}");
    assert!(!elsewhere.journal().is_empty());
    assert!(!elsewhere.journal().iter().any(has_credential));

    // A server that sends us elsewhere does not get its neighbour our credentials either.
    stage.render("web", "one");
    let there = format!("{}/graphql/main", elsewhere.url());
    let redirect = vidra_lab::standin::Effect::Redirect {
        status: 307,
        location: there,
    };
    stage.infrahub.fault(Fault::on("/graphql", redirect));
    elsewhere.clear_journal();
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("InfrahubError").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("final address"), "{message}");
    assert_eq!(elsewhere.journal().len(), 0);
}

#[tokio::test]
async fn a_secret_that_says_nothing_about_where_it_may_go_is_not_used() {
    let stage = Stage::new().await;
    stage.render("web", "one");
    let name = format!("{}-unbound", stage.name);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"username": ADMIN.0, "password": ADMIN.1},
    });
    apply_secret(stage.client(), &name, &secret).await;
    stage
        .sync(json!({"interval": NEVER, "credentialsRef": {"name": name}}))
        .await;
    let sync = stage.reason("CredentialsForeign").await;
    let (_, message) = said(&sync, "Ready");
    let advice = format!("={}", stage.infrahub.url());
    assert!(message.contains(&advice), "{message}");
    assert_eq!(stage.infrahub.journal().len(), 0);
}

async fn apply_secret(client: &Client, name: &str, secret: &Value) {
    let params = PatchParams::apply("e2e").force();
    let patch = Patch::Apply(secret);
    secrets(client).patch(name, &params, &patch).await.unwrap();
}

/// A stand-in on a host of its own.
fn on_host(host: Ipv4Addr) -> StandIn {
    let address = SocketAddr::from((host, 0));
    StandIn::start_with(&Options { address, tls: None }).unwrap()
}

#[tokio::test]
async fn a_secret_with_the_label_alone_works_and_stays_with_the_first_origin_of_its_host() {
    let stage = Stage::new().await;
    let client = stage.client();
    let host = Ipv4Addr::new(127, 0, 0, 77);
    let (infrahub, other) = (on_host(host), on_host(host));
    for one in [&infrahub, &other] {
        one.allow_anonymous(false);
        let text = config_map(&stage.name, "web", "one");
        one.artifact(ARTIFACT).content(text).ready();
    }
    let label = unique("label");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": label, "labels": {INFRAHUB_API_URL_LABEL: host.to_string()}},
        "stringData": {"username": ADMIN.0, "password": ADMIN.1},
    });
    apply_secret(client, &label, &secret).await;
    // Of two syncs of one second the name decides who is first.
    let (first, later) = (format!("{}-a", stage.name), format!("{}-b", stage.name));
    let source = |url: String| json!({"interval": NEVER, "infrahubAPIURL": url});
    stage
        .sync_as(&first, source(infrahub.url()), json!({}))
        .await;
    sync_condition(client, &first, "Ready", "True").await;
    value_is(client, &stage.name, "web", "one").await;
    assert!(brought(&infrahub).contains(&Authorization::Bearer));

    stage.sync_as(&later, source(other.url()), json!({})).await;
    let sync = reason_of(client, &later, "CredentialsForeign").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains(&label), "{message}");
    assert!(message.contains(&infrahub.url()), "{message}");
    assert_eq!(other.journal().len(), 0);
    let sync = request(client, &first).await;
    assert_eq!(said(&sync, "Ready").0, "Succeeded");

    // With a Secret for its own origin the later one works as well, and each keeps to its own.
    let exact = unique("exact");
    let mut secret = secret;
    secret["metadata"]["name"] = json!(exact);
    let origin = json!({vidra_api::names::ORIGIN_ANNOTATION: other.url()});
    secret["metadata"]["annotations"] = origin;
    apply_secret(client, &exact, &secret).await;
    sync_condition(client, &later, "SourceReady", "True").await;
    for name in [&label, &exact] {
        delete_secret(client, name).await;
    }
}

#[tokio::test]
async fn without_a_secret_infrahub_is_asked_anonymously_if_it_allows_that() {
    let stage = Stage::new().await;
    delete_secret(stage.client(), &stage.name).await;
    stage.render("web", "one");
    stage.sync(json!({"interval": NEVER})).await;
    stage.ready().await;
    value_is(stage.client(), &stage.name, "web", "one").await;
    assert!(!stage.infrahub.journal().iter().any(has_credential));
    stage.infrahub.allow_anonymous(false);
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "CredentialsMissing", "{message}");
    assert!(message.contains("make a Secret"), "{message}");
    stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_deleted_secret_is_noticed_at_once_and_what_is_applied_stays() {
    let stage = Stage::new().await;
    stage.infrahub.allow_anonymous(false);
    stage.render("web", "one");
    stage.sync(json!({"interval": NEVER})).await;
    stage.ready().await;
    let mark = stage.world.plane.audit().mark().unwrap();
    stage.infrahub.clear_journal();
    delete_secret(stage.client(), &stage.name).await;
    let sync = stage.reason("CredentialsMissing").await;
    by_event(&sync);
    assert_eq!(sync.status.unwrap().sync_state, Some(State::Stale));
    assert!(
        !stage.infrahub.journal().iter().any(has_credential),
        "a session does not outlive its Secret"
    );
    assert_eq!(names(stage.client(), &stage.name).await, ["web"]);
    stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
    by_event(&stage.ready().await);
    let writes = crate::support::writes_in(stage.world.plane, mark, &stage.name).await;
    assert!(writes.is_empty(), "{}", show(&writes));
}

/// A stage whose stand-in speaks TLS.
async fn encrypted(tls: Tls) -> Stage {
    let mut stage = Stage::new().await;
    delete_secret(stage.client(), &stage.name).await;
    let options = Options {
        tls: Some(tls),
        ..Options::default()
    };
    stage.infrahub = StandIn::start_with(&options).unwrap();
    stage.password(&stage.name, ADMIN.0, ADMIN.1).await;
    stage.render("web", "one");
    stage
}

/// Puts a CA bundle into a Secret and tells its name.
async fn bundle(stage: &Stage, pem: &str) -> String {
    let name = format!("{}-authority", stage.name);
    put_secret(stage.client(), &name, &[("ca.crt", pem)], bound_nowhere()).await;
    name
}

/// The label of a host is only a label: this Secret is for another origin.
fn bound_nowhere() -> std::collections::BTreeMap<String, String> {
    let nowhere = "https://nowhere.example".to_owned();
    [(vidra_api::names::ORIGIN_ANNOTATION.to_owned(), nowhere)].into()
}

#[tokio::test]
async fn a_server_is_trusted_by_the_ca_bundle_that_the_sync_names_and_a_change_applies_at_once() {
    let stage = encrypted(Tls::Valid).await;
    let stranger = StandIn::start_with(&Options {
        tls: Some(Tls::Valid),
        ..Options::default()
    });
    let stranger = stranger.unwrap().authority().unwrap().to_owned();
    stage.sync(json!({"interval": NEVER})).await;
    let sync = stage.reason("InfrahubUnreachable").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("give a CA bundle"), "{message}");

    let name = bundle(&stage, &stranger).await;
    stage
        .change(json!({"source": {"caBundleRef": {"name": name}}}))
        .await;
    let sync = stage.look().await;
    let (reason, message) = said(&sync, "Ready");
    assert_eq!(reason, "InfrahubUnreachable", "{message}");
    assert!(message.contains("certificate"), "{message}");
    assert_eq!(stage.infrahub.journal().len(), 0);

    bundle(&stage, stage.infrahub.authority().unwrap()).await;
    let sync = stage.ready().await;
    by_event(&sync);
    assert_eq!(
        said(&sync, "SourceReady").0,
        "Succeeded",
        "encrypted: no warning"
    );
    value_is(stage.client(), &stage.name, "web", "one").await;

    bundle(&stage, "no certificate").await;
    let sync = stage.reason("InvalidSpec").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains("PEM"), "{message}");
    delete_secret(stage.client(), &name).await;
    let sync = stage.reason("CredentialsMissing").await;
    let (_, message) = said(&sync, "Ready");
    assert!(message.contains(&name), "{message}");
    value_is(stage.client(), &stage.name, "web", "one").await;
    bundle(&stage, stage.infrahub.authority().unwrap()).await;
    by_event(&stage.ready().await);
}

#[tokio::test]
async fn a_certificate_that_is_not_for_this_server_is_not_trusted_and_gets_no_credentials() {
    for tls in [Tls::WrongHost, Tls::Expired, Tls::SelfSigned] {
        let stage = encrypted(tls).await;
        let name = bundle(&stage, stage.infrahub.authority().unwrap()).await;
        stage
            .sync(json!({"interval": NEVER, "caBundleRef": {"name": name}}))
            .await;
        let sync = stage.reason("InfrahubUnreachable").await;
        let (_, message) = said(&sync, "Ready");
        assert!(message.contains("certificate"), "{tls:?}: {message}");
        assert_eq!(stage.infrahub.journal().len(), 0, "{tls:?}");
    }
}

/// What was told about a sync.
async fn events_about(client: &Client, name: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let all = api.list(&ListParams::default()).await.unwrap();
    all.items
        .into_iter()
        .filter(|it| it.regarding.as_ref().and_then(|it| it.name.as_deref()) == Some(name))
        .collect()
}

#[tokio::test]
async fn no_credential_is_told_in_a_status_an_event_or_a_log() {
    listen();
    let stage = Stage::new().await;
    stage.render("web", "one");
    let password = format!("{CANARY}-password");
    stage.infrahub.account("canary", &password, Group::Users);
    let is_silent = || async {
        let sync = syncs(stage.client()).get(&stage.name).await.unwrap();
        let status = serde_json::to_string(&sync.status).unwrap();
        let events = events_about(stage.client(), &stage.name).await;
        assert!(!events.is_empty());
        let text = status + &serde_json::to_string(&events).unwrap();
        assert!(!shows_canary(&text) && !text.contains("eyJ"), "{text}");
    };
    stage.password(&stage.name, "canary", &password).await;
    stage.sync(json!({"interval": NEVER})).await;
    stage.ready().await;
    is_silent().await;
    // A server that repeats what it was told, in all of its envelopes.
    let told = format!("the password {password} of canary is eyJhbGciOi.eyJzdWIi.x");
    let echoes = [
        (
            401,
            json!({"errors": [{"message": told, "extensions": {"code": 401}}]}),
        ),
        (403, json!({"errors": [{"message": told}]})),
        (400, json!({"errors": [told]})),
        (
            422,
            json!({"detail": [{"msg": told, "input": {"password": password}}]}),
        ),
        (200, json!({"data": null, "errors": [{"message": told}]})),
        (200, json!(told)),
        (500, json!(told)),
    ];
    for path in ["/graphql", "/api/auth/login"] {
        for (status, body) in &echoes {
            let fault = Fault::status(path, *status, &body.to_string());
            stage.infrahub.fault(fault);
            stage.infrahub.change_secret();
            stage.look().await;
            is_silent().await;
            stage.infrahub.clear_faults();
        }
    }
    let token = format!("{CANARY}-token");
    stage.secret(&stage.name, &[("token", &token)]).await;
    let sync = stage.look().await;
    assert_eq!(said(&sync, "Ready").0, "CredentialsRejected");
    is_silent().await;
    nothing_was_heard();
}
