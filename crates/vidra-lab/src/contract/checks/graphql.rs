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

fn artifacts(facts: &Facts) -> Vec<Check> {
    let (id, name) = (&facts.artifact, &facts.target.artifact_name);
    let (definition, object) = (&facts.definition, &facts.object);
    let one = |filter: String| {
        let query = format!("{{ CoreArtifact({filter}){{ count edges{{ node{{ id }} }} }} }}");
        ask(facts, &query)
    };
    let only_it = |id: &str| {
        let expected =
            json!({ "CoreArtifact": { "count": 1, "edges": [{ "node": { "id": id } }] } });
        Expect::data(move |data| demand(*data == expected, || format!("data is {data}")))
    };
    let shown = |wanted: usize, count: u64| {
        Expect::data(move |data| {
            let page = &data["CoreArtifact"];
            let edges = page["edges"].as_array().map_or(0, Vec::len);
            demand(page["count"] == count && edges == wanted, || {
                format!("page is {page}")
            })
        })
    };
    let all = facts.count;
    let every = usize::try_from(all).unwrap_or_default();
    vec![
        check(
            "artifacts are found by name",
            by_name(facts, "/graphql"),
            Expect::data(page(all)),
        ),
        check(
            "a name that nothing has gives an empty page",
            one("name__value:\"no-such-name\"".to_owned()),
            Expect::exactly(
                200,
                json!({ "data": { "CoreArtifact": { "count": 0, "edges": [] } } }),
            ),
        ),
        check(
            "artifacts are found by id",
            one(format!("ids:[\"{id}\"]")),
            only_it(id),
        ),
        check(
            "artifacts are found by several names",
            one(format!("name__values:[\"{name}\", \"no-such-name\"]")),
            shown(every, all),
        ),
        check(
            "artifacts are found by target",
            one(format!("object__ids:[\"{object}\"]")),
            only_it(id),
        ),
        check(
            "artifacts are found by definition",
            one(format!(
                "name__value:\"{name}\", definition__name__value:\"{definition}\""
            )),
            shown(every, all),
        ),
        check(
            "artifacts are found by status",
            one(format!(
                "name__value:\"{name}\", status__value:\"Processing\""
            )),
            shown(0, 0),
        ),
        check(
            "a limit shortens the page but not the count",
            one(format!("name__value:\"{name}\", limit:1")),
            shown(1, all),
        ),
        check(
            "an offset behind the end gives no edges",
            one(format!("name__value:\"{name}\", offset:1000, limit:1")),
            shown(0, all),
        ),
        check(
            "a limit of zero is no limit",
            one(format!("name__value:\"{name}\", limit:0")),
            shown(every, all),
        ),
        check(
            "the id of the attribute storage_id is not the storage id",
            by_name(facts, "/graphql"),
            Expect::data(|data| {
                let storage = &data["CoreArtifact"]["edges"][0]["node"]["storage_id"];
                demand(
                    storage["id"].is_string() && storage["id"] != storage["value"],
                    || format!("storage_id is {storage}"),
                )
            }),
        ),
        check(
            "aliases and fragments are understood",
            ask(
                facts,
                &format!(
                    "{{ mine: CoreArtifact(ids:[\"{id}\"]){{ edges{{ node{{ ...one }} }} }} }} fragment one on CoreArtifact {{ id kind: __typename }}"
                ),
            ),
            Expect::data({
                let expected = json!({ "mine": { "edges": [{ "node": { "id": id, "kind": "CoreArtifact" } }] } });
                move |data| demand(*data == expected, || format!("data is {data}"))
            }),
        ),
        check(
            "a target tells its human-friendly id",
            ask(
                facts,
                &format!(
                    "{{ CoreArtifact(ids:[\"{id}\"]){{ edges{{ node{{ object{{ node{{ id hfid ... on KubernetesWebserver {{ name{{value}} }} }} }} }} }} }} }}"
                ),
            ),
            Expect::data(|data| {
                let target = &data["CoreArtifact"]["edges"][0]["node"]["object"]["node"];
                demand(
                    target["hfid"][0] == target["name"]["value"] && target["hfid"][0].is_string(),
                    || format!("target is {target}"),
                )
            }),
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
