//! What the checks must know before they can ask: tokens and ids.

use serde_json::{Value, json};

use super::{
    Target,
    ask::{Ask, Asker, Credentials},
};

/// Query for everything about the artifacts of one name.
pub(super) const ARTIFACTS: &str = "query($n:String){ CoreArtifact(name__value:$n){ count edges{ \
    node{ id name{value} checksum{value} storage_id{id value} status{value} content_type{value} \
    object{node{id __typename display_label}} definition{node{id name{value}}} } } } }";

#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) target: Target,
    pub(super) access: String,
    pub(super) refresh: String,
    pub(super) artifact: String,
    pub(super) storage_id: String,
    pub(super) storage_attribute: String,
    pub(super) checksum: String,
    pub(super) object: String,
    pub(super) definition: String,
    pub(super) count: u64,
}

impl Facts {
    pub(super) fn bearer(&self) -> Credentials {
        Credentials::bearer(&self.access)
    }

    pub(super) fn key(&self) -> Credentials {
        Credentials::key(&self.target.api_token)
    }

    /// The token with a signature that another secret made.
    pub(super) fn forged(&self) -> Credentials {
        let (signed, signature) = self.access.rsplit_once('.').unwrap_or_default();
        let other: String = signature.chars().rev().collect();
        Credentials::bearer(&format!("{signed}.{other}"))
    }
}

pub(super) async fn gather(asker: &Asker, target: &Target) -> Result<Facts, String> {
    let body = json!({ "username": target.username, "password": target.password });
    let login = asker
        .send(&Ask::post("/api/auth/login").json(&body))
        .await?
        .json()?;
    let access = text(&login, "/access_token")?;
    let variables = json!({ "n": target.artifact_name });
    let ask = Ask::graphql("/graphql", ARTIFACTS, &variables).with(Credentials::bearer(&access));
    let found = asker.send(&ask).await?.json()?;
    let node = "/data/CoreArtifact/edges/0/node";
    let of = |path: &str| text(&found, &format!("{node}{path}"));
    Ok(Facts {
        target: target.clone(),
        refresh: text(&login, "/refresh_token")?,
        artifact: of("/id")?,
        storage_id: of("/storage_id/value")?,
        storage_attribute: of("/storage_id/id")?,
        checksum: of("/checksum/value")?,
        object: of("/object/node/id")?,
        definition: of("/definition/node/name/value")?,
        count: found["data"]["CoreArtifact"]["count"]
            .as_u64()
            .unwrap_or_default(),
        access,
    })
}

fn text(value: &Value, pointer: &str) -> Result<String, String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| {
        format!("nothing at {pointer} in {value}; is the server seeded like the lab?")
    })
}
