//! The world that the lab's real Infrahub is seeded with, so that both can be asked the same.

use super::StandIn;

/// Name of the artifact of the lab.
pub const ARTIFACT: &str = "webserver-manifest";
/// The branch of the lab beside `main`.
pub const BRANCH: &str = "feature/x";
/// Name of the stored query of the lab.
pub const QUERY: &str = "ArtifactIDs";

/// The query that users of the first operator registered.
const QUERY_TEXT: &str = "query ArtifactIDs($artifactname: String!) {
  CoreArtifact(name__value: $artifactname) {
    edges { node { id name { value } checksum { value } storage_id { id value } status { value } } }
  }
}";

/// Two targets with one rendered artifact each, the stored query, a branch.
pub fn seed_like_lab(standin: &StandIn) {
    standin.query(QUERY, QUERY_TEXT);
    for (name, image) in [("web-b", "httpd:2.4"), ("web-a", "nginx:1.27")] {
        standin
            .artifact(ARTIFACT)
            .target(name)
            .content(manifest(name, image, 2))
            .ready();
    }
    standin.branch(BRANCH);
}

/// What the lab's template makes of a web server.
pub fn manifest(name: &str, image: &str, replicas: u32) -> String {
    format!(
        "
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: default
  labels:
    app: {name}
spec:
  replicas: {replicas}
  selector:
    matchLabels:
      app: {name}
  template:
    metadata:
      labels:
        app: {name}
    spec:
      containers:
        - name: web
          image: {image}
          ports:
            - containerPort: 80
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
  namespace: default
spec:
  selector:
    app: {name}
  ports:
    - port: 80
      targetPort: 80
"
    )
    .trim_start()
    .to_owned()
}
