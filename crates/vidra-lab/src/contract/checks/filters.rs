//! Filters as Vidra's client sends them: by variables, several kinds in one document.

use serde_json::{Value, json};

use super::{
    Check, check,
    graphql::{exactly, shown},
};
use crate::contract::{
    ask::Ask,
    expect::{Expect, demand},
    facts::Facts,
};

/// An id that nothing has.
const NOBODY: &str = "18000000-0000-4000-8000-000000000000";

const BY_IDS: &str = "query($wanted:[ID],$offset:Int,$limit:Int){ \
    CoreArtifact(ids:$wanted,offset:$offset,limit:$limit){ count edges{ node{ id } } } }";
const BY_NAMES: &str = "query($wanted:[String],$offset:Int,$limit:Int){ \
    CoreArtifact(name__values:$wanted,offset:$offset,limit:$limit){ count edges{ node{ id } } } }";
const WITH_QUERY: &str = "query($wanted:[String],$query:String){ \
    CoreArtifact(name__values:$wanted,offset:0,limit:500){ count edges{ node{ id } } } \
    CoreGraphQLQuery(name__value:$query,limit:2){ edges{ node{ query{ value } } } } }";
const OF_A_NAME: &str = "query($name:String){ CoreArtifact(name__value:$name,limit:1){ count } \
    CoreArtifactDefinition(artifact_name__value:$name,limit:1){ count } }";

pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    [lists(facts), neighbours(facts), lenient(facts)]
        .into_iter()
        .flatten()
        .collect()
}

fn ask(facts: &Facts, document: &str, variables: &Value) -> Ask {
    Ask::graphql("/graphql/main", document, variables).with(facts.bearer())
}

fn lists(facts: &Facts) -> Vec<Check> {
    let (id, name) = (&facts.artifact, &facts.target.artifact_name);
    let all = facts.count;
    let every = usize::try_from(all).unwrap_or_default();
    let page = json!({ "count": 1, "edges": [{ "node": { "id": id } }] });
    [
        (
            "ids in a variable find what is there and pass over the rest",
            BY_IDS,
            json!({ "wanted": [id, NOBODY, "no-id"], "offset": 0, "limit": 500 }),
            exactly(json!({ "CoreArtifact": page })),
        ),
        (
            "names in a variable find what is there and pass over the rest",
            BY_NAMES,
            json!({ "wanted": [name, "no-such-name"], "offset": 0, "limit": 500 }),
            shown(all, every),
        ),
        (
            "a page begins at its offset",
            BY_NAMES,
            json!({ "wanted": [name], "offset": 1, "limit": 2 }),
            shown(all, every - 1),
        ),
        (
            "an empty list of ids is no artifact",
            BY_IDS,
            json!({ "wanted": [] }),
            shown(0, 0),
        ),
        (
            "an empty list of names is no artifact",
            BY_NAMES,
            json!({ "wanted": [] }),
            shown(0, 0),
        ),
        (
            "ids that are null are no artifact",
            BY_IDS,
            json!({ "wanted": null }),
            shown(0, 0),
        ),
    ]
    .map(|(claim, document, variables, expect)| {
        check(claim, ask(facts, document, &variables), expect)
    })
    .into()
}

fn neighbours(facts: &Facts) -> Vec<Check> {
    let (name, query) = (&facts.target.artifact_name, &facts.target.query);
    let (all, beside) = (facts.count, facts.count);
    let counts = |artifacts: u64, definitions: u64| {
        exactly(json!({
            "CoreArtifact": { "count": artifacts },
            "CoreArtifactDefinition": { "count": definitions },
        }))
    };
    let text = Expect::data(move |data| {
        let text = &data["CoreGraphQLQuery"]["edges"][0]["node"]["query"]["value"];
        let is_text = text.as_str().is_some_and(|it| it.starts_with("query "));
        let is_both = data["CoreArtifact"]["count"] == all && is_text;
        demand(is_both, || format!("data is {data}"))
    });
    let no_text = Expect::data(move |data| {
        let is_none = data["CoreGraphQLQuery"]["edges"] == json!([]);
        let is_both = data["CoreArtifact"]["count"] == beside && is_none;
        demand(is_both, || format!("data is {data}"))
    });
    let with_query = |query: &str| json!({ "wanted": [name], "query": query });
    vec![
        check(
            "artifacts and the text of a stored query come in one answer",
            ask(facts, WITH_QUERY, &with_query(query)),
            text,
        ),
        check(
            "artifacts come also beside a stored query that does not exist",
            ask(facts, WITH_QUERY, &with_query("NoSuchQuery")),
            no_text,
        ),
        check(
            "artifacts and definitions of a name are counted in one answer",
            ask(facts, OF_A_NAME, &json!({ "name": name })),
            counts(facts.count, 1),
        ),
        check(
            "a name that nothing has is counted twice as none",
            ask(facts, OF_A_NAME, &json!({ "name": "no-such-name" })),
            counts(0, 0),
        ),
    ]
}

/// Where nothing to filter by is no filter.
fn lenient(facts: &Facts) -> Vec<Check> {
    let every = usize::try_from(facts.count).unwrap_or_default();
    let some = |pointer: &'static str| {
        Expect::data(move |data| {
            let found = data.pointer(pointer);
            demand(found.is_some_and(|it| *it != 0), || {
                format!("data is {data}")
            })
        })
    };
    vec![
        check(
            "ids whose variable is not given are no filter",
            ask(facts, BY_IDS, &json!({})),
            shown(facts.count, every),
        ),
        check(
            "names that are null are no filter",
            ask(facts, BY_NAMES, &json!({ "wanted": null })),
            shown(facts.count, every),
        ),
        check(
            "an empty list of branches is no filter",
            ask(facts, "{ Branch(ids:[]){ name } }", &json!({})),
            some("/Branch/0"),
        ),
        check(
            "an empty list of event types is no filter",
            ask(
                facts,
                "{ InfrahubEvent(event_type:[],limit:1){ count } }",
                &json!({}),
            ),
            some("/InfrahubEvent/count"),
        ),
    ]
}
