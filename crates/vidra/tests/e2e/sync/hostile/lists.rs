//! Lists that are none, and lists that cannot be right.

use serde_json::{Value, json};
use vidra_lab::standin::{Effect, Fault, Rendered};

use super::{Ground, NEVER, OFTEN, Row, Trouble, answer, endure, envelope, with};
use crate::{
    support::show,
    sync::{ARTIFACT, said},
};

const EMPTY: &str = r#"{"data":{"CoreArtifact":{"count":0,"edges":[]}}}"#;

const PAGE: &str = "web page";
const NO_JSON: &str = "is no JSON";
const OTHER_FORM: &str = "another form";

fn row(name: &'static str, body: &str, says: &'static str) -> Row {
    Row::new(
        name,
        Trouble::List(answer(200, body)),
        "InfrahubError",
        says,
    )
}

/// Bodies with HTTP 200 that are no list.
pub(super) fn bodies() -> Vec<Row> {
    let html = with(200, "Sign in", &[("content-type", "text/html")]);
    vec![
        row("a web page", "<!doctype html><html></html>", PAGE),
        Row::new(
            "a page by its type",
            Trouble::List(html),
            "InfrahubError",
            PAGE,
        ),
        row("XML", "<?xml version=\"1.0\"?><a/>", PAGE),
        row("nothing", "", NO_JSON),
        row("white space", " \n", NO_JSON),
        row("plain text", "OK", NO_JSON),
        row("half of an answer", &EMPTY[..30], NO_JSON),
        row("two answers", &format!("{EMPTY}{EMPTY}"), NO_JSON),
        row("a byte order mark", &format!("\u{feff}{EMPTY}"), NO_JSON),
        row("a deep nest", &"[".repeat(5_000), NO_JSON),
        row("null", "null", OTHER_FORM),
        row("a number", "0", OTHER_FORM),
        row("a text", "\"no artifacts\"", OTHER_FORM),
        row("an array", "[]", OTHER_FORM),
        row("an empty object", "{}", OTHER_FORM),
        row("data that is null", r#"{"data":null}"#, OTHER_FORM),
        row("data without a list", r#"{"data":{}}"#, OTHER_FORM),
        row(
            "a list that is null",
            r#"{"data":{"CoreArtifact":null}}"#,
            OTHER_FORM,
        ),
        row(
            "the form of another server",
            r#"{"result":{"artifacts":[]}}"#,
            OTHER_FORM,
        ),
        row(
            "the answer to another query",
            r#"{"data":{"Branch":[]}}"#,
            OTHER_FORM,
        ),
        row(
            "data twice",
            r#"{"data":{"CoreArtifact":{"count":0,"edges":[]}},"data":null}"#,
            OTHER_FORM,
        ),
        row(
            "an empty list without a word about the query",
            EMPTY,
            OTHER_FORM,
        ),
    ]
}

/// An artifact as the server describes it.
fn node(rendered: &Rendered) -> Value {
    let value = |text: &str| json!({ "value": text });
    json!({"node": {
        "id": rendered.id,
        "name": value(ARTIFACT),
        "status": value("Ready"),
        "content_type": value("application/yaml"),
        "checksum": value(rendered.checksum.as_ref().unwrap()),
        "storage_id": value(rendered.storage_id.as_ref().unwrap()),
        "object": {"node": {
            "id": "target", "__typename": "KubernetesWebserver", "display_label": "the target",
        }},
        "definition": {"node": null},
    }})
}

/// An artifact with one field changed.
fn odd(rendered: &Rendered, field: &str, value: Value) -> Value {
    let mut node = node(rendered);
    node["node"][field] = value;
    node
}

/// An artifact without one of its fields.
fn lacking(rendered: &Rendered, field: &str) -> Value {
    let mut node = node(rendered);
    node["node"].as_object_mut().unwrap().remove(field);
    node
}

/// A whole answer.
fn list(count: impl Into<Value>, edges: impl Into<Value>) -> Value {
    let count: Value = count.into();
    json!({"data": {
        "CoreArtifact": {"count": count, "edges": edges.into()},
        "CoreGraphQLQuery": {"edges": []},
    }})
}

fn effect(body: &Value) -> Effect {
    answer(200, &body.to_string())
}

/// Lists in the right form that cannot be right.
pub(super) fn lists(ground: &Ground) -> Vec<Row> {
    let (web, db) = (&ground.web, &ground.db);
    let both = || vec![node(web), node(db)];
    let counted = |name, count: Value, says| row(name, &list(count, both()).to_string(), says);
    let with_errors = |errors: Value| {
        let mut whole = list(json!(2), both());
        whole["errors"] = errors;
        whole.to_string()
    };
    let first = |name, first: Value| {
        let whole = list(json!(2), vec![first, node(db)]);
        row(name, &whole.to_string(), OTHER_FORM)
    };
    vec![
        counted("more counted than sent", json!(3), "contradicts itself"),
        counted("fewer counted than sent", json!(1), "2 of 1"),
        counted("none counted and two sent", json!(0), "2 of 0"),
        counted("an endless list", json!(u64::MAX), "not complete"),
        counted("a negative count", json!(-1), OTHER_FORM),
        counted("a count in words", json!("2"), OTHER_FORM),
        counted("no count", Value::Null, OTHER_FORM),
        row(
            "edges that are null",
            &list(json!(2), Value::Null).to_string(),
            OTHER_FORM,
        ),
        row(
            "no edges but a count",
            &list(json!(2), json!([])).to_string(),
            "0 of 2",
        ),
        row(
            "one artifact twice",
            &list(json!(2), vec![node(web), node(web)]).to_string(),
            "contradicts itself",
        ),
        row(
            "a hole",
            &list(json!(2), vec![node(web), json!({"node": null})]).to_string(),
            OTHER_FORM,
        ),
        first("an artifact without id", lacking(web, "id")),
        first("an artifact whose id is a number", odd(web, "id", json!(7))),
        first("an artifact whose id is empty", odd(web, "id", json!(""))),
        first("an artifact without name", lacking(web, "name")),
        first(
            "an artifact whose name is null",
            odd(web, "name", json!({"value": null})),
        ),
        first(
            "an artifact of another name",
            odd(web, "name", json!({"value": "else"})),
        ),
        first("an artifact without status", lacking(web, "status")),
        first(
            "a checksum that is a number",
            odd(web, "checksum", json!({"value": 1})),
        ),
        row(
            "errors beside good data",
            &with_errors(json!([{"message": "partial"}])),
            "partial",
        ),
        row(
            "errors that are no errors",
            &with_errors(json!({"message": "odd"})),
            OTHER_FORM,
        ),
        row(
            "errors alone",
            r#"{"data":null,"errors":[{"message":"broken"}]}"#,
            "broken",
        ),
        Row::new(
            "a refusal with 200",
            Trouble::List(answer(
                200,
                &envelope("You do not have one of the permissions", 403),
            )),
            "AccessDenied",
            "give it a role",
        ),
        Row::new(
            "a login wanted with 200",
            Trouble::List(answer(200, &envelope("Authentication is required", 401))),
            "CredentialsRejected",
            "correct the Secret",
        ),
        row(
            "one of two artifacts, and the same answer to every question",
            &list(json!(1), vec![node(web)]).to_string(),
            "not asked for",
        ),
    ]
}

/// Complete lists with an artifact that cannot be used.
pub(super) fn artifacts(ground: &Ground) -> Vec<Row> {
    let (web, db) = (&ground.web, &ground.db);
    let value = |text: &str| json!({ "value": text });
    let first = |name, first: Value, reason, says| {
        let whole = list(json!(2), vec![first, node(db)]);
        Row::new(name, Trouble::List(effect(&whole)), reason, says)
    };
    let unready = |name, field, value: Value, says| {
        first(name, odd(web, field, value), "ArtifactNotReady", says)
    };
    let elsewhere = |name, storage: &str, reason, says| {
        let mut node = odd(web, "checksum", value(&"0".repeat(32)));
        node["node"]["storage_id"] = value(storage);
        first(name, node, reason, says)
    };
    let third = |name, id: &str| {
        let whole = list(
            json!(3),
            vec![node(web), node(db), odd(web, "id", json!(id))],
        );
        let says = "cannot be the name of an object";
        Row::new(name, Trouble::List(effect(&whole)), "InfrahubError", says).failed()
    };
    let mut loud = odd(web, "status", value("Error"));
    loud["node"]["object"]["node"]["display_label"] = json!("\u{1b}[2J<html>\n".repeat(9_000));
    let stored = web.storage_id.as_deref().unwrap();
    vec![
        unready(
            "a status that nobody knows",
            "status",
            value("Frobnicated"),
            "'Frobnicated'",
        ),
        unready(
            "a status that is null",
            "status",
            json!({"value": null}),
            "has no status",
        ),
        unready(
            "a failed rendering in capitals",
            "status",
            value("ERROR"),
            "'Error'",
        ),
        unready(
            "a rendering under way",
            "status",
            value("Processing"),
            "'Processing'",
        ),
        unready(
            "no storage id",
            "storage_id",
            json!({"value": null}),
            "no storage_id",
        ),
        unready(
            "an empty storage id",
            "storage_id",
            value(""),
            "no storage_id",
        ),
        unready(
            "no checksum",
            "checksum",
            json!({"value": null}),
            "no checksum",
        ),
        unready("a short checksum", "checksum", value("abc"), "no checksum"),
        unready(
            "a checksum of other letters",
            "checksum",
            value(&"z".repeat(32)),
            "no checksum",
        ),
        first(
            "a target with a loud name",
            loud,
            "ArtifactNotReady",
            "'Error'",
        ),
        elsewhere(
            "another checksum for the same content",
            stored,
            "ChecksumMismatch",
            "object store",
        ),
        elsewhere(
            "a storage id that nothing has",
            "0000",
            "InfrahubError",
            "object store",
        ),
        elsewhere(
            "a storage id that climbs",
            "..",
            "InfrahubError",
            "storage id",
        ),
        elsewhere(
            "a storage id with a path",
            "../../auth/login",
            "InfrahubError",
            "does not exist",
        ),
        third("an id that climbs", "../x"),
        third("an id in capitals", "ABC"),
        third("an id of 300 letters", &"a".repeat(300)),
        third("an id with a line end", "a\nb"),
        third("an id in base64", "QXJ0aWZhY3Q6MQ=="),
    ]
}

/// Answers that are wrong only beside others. Asked for by retries only.
pub(super) fn turns(ground: &Ground) -> Vec<Row> {
    let (web, db) = (&ground.web, &ground.db);
    let whole = |count: u64, edges: Vec<Value>| Some(effect(&list(json!(count), edges)));
    let lies = |name, effects, says| Row::new(name, Trouble::Lists(effects), "InfrahubError", says);
    let third = odd(web, "id", json!("third"));
    vec![
        lies(
            "a list without an artifact that is there",
            vec![whole(1, vec![node(web)]), None],
            "still there under the same name",
        ),
        lies(
            "a list without an artifact, and a crash when it is looked up",
            vec![whole(1, vec![node(web)]), Some(answer(500, ""))],
            "HTTP 500",
        ),
        lies(
            "an empty list although there are artifacts",
            vec![whole(0, vec![]), None],
            "contradicts itself",
        ),
        lies(
            "an empty list, and a web page when the name is looked up",
            vec![whole(0, vec![]), Some(answer(200, "<html>"))],
            PAGE,
        ),
        lies(
            "a list that shrinks between two pages",
            vec![
                whole(3, vec![node(web), node(db)]),
                whole(2, vec![node(db)]),
            ],
            "changed while they were listed",
        ),
        lies(
            "a list that moves between two pages",
            vec![
                whole(3, vec![node(web), node(db)]),
                whole(3, vec![third.clone(), node(db)]),
            ],
            "changed while they were listed",
        ),
        lies(
            "a second page without anything new",
            vec![
                whole(3, vec![node(web), node(db)]),
                whole(3, vec![node(db)]),
            ],
            "2 of 3",
        ),
        lies(
            "a second page that is a web page",
            vec![
                whole(3, vec![node(web), node(db)]),
                Some(answer(200, "<html>")),
            ],
            PAGE,
        ),
    ]
}

/// What the query that is registered in Infrahub answers.
pub(super) fn registered(ground: &Ground) -> Vec<Row> {
    let row = |name, effect, says| Row::new(name, Trouble::Query(effect), "InfrahubError", says);
    let body = |value: Value| answer(200, &value.to_string());
    let ids =
        |ids: &[&str]| -> Vec<Value> { ids.iter().map(|id| json!({"node": {"id": id}})).collect() };
    let id = ground.web.id.as_str();
    let failing = json!({"data": null, "errors": [{
        "message": {"message": "GraphQLQuery ArtifactIDs: Cannot query field 'x'", "path": null},
        "extensions": {"code": 502},
    }]});
    vec![
        row(
            "a registered query that fails",
            answer(502, &failing.to_string()),
            "ArtifactIDs",
        ),
        row(
            "a registered query that crashes",
            answer(500, "Internal Server Error"),
            "HTTP 500",
        ),
        row(
            "a registered query that is a page",
            answer(200, "<html></html>"),
            PAGE,
        ),
        row(
            "a registered query without data",
            answer(200, r#"{"data":null}"#),
            OTHER_FORM,
        ),
        row(
            "a registered query whose list is null",
            body(json!({"data": {"CoreArtifact": null}})),
            "no list",
        ),
        row(
            "a registered query with a hole",
            body(json!({"data": {"CoreArtifact": {"edges": [{"node": null}]}}})),
            "holes",
        ),
        row(
            "a registered query with fewer than counted",
            body(json!({"data": {"CoreArtifact": {"count": 2, "edges": ids(&[id])}}})),
            "1 of 2",
        ),
        row(
            "a registered query that selects what is not there",
            body(json!({"data": {"CoreArtifact": {"edges": ids(&[id, "nothing"])}}})),
            "contradicts itself",
        ),
        row(
            "a registered query with errors beside data",
            body(json!({"data": {"CoreArtifact": {"edges": []}}, "errors": [{"message": "half"}]})),
            "half",
        ),
        Row::new(
            "a registered query that selects nothing",
            Trouble::Query(body(json!({"data": {"CoreArtifact": {"edges": []}}}))),
            "NoArtifacts",
            "correct the query",
        ),
    ]
}

#[tokio::test]
async fn no_body_that_is_no_list_is_taken_for_one() {
    endure(OFTEN, json!({}), |_| bodies()).await;
}

#[tokio::test]
async fn no_list_that_cannot_be_right_is_believed() {
    endure(OFTEN, json!({}), lists).await;
}

#[tokio::test]
async fn an_artifact_that_cannot_be_used_changes_nothing() {
    endure(OFTEN, json!({}), artifacts).await;
}

#[tokio::test]
async fn lists_that_contradict_other_answers_are_not_believed_even_where_nothing_is_allowed() {
    endure(NEVER, json!({"allowEmpty": true}), turns).await;
}

/// A query that selects by the name in another way than ours, so that it has to be asked.
const OWN_RULE: &str = "query ArtifactIDs($artifactname: String) { \
                        CoreArtifact(name__value: $artifactname, limit: 1000) \
                        { edges { node { id } } } }";

#[tokio::test]
async fn a_registered_query_that_goes_wrong_is_neither_believed_nor_ignored() {
    let register = |ground: &Ground| {
        ground.stage.infrahub.query("ArtifactIDs", OWN_RULE);
        registered(ground)
    };
    endure(OFTEN, json!({}), register).await;
}

#[tokio::test]
async fn a_registered_query_that_forgets_an_artifact_holds_what_it_would_remove() {
    let ground = Ground::new(NEVER).await;
    let infrahub = &ground.stage.infrahub;
    infrahub.query("ArtifactIDs", OWN_RULE);
    ground.stage.look().await;
    let mark = ground.stage.world.plane.audit().mark().unwrap();
    let before = ground.identities().await;
    let one = json!({"data": {"CoreArtifact": {"edges": [{"node": {"id": ground.web.id}}]}}});
    infrahub.fault(Fault::on("/api/query", effect(&one)));
    let sync = ground.stage.look().await;
    let (reason, message) = said(&sync, "PruneHeld");
    assert_eq!(reason, "PruneHeld", "{}", show(&sync.status));
    assert!(message.contains("still in Infrahub"), "{message}");
    infrahub.clear_faults();
    let sync = ground.stage.look().await;
    assert_eq!(said(&sync, "PruneHeld").0, "", "{}", show(&sync.status));
    let deletions = ground.deletions(mark).await;
    assert!(deletions.is_empty(), "{}", show(&deletions));
    assert_eq!(ground.identities().await, before);
}

#[tokio::test]
async fn a_branch_that_is_gone_deletes_nothing_and_is_followed_again_when_it_is_back() {
    let ground_of = |branch: &'static str| async move {
        let stage = crate::sync::Stage::new().await;
        let value = "v0".to_owned();
        let (web, db) = (stage.render("web", &value), stage.render("db", "one"));
        stage.infrahub.branch(branch);
        stage
            .sync(json!({"interval": OFTEN, "targetBranch": branch}))
            .await;
        stage.ready().await;
        Ground {
            stage,
            web,
            db,
            value,
            count: 0,
        }
    };
    let ground = ground_of("feature/one").await;
    let mark = ground.stage.world.plane.audit().mark().unwrap();
    let before = ground.identities().await;
    ground.stage.infrahub.delete_branch("feature/one");
    let sync = ground.stage.look().await;
    let gone = Trouble::Happening(|_| ());
    let row = Row::new(
        "a branch that is gone",
        gone,
        "BranchNotFound",
        "feature/one",
    );
    super::judge(&row, &sync);
    ground.stage.infrahub.branch("feature/one");
    ground.stage.ready().await;
    let deletions = ground.deletions(mark).await;
    assert!(deletions.is_empty(), "{deletions:#?}");
    assert_eq!(ground.identities().await, before);
}
