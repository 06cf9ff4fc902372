//! GraphQL: artifacts, branches, errors.

use serde_json::{Value, json};

use super::{Check, check};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::{ARTIFACTS, Facts},
};

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    [
        artifacts(facts),
        branches(facts),
        errors(facts),
        neighbours(facts),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn by_name(facts: &Facts, path: &str) -> Ask {
    let variables = json!({ "n": facts.target.artifact_name });
    Ask::graphql(path, ARTIFACTS, &variables).with(facts.bearer())
}

fn ask(facts: &Facts, query: &str) -> Ask {
    Ask::graphql("/graphql", query, &json!({})).with(facts.bearer())
}

/// The page of artifacts, with every node in the shape that clients rely on.
pub(super) fn page(count: u64) -> impl Fn(&Value) -> Result<(), String> {
    move |data: &Value| {
        let page = &data["CoreArtifact"];
        let edges = page["edges"].as_array().cloned().unwrap_or_default();
        demand(
            page["count"] == count && edges.len() as u64 == count,
            || format!("page is {page}"),
        )?;
        edges.iter().try_for_each(|edge| node(&edge["node"]))
    }
}

fn node(node: &Value) -> Result<(), String> {
    let text = |pointer: &str| {
        node.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let is_whole = [
        "/id",
        "/name/value",
        "/content_type/value",
        "/object/node/id",
        "/object/node/__typename",
        "/object/node/display_label",
        "/definition/node/name/value",
    ]
    .iter()
    .all(|pointer| !text(pointer).is_empty());
    let is_known = ["Ready", "Pending", "Processing", "Error"].contains(&text("/status/value"));
    let is_ready = text("/status/value") == "Ready";
    let is_rendered = text("/checksum/value").len() == 32 && !text("/storage_id/value").is_empty();
    demand(is_whole && is_known && (!is_ready || is_rendered), || {
        format!("node is {node}")
    })
}

/// Ids and count of the artifacts that pass filters.
fn filtered(facts: &Facts, filters: &str) -> Ask {
    let query = format!("{{ CoreArtifact({filters}){{ count edges{{ node{{ id }} }} }} }}");
    ask(facts, &query)
}

/// So many artifacts in all, so many of them on this page.
pub(super) fn shown(count: u64, on_page: usize) -> Expect {
    Expect::data(move |data| {
        let page = &data["CoreArtifact"];
        let edges = page["edges"].as_array().map_or(0, Vec::len);
        let is_right = page["count"] == count && edges == on_page;
        demand(is_right, || format!("page is {page}"))
    })
}

/// Data that is exactly this.
pub(super) fn exactly(expected: Value) -> Expect {
    Expect::data(move |data| demand(*data == expected, || format!("data is {data}")))
}

fn artifacts(facts: &Facts) -> Vec<Check> {
    let (id, name, object) = (&facts.artifact, &facts.target.artifact_name, &facts.object);
    let (definition, all) = (&facts.definition, facts.count);
    let every = usize::try_from(all).unwrap_or_default();
    let only_it = || {
        let page = json!({ "count": 1, "edges": [{ "node": { "id": id } }] });
        exactly(json!({ "CoreArtifact": page }))
    };
    let named = format!("name__value:\"{name}\"");
    let found = [
        (
            "a name that nothing has gives an empty page",
            "name__value:\"no-such-name\"".to_owned(),
            shown(0, 0),
        ),
        (
            "artifacts are found by id",
            format!("ids:[\"{id}\"]"),
            only_it(),
        ),
        (
            "artifacts are found by target",
            format!("object__ids:[\"{object}\"]"),
            only_it(),
        ),
        (
            "artifacts are found by several names",
            format!("name__values:[\"{name}\", \"no-such-name\"]"),
            shown(all, every),
        ),
        (
            "artifacts are found by definition",
            format!("{named}, definition__name__value:\"{definition}\""),
            shown(all, every),
        ),
        (
            "artifacts are found by status",
            format!("{named}, status__value:\"Processing\""),
            shown(0, 0),
        ),
        (
            "a limit shortens the page but not the count",
            format!("{named}, limit:1"),
            shown(all, 1),
        ),
        (
            "an offset behind the end gives no edges",
            format!("{named}, offset:1000, limit:1"),
            shown(all, 0),
        ),
        (
            "a limit of zero is no limit",
            format!("{named}, limit:0"),
            shown(all, every),
        ),
    ];
    let filters =
        found.map(|(name, filters, expect)| check(name, filtered(facts, &filters), expect));
    shapes(facts).into_iter().chain(filters).collect()
}

fn shapes(facts: &Facts) -> Vec<Check> {
    let id = &facts.artifact;
    let fragment = format!(
        "{{ mine: CoreArtifact(ids:[\"{id}\"]){{ edges{{ node{{ ...one }} }} }} }} \
         fragment one on CoreArtifact {{ id kind: __typename }}"
    );
    let mine = json!({ "edges": [{ "node": { "id": id, "kind": "CoreArtifact" } }] });
    let target = format!(
        "{{ CoreArtifact(ids:[\"{id}\"]){{ edges{{ node{{ object{{ node{{ id hfid \
         ... on KubernetesWebserver {{ name{{value}} }} }} }} }} }} }} }}"
    );
    let all = Expect::data(page(facts.count));
    let attribute = Expect::data(|data| {
        let storage = &data["CoreArtifact"]["edges"][0]["node"]["storage_id"];
        let is_other = storage["id"].is_string() && storage["id"] != storage["value"];
        demand(is_other, || format!("storage_id is {storage}"))
    });
    let friendly = Expect::data(|data| {
        let target = &data["CoreArtifact"]["edges"][0]["node"]["object"]["node"];
        let hfid = &target["hfid"][0];
        demand(hfid.is_string() && *hfid == target["name"]["value"], || {
            format!("target is {target}")
        })
    });
    vec![
        check(
            "artifacts are found by name",
            by_name(facts, "/graphql"),
            all,
        ),
        check(
            "the id of the attribute storage_id is not the storage id",
            by_name(facts, "/graphql"),
            attribute,
        ),
        check(
            "aliases and fragments are understood",
            ask(facts, &fragment),
            exactly(json!({ "mine": mine })),
        ),
        check(
            "a target tells its human-friendly id",
            ask(facts, &target),
            friendly,
        ),
    ]
}

fn branches(facts: &Facts) -> Vec<Check> {
    let branch = &facts.target.branch;
    let encoded = branch.replace('/', "%2F");
    let found = || {
        Expect::data(|data| {
            let edges = data["CoreArtifact"]["edges"].as_array().map_or(0, Vec::len);
            demand(edges > 0, || format!("data is {data}"))
        })
    };
    let expected = json!([{ "name": branch, "is_default": false }]);
    vec![
        check(
            "the default branch has a path",
            by_name(facts, "/graphql/main"),
            Expect::data(page(facts.count)),
        ),
        check(
            "a branch with a raw slash has a path",
            by_name(facts, &format!("/graphql/{branch}")),
            found(),
        ),
        check(
            "a branch with an encoded slash has a path",
            by_name(facts, &format!("/graphql/{encoded}")),
            found(),
        ),
        check(
            "the parameter branch is ignored by GraphQL",
            by_name(facts, "/graphql?branch=nope"),
            Expect::data(page(facts.count)),
        ),
        check(
            "an unknown branch is a list of strings",
            by_name(facts, "/graphql/nope"),
            Expect::strings(404, "Branch: nope not found."),
        ),
        check(
            "an unknown branch is told to anybody",
            Ask::graphql("/graphql/nope", ARTIFACTS, &json!({})),
            Expect::strings(404, "Branch: nope not found."),
        ),
        check(
            "a branch is looked up by name",
            ask(
                facts,
                &format!("{{ Branch(name:\"{branch}\"){{ name is_default }} }}"),
            ),
            Expect::data(move |data| {
                demand(data["Branch"] == expected, || format!("data is {data}"))
            }),
        ),
        check(
            "the default branch says so",
            ask(facts, "{ Branch(name:\"main\"){ id name is_default } }"),
            Expect::data(|data| {
                demand(data["Branch"][0]["is_default"] == true, || {
                    format!("data is {data}")
                })
            }),
        ),
    ]
}

fn errors(facts: &Facts) -> Vec<Check> {
    let post = || Ask::post("/graphql").with(facts.bearer());
    vec![
        check("a syntax error is a crash", ask(facts, "query { CoreArtifact( }"), Expect::crash()),
        check("an unknown field is refused with 200", ask(facts, "{ CoreArtifact{ edges{ node{ nope } } } }"),
            Expect::refused("Cannot query field 'nope' on type 'CoreArtifact'.")),
        check("an unknown kind is refused with 200", ask(facts, "{ NopeKind{ count } }"),
            Expect::refused("Cannot query field 'NopeKind' on type 'Query'.")),
        check("an unknown argument is refused with 200", ask(facts, "{ CoreArtifact(nope:1){ count } }"),
            Expect::refused("Unknown argument 'nope' on field 'Query.CoreArtifact'.")),
        check("a refusal has no data", ask(facts, "{ NopeKind{ count } }"), Expect::json(200).body(|body| {
            demand(body["data"].is_null(), || format!("body is {body}"))
        })),
        check("a missing variable is refused with 200", ask(facts, "query($n:String!){ CoreArtifact(name__value:$n){ count } }"),
            Expect::refused("Variable '$n' of required type 'String!' was not provided.")),
        check("a variable of the wrong type is refused with 200", ask(facts, "query($n:Int){ CoreArtifact(name__value:$n){ count } }"),
            Expect::refused("Variable '$n' of type 'Int' used in position expecting type 'String'.")),
        check("broken JSON is a list of strings", post().body("application/json", "{not json"),
            Expect::strings(400, "Request body is not a valid JSON")),
        check("another content type is a list of strings", post().body("text/plain", "{}"),
            Expect::strings(400, "Content-type must be application/json or multipart/form-data")),
        check("batches are a list of strings", post().json(&json!([{ "query": "{ CoreArtifact{ count } }" }])),
            Expect::strings(400, "This server does not support batching")),
        check("a body without a query is a crash", post().json(&json!({})), Expect::crash()),
        check("a mutation needs a credential", Ask::graphql("/graphql", "mutation{ InfrahubAccountTokenCreate(data:{name:\"x\"}){ ok } }", &json!({})),
            Expect::envelope(401, "Authentication is required to perform this operation")),
        check("an API token may not make API tokens", Ask::graphql("/graphql", "mutation{ InfrahubAccountTokenCreate(data:{name:\"x\"}){ ok } }", &json!({})).with(facts.key()),
            Expect::refused("This operation requires authentication with a JWT token")),
        check("the expiration of an API token is a string", Ask::graphql("/graphql", "mutation($e:DateTime){ InfrahubAccountTokenCreate(data:{name:\"x\", expiration:$e}){ ok } }", &json!({ "e": "2040-01-01T00:00:00Z" })).with(facts.bearer()),
            Expect::refused("Variable '$e' of type 'DateTime' used in position expecting type 'String'.")),
    ]
}

fn neighbours(facts: &Facts) -> Vec<Check> {
    let (name, query) = (&facts.target.artifact_name, &facts.target.query);
    let definition = facts.definition.clone();
    vec![
        check(
            "a definition is found by the name of its artifacts",
            ask(
                facts,
                &format!(
                    "{{ CoreArtifactDefinition(artifact_name__value:\"{name}\"){{ count edges{{ node{{ id name{{value}} artifact_name{{value}} content_type{{value}} }} }} }} }}"
                ),
            ),
            Expect::data(move |data| {
                let page = &data["CoreArtifactDefinition"];
                demand(
                    page["edges"][0]["node"]["name"]["value"] == definition.as_str(),
                    || format!("page is {page}"),
                )
            }),
        ),
        check(
            "a stored query is counted",
            ask(
                facts,
                &format!("{{ CoreGraphQLQuery(name__value:\"{query}\"){{ count }} }}"),
            ),
            Expect::exactly(
                200,
                json!({ "data": { "CoreGraphQLQuery": { "count": 1 } } }),
            ),
        ),
        check(
            "an unknown stored query is counted as none",
            ask(
                facts,
                "{ CoreGraphQLQuery(name__value:\"NoSuchQuery\"){ count } }",
            ),
            Expect::exactly(
                200,
                json!({ "data": { "CoreGraphQLQuery": { "count": 0 } } }),
            ),
        ),
        check(
            "events tell of renderings",
            ask(
                facts,
                "{ InfrahubEvent(event_type:[\"infrahub.artifact.created\"], branches:[\"main\"], order:ASC, limit:50){ count edges{ node{ id event occurred_at branch primary_node{id kind} related_nodes{id kind} ... on ArtifactEvent{ checksum checksum_previous storage_id storage_id_previous artifact_definition_id } } } } }",
            ),
            Expect::data(|data| {
                let event = &data["InfrahubEvent"]["edges"][0]["node"];
                let is_right = event["event"] == "infrahub.artifact.created"
                    && event["primary_node"]["kind"] == "CoreArtifact"
                    && event["checksum_previous"] == ""
                    && event["checksum"].as_str().map_or(0, str::len) == 32;
                demand(is_right, || format!("event is {event}"))
            }),
        ),
        check(
            "more than fifty events are refused",
            ask(facts, "{ InfrahubEvent(limit:51){ count } }"),
            Expect::json(200).body(|body| {
                demand(body["errors"][0]["message"].is_string(), || {
                    format!("body is {body}")
                })
            }),
        ),
    ]
}
