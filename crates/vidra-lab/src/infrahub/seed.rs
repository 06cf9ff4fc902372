//! Fills a fresh Infrahub: two web servers, and everything that renders their manifests.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    RealInfrahub,
    api::{Artifact, nodes, text},
    command,
    error::Error,
};

/// Name of the artifacts, one per target.
pub const ARTIFACT_NAME: &str = "webserver-manifest";
/// Name of their definition.
pub const DEFINITION: &str = "webserver_manifest_definition";
/// Kind of the targets.
pub const TARGET_KIND: &str = "KubernetesWebserver";
/// Names of the targets with their images.
pub const TARGETS: [(&str, &str); 2] = [("web-a", "nginx:1.27"), ("web-b", "httpd:2.4")];
/// Name of the stored query.
pub const QUERY: &str = "ArtifactIDs";
/// A branch whose name is awkward in an address.
pub const BRANCH: &str = "feature/x";

/// The name that the group of the targets has in the repository's configuration.
const GROUP: &str = "webservers";
const SCHEMA: &str = include_str!("../../infrahub/seed/schema.json");
const QUERY_DOCUMENT: &str = include_str!("../../infrahub/seed/artifact_ids.gql");
const REPOSITORY: [(&str, &str); 3] = [
    (
        ".infrahub.yml",
        include_str!("../../infrahub/seed/repository/.infrahub.yml"),
    ),
    (
        "queries/webserver_facts.gql",
        include_str!("../../infrahub/seed/repository/queries/webserver_facts.gql"),
    ),
    (
        "templates/webserver.yaml.j2",
        include_str!("../../infrahub/seed/repository/templates/webserver.yaml.j2"),
    ),
];

/// How long the worker may take for one thing.
const PATIENCE: Duration = Duration::from_mins(15);
const PACE: Duration = Duration::from_secs(2);

/// What a seeded Infrahub has.
#[derive(Debug, Clone)]
pub struct Seeded {
    /// The artifacts on the default branch, all `Ready`.
    pub artifacts: Vec<Artifact>,
    /// Id of the artifact definition.
    pub definition: String,
}

/// Seeds a fresh Infrahub and waits until every artifact is rendered.
pub async fn seed(infrahub: &RealInfrahub) -> Result<Seeded, Error> {
    let progress = infrahub.progress();
    progress
        .during("loading the schema", load_schema(infrahub))
        .await?;
    let targets = create_targets(infrahub).await?;
    progress.say(format_args!("targets: {}", targets.join(", ")));
    store_query(infrahub).await?;
    let location = create_repository(infrahub).await?;
    add_repository(infrahub, &location).await?;
    let import = await_definition(infrahub);
    let definition = progress
        .during("waiting for the repository's import", import)
        .await?;
    let rendering = await_ready(infrahub);
    let artifacts = progress
        .during("waiting for the first rendering", rendering)
        .await?;
    // Made last, so that it shows the artifacts of the default branch.
    progress
        .during("creating a branch", create_branch(infrahub))
        .await?;
    progress.say("seeded");
    Ok(Seeded {
        artifacts,
        definition,
    })
}

impl RealInfrahub {
    /// Asks the worker to render the artifact of a seeded target again; returns before it does.
    /// Nothing happens to an artifact whose content would be the same.
    pub async fn rerender(&self, target: &str) -> Result<(), Error> {
        let artifact = self.artifact_of(target).await?;
        self.api()
            .generate("main", DEFINITION, &[&artifact.id])
            .await
    }

    /// Changes one attribute of a seeded target, renders its artifact again, and waits until the
    /// artifact has other content.
    pub async fn change(
        &self,
        target: &str,
        attribute: &str,
        value: impl Into<Value>,
    ) -> Result<Artifact, Error> {
        let before = self.artifact_of(target).await?;
        let node = (TARGET_KIND, target);
        self.api()
            .set_attribute("main", node, attribute, &value.into())
            .await?;
        self.api()
            .generate("main", DEFINITION, &[&before.id])
            .await?;
        let what = format!("the artifact of {target} has new content");
        self.until(&what, async || {
            let after = self.artifact_of(target).await?;
            let changed = after.checksum != before.checksum;
            Ok(if changed {
                Ok(after)
            } else {
                Err(after.status)
            })
        })
        .await
    }

    /// The artifact of a seeded target on the default branch.
    pub async fn artifact_of(&self, target: &str) -> Result<Artifact, Error> {
        let artifacts = self.api().artifacts("main", ARTIFACT_NAME).await?;
        let mut artifacts = artifacts.into_iter();
        artifacts
            .find(|artifact| artifact.target == target)
            .ok_or_else(|| Error::UnknownTarget {
                target: target.to_owned(),
            })
    }

    /// Asks again and again until `probe` has found something; it says what it saw instead.
    async fn until<T>(
        &self,
        what: &str,
        mut probe: impl AsyncFnMut() -> Result<Result<T, String>, Error>,
    ) -> Result<T, Error> {
        let began = Instant::now();
        loop {
            let seen = match probe().await? {
                Ok(found) => return Ok(found),
                Err(seen) => seen,
            };
            if began.elapsed() > PATIENCE {
                return Err(Error::Overdue {
                    what: what.to_owned(),
                    waited: PATIENCE,
                    seen,
                    tail: command::tail(&self.log("worker")),
                });
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

async fn load_schema(infrahub: &RealInfrahub) -> Result<(), Error> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let body = json!({ "schemas": [schema] });
    infrahub
        .api()
        .post("/api/schema/load?branch=main", &body)
        .await?;
    Ok(())
}

async fn create_targets(infrahub: &RealInfrahub) -> Result<Vec<String>, Error> {
    let target = "mutation($name: String!, $image: String!) { KubernetesWebserverCreate(data: {
        name: { value: $name } image: { value: $image } replicas: { value: 2 } })
        { object { id } } }";
    let mut members = Vec::new();
    for (name, image) in TARGETS {
        let variables = json!({ "name": name, "image": image });
        let data = infrahub.api().graphql(target, variables).await?;
        let id = text(&data, "/KubernetesWebserverCreate/object/id", name)?;
        members.push(json!({ "id": id }));
    }
    let group = "mutation($name: String!, $members: [RelatedNodeInput]) {
        CoreStandardGroupCreate(data: { name: { value: $name } members: $members }) { ok } }";
    let variables = json!({ "name": GROUP, "members": members });
    infrahub.api().graphql(group, variables).await?;
    Ok(TARGETS.map(|(name, _)| name.to_owned()).into())
}

async fn store_query(infrahub: &RealInfrahub) -> Result<(), Error> {
    let document = "mutation($name: String!, $query: String!) { CoreGraphQLQueryCreate(data: {
        name: { value: $name } query: { value: $query } }) { ok } }";
    let variables = json!({ "name": QUERY, "query": QUERY_DOCUMENT });
    infrahub.api().graphql(document, variables).await?;
    Ok(())
}

/// Infrahub pushes to its repositories, so the one it gets is bare.
async fn create_repository(infrahub: &RealInfrahub) -> Result<PathBuf, Error> {
    let work = infrahub.data_directory().join("seed/work");
    let bare = infrahub.data_directory().join("seed/webservers.git");
    for (name, content) in REPOSITORY {
        let path = work.join(name);
        let parent = path.parent().unwrap_or(&work);
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        fs::write(&path, content).map_err(Error::file("write", path))?;
    }
    let (from, to) = (work.display().to_string(), bare.display().to_string());
    git(
        infrahub,
        &work,
        &["init", "--quiet", "--initial-branch=main"],
    )
    .await?;
    git(infrahub, &work, &["add", "--all"]).await?;
    git(
        infrahub,
        &work,
        &["commit", "--quiet", "--message=Describe the web servers"],
    )
    .await?;
    git(infrahub, &work, &["clone", "--quiet", "--bare", &from, &to]).await?;
    Ok(bare)
}

async fn git(infrahub: &RealInfrahub, work: &Path, arguments: &[&str]) -> Result<(), Error> {
    let mut git = Command::new(infrahub.git());
    git.args(arguments)
        .current_dir(work)
        .env("HOME", infrahub.data_directory().join("home"))
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for inherited in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_CONFIG_GLOBAL",
    ] {
        // Set when we run inside of a git hook; they would point at another repository.
        git.env_remove(inherited);
    }
    command::run("making the repository", &mut git, &infrahub.log("git")).await
}

async fn add_repository(infrahub: &RealInfrahub, location: &Path) -> Result<(), Error> {
    let document = "mutation($location: String!) { CoreRepositoryCreate(data: {
        name: { value: \"webservers\" } location: { value: $location } }) { ok } }";
    let location = format!("file://{}", location.display());
    infrahub
        .api()
        .graphql(document, json!({ "location": location }))
        .await?;
    Ok(())
}

async fn await_definition(infrahub: &RealInfrahub) -> Result<String, Error> {
    let document = "query($name: String!) {
        CoreArtifactDefinition(name__value: $name) { edges { node { id } } }
        CoreRepository { edges { node { sync_status { value } operational_status { value } } } } }";
    infrahub
        .until("the artifact definition is imported", async || {
            let variables = json!({ "name": DEFINITION });
            let data = infrahub.api().graphql(document, variables).await?;
            let id = nodes(&data, "CoreArtifactDefinition").next();
            let id = id.and_then(|node| node["id"].as_str());
            Ok(id.map(str::to_owned).ok_or_else(|| data.to_string()))
        })
        .await
}

async fn await_ready(infrahub: &RealInfrahub) -> Result<Vec<Artifact>, Error> {
    infrahub
        .until("every artifact is Ready", async || {
            let artifacts = infrahub.api().artifacts("main", ARTIFACT_NAME).await?;
            let ready = artifacts
                .iter()
                .filter(|artifact| artifact.status == "Ready");
            let all = ready.count() == TARGETS.len();
            Ok(if all {
                Ok(artifacts)
            } else {
                Err(format!("{artifacts:?}"))
            })
        })
        .await
}

async fn create_branch(infrahub: &RealInfrahub) -> Result<(), Error> {
    let document = "mutation($name: String!) {
        BranchCreate(data: { name: $name, sync_with_git: false }) { ok } }";
    infrahub
        .api()
        .graphql(document, json!({ "name": BRANCH }))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_describes_the_kind_of_the_targets() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let node = &schema["nodes"][0];
        let kind = [&node["namespace"], &node["name"]].map(|part| part.as_str().unwrap());
        assert_eq!(kind.concat(), TARGET_KIND);
        assert_eq!(node["inherit_from"][0], "CoreArtifactTarget");
    }

    #[test]
    fn the_repository_defines_the_artifacts_that_are_waited_for() {
        let configuration: Value = serde_saphyr::from_str(REPOSITORY[0].1).unwrap();
        let definition = &configuration["artifact_definitions"][0];
        assert_eq!(definition["name"], DEFINITION);
        assert_eq!(definition["artifact_name"], ARTIFACT_NAME);
        assert_eq!(definition["targets"], GROUP);
        for file in [
            &configuration["queries"][0]["file_path"],
            &configuration["jinja2_transforms"][0]["template_path"],
        ] {
            let is_there = REPOSITORY.iter().any(|(name, _)| file == name);
            assert!(is_there, "{file} is not in the repository");
        }
    }

    #[test]
    fn the_stored_query_is_stored_under_its_own_name() {
        assert!(QUERY_DOCUMENT.starts_with(&format!("query {QUERY}(")));
    }
}
