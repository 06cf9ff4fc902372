//! What the stand-in knows: branches, artifacts with their history, stored content, accounts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use jiff::Timestamp;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::{clock::Clock, events::Event, text::hex};

/// The branch that exists from the start.
pub const DEFAULT_BRANCH: &str = "main";
/// Name and password of the account that exists from the start.
pub const ADMIN: (&str, &str) = ("admin", "infrahub");
/// The API token of the account that exists from the start.
pub const ADMIN_TOKEN: &str = "06438eb2-8019-4776-878c-0941b1f1d1ec";

/// State of an artifact's rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Rendered; content is there.
    Ready,
    /// Never rendered; there is no content yet.
    Pending,
    /// Being rendered. Known to the schema, never set by the server itself.
    Processing,
    /// The last rendering failed; the content of the last good one stays.
    Error,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Pending => "Pending",
            Self::Processing => "Processing",
            Self::Error => "Error",
        }
    }
}

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// In no group: may log in, may read content, may not query.
    Nobody,
    /// "Infrahub Users": may read everything.
    Users,
    /// May do everything.
    Administrators,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) is_anonymous_allowed: bool,
    pub(super) access_lifetime: Duration,
    pub(super) refresh_lifetime: Duration,
    pub(super) has_web_ui: bool,
    pub(super) version: String,
    pub(super) secret: String,
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) created: Timestamp,
}

impl Branch {
    pub(super) fn is_default(&self) -> bool {
        self.name == DEFAULT_BRANCH
    }
}

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) artifact_name: String,
    pub(super) content_type: String,
}

#[derive(Clone, Debug)]
pub(super) struct StoredQuery {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) created: Timestamp,
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) password: String,
    pub(super) group: Group,
}

#[derive(Clone, Debug)]
pub(super) struct ApiToken {
    pub(super) id: String,
    pub(super) value: String,
    pub(super) account: String,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArtifactState {
    pub(super) status: Status,
    pub(super) checksum: Option<String>,
    pub(super) storage_id: Option<String>,
    pub(super) content_type: String,
}

/// One point of an artifact's history on one branch; no state means deleted.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) since: Timestamp,
    pub(super) state: Option<ArtifactState>,
}

#[derive(Clone, Debug)]
pub(super) struct Artifact {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) definition: String,
    pub(super) target: String,
    /// Id of the attribute node `storage_id`, which clients mistake for the storage id.
    pub(super) storage_attribute: String,
    pub(super) history: BTreeMap<String, Vec<Version>>,
}

impl Artifact {
    /// A branch shows its own versions, and before those what `main` had when it was made.
    /// Asked for a time before it was made, it shows what `main` had at that time.
    pub(super) fn state_at(&self, branch: &Branch, at: Timestamp) -> Option<&ArtifactState> {
        let own = self.latest(&branch.name, at);
        let seen = own.or_else(|| self.latest(DEFAULT_BRANCH, at.min(branch.created)));
        seen.and_then(|version| version.state.as_ref())
    }

    fn latest(&self, branch: &str, at: Timestamp) -> Option<&Version> {
        self.history
            .get(branch)?
            .iter()
            .rev()
            .find(|version| version.since <= at)
    }
}

pub(super) struct World {
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) deployment: String,
    pub(super) branches: Vec<Branch>,
    pub(super) targets: Vec<Target>,
    pub(super) definitions: Vec<Definition>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) objects: HashMap<String, Vec<u8>>,
    pub(super) queries: Vec<StoredQuery>,
    pub(super) accounts: Vec<Account>,
    pub(super) tokens: Vec<ApiToken>,
    pub(super) sessions: BTreeSet<String>,
    pub(super) events: Vec<Event>,
    counter: u64,
    salt: u64,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self {
            clock: Clock::default(),
            settings: Settings {
                is_anonymous_allowed: true,
                access_lifetime: Duration::from_hours(1),
                refresh_lifetime: Duration::from_hours(30 * 24),
                has_web_ui: true,
                version: "1.4.13".to_owned(),
                secret: format!("{:016x}", random()),
            },
            deployment: String::new(),
            branches: Vec::new(),
            targets: Vec::new(),
            definitions: Vec::new(),
            artifacts: Vec::new(),
            objects: HashMap::new(),
            queries: Vec::new(),
            accounts: Vec::new(),
            tokens: Vec::new(),
            sessions: BTreeSet::new(),
            events: Vec::new(),
            counter: 0,
            salt: random(),
        };
        world.deployment = world.next_id();
        world.add_branch(DEFAULT_BRANCH);
        let account = world.put_account(ADMIN.0, ADMIN.1, Group::Administrators);
        world.put_token(&account, ADMIN_TOKEN, None);
        world
    }

    /// Makes all tokens invalid that were given out by logins.
    pub(super) fn change_secret(&mut self) {
        self.settings.secret = format!("{:016x}", random());
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Ids grow with time, as the real ones do, and differ between two stand-ins.
    pub(super) fn next_id(&mut self) -> String {
        self.counter += 1;
        let head = 0x18e8_5c00_0000_0000_u64 + self.counter * 0x9_3a1c_0007;
        let tail = self
            .salt
            .wrapping_add(self.counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            head >> 32,
            (head >> 16) & 0xffff,
            head & 0xffff,
            tail >> 48,
            tail & 0xffff_ffff_ffff
        )
    }

    pub(super) fn branch(&self, name: &str) -> Option<&Branch> {
        let wanted = if name.is_empty() {
            DEFAULT_BRANCH
        } else {
            name
        };
        self.branches.iter().find(|branch| branch.name == wanted)
    }

    pub(super) fn add_branch(&mut self, name: &str) -> Branch {
        if let Some(branch) = self.branch(name) {
            return branch.clone();
        }
        let branch = Branch {
            id: self.next_id(),
            name: name.to_owned(),
            created: self.now(),
        };
        self.branches.push(branch.clone());
        branch
    }

    /// Everything visible on a branch at a time, ordered by name, then id.
    pub(super) fn artifacts_at(
        &self,
        branch: &Branch,
        at: Timestamp,
    ) -> Vec<(&Artifact, &ArtifactState)> {
        let mut seen: Vec<_> = self
            .artifacts
            .iter()
            .filter_map(|artifact| Some((artifact, artifact.state_at(branch, at)?)))
            .collect();
        seen.sort_by(|(left, _), (right, _)| (&left.name, &left.id).cmp(&(&right.name, &right.id)));
        seen
    }

    pub(super) fn target(&mut self, kind: &str, label: &str) -> Target {
        if let Some(target) = self.targets.iter().find(|target| target.label == label) {
            return target.clone();
        }
        let id = self.next_id();
        let target = Target {
            id,
            kind: kind.to_owned(),
            label: label.to_owned(),
        };
        self.targets.push(target.clone());
        target
    }

    pub(super) fn definition(&mut self, artifact_name: &str, content_type: &str) -> Definition {
        let known = |definition: &&Definition| definition.artifact_name == artifact_name;
        if let Some(definition) = self.definitions.iter().find(known) {
            return definition.clone();
        }
        let definition = Definition {
            id: self.next_id(),
            name: format!("{}_definition", artifact_name.replace('-', "_")),
            artifact_name: artifact_name.to_owned(),
            content_type: content_type.to_owned(),
        };
        self.definitions.push(definition.clone());
        definition
    }

    /// Stores content under a new id; stored content never changes and is never removed.
    pub(super) fn store(&mut self, content: &[u8]) -> (String, String) {
        let id = self.next_id();
        self.objects.insert(id.clone(), content.to_vec());
        (id, md5_hex(content))
    }

    pub(super) fn put_query(&mut self, name: &str, text: &str) {
        self.queries.retain(|query| query.name != name);
        let (id, created) = (self.next_id(), self.now());
        let (name, text) = (name.to_owned(), text.to_owned());
        self.queries.push(StoredQuery {
            id,
            name,
            text,
            created,
        });
    }

    /// A stored query is data like any other: a branch sees those that existed when it was made.
    pub(super) fn query_at(
        &self,
        name: &str,
        branch: &Branch,
        at: Timestamp,
    ) -> Option<&StoredQuery> {
        let limit = if branch.is_default() {
            at
        } else {
            at.min(branch.created)
        };
        let matches = |query: &&StoredQuery| query.name == name || query.id == name;
        self.queries
            .iter()
            .find(|query| matches(query) && query.created <= limit)
    }

    pub(super) fn put_account(&mut self, name: &str, password: &str, group: Group) -> String {
        if let Some(account) = self
            .accounts
            .iter_mut()
            .find(|account| account.name == name)
        {
            password.clone_into(&mut account.password);
            account.group = group;
            return account.id.clone();
        }
        let id = self.next_id();
        let (name, password) = (name.to_owned(), password.to_owned());
        self.accounts.push(Account {
            id: id.clone(),
            name,
            password,
            group,
        });
        id
    }

    pub(super) fn put_token(
        &mut self,
        account: &str,
        value: &str,
        expires: Option<Timestamp>,
    ) -> String {
        let id = self.next_id();
        let (value, account) = (value.to_owned(), account.to_owned());
        self.tokens.push(ApiToken {
            id: id.clone(),
            value,
            account,
            expires,
        });
        id
    }
}

pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The checksum that Infrahub keeps of content.
pub(crate) fn md5_hex(content: &[u8]) -> String {
    hex(&Md5::digest(content))
}
