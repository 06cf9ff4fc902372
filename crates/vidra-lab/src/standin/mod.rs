//! An HTTP server that behaves like Infrahub 1.4.13 towards a client of artifacts.
//!
//! ```text
//!   test ── StandIn ──────────────┐
//!                                 ▼
//!   client ── HTTP ── faults ── routes ── world (artifacts, branches, accounts, clock)
//!                │                          │
//!             journal                    webhooks
//! ```
//!
//! Routes, status codes, error envelopes and oddities are those of a real server; the contract
//! suite ([`crate::contract`]) is run against both. What it has no idea of: schemas, mutations
//! (but for API tokens), transformations. Tests script what the real renderer would have done.

mod admin;
mod at;
mod clock;
mod connection;
mod events;
mod faults;
mod graphql;
mod identity;
mod journal;
mod json;
mod render;
mod respond;
mod routes;
mod script;
mod seed;
mod server;
mod shared;
mod text;
mod tls;
mod token;
mod webhook;
mod world;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use events::Event;
pub use faults::{Effect, Fault, When};
use jiff::{SignedDuration, Timestamp};
pub use journal::{Authorization, Call};
pub use json::{Json, Style};
pub use render::Rendered;
pub use script::{AccountScript, ArtifactScript};
pub use seed::{ARTIFACT, BRANCH, QUERY, manifest, seed_like_lab};
use server::Server;
use shared::Shared;
pub use tls::Tls;
pub use webhook::{Delivery, Generation, Subscription, WebhookError, signature};
pub(crate) use world::md5_hex;
pub use world::{ADMIN, ADMIN_TOKEN, DEFAULT_BRANCH, Group, Status};

/// A stand-in that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}; is the port free?")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("cannot make the certificate of the stand-in")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How a stand-in is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; a free port of the loopback interface unless said otherwise.
    pub address: SocketAddr,
    /// Speak TLS, with this certificate.
    pub tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
        }
    }
}

/// A running stand-in. It stops when it is dropped; hanging requests are cut then.
///
/// It runs in a thread of its own and may be shared by tests with different runtimes.
pub struct StandIn {
    shared: Arc<Shared>,
    identity: Option<tls::Identity>,
    address: SocketAddr,
    server: Mutex<Option<Server>>,
}

impl StandIn {
    /// Starts an empty one: branch `main`, account [`ADMIN`] with the API token [`ADMIN_TOKEN`].
    pub fn start() -> Result<Self, StandInError> {
        Self::start_with(&Options::default())
    }

    /// Starts one with the world of the lab; see [`seed_like_lab`].
    pub fn start_seeded() -> Result<Self, StandInError> {
        let standin = Self::start()?;
        seed_like_lab(&standin);
        Ok(standin)
    }

    /// Starts one at an address, or with TLS.
    pub fn start_with(options: &Options) -> Result<Self, StandInError> {
        let shared = Arc::new(Shared::new());
        let identity = options.tls.map(tls::Identity::new).transpose();
        let identity = identity.map_err(|error| StandInError::Tls(Box::new(error)))?;
        let address = options.address;
        let server = Server::start(address, Arc::clone(&shared), identity.clone())
            .map_err(|source| StandInError::Listen { address, source })?;
        let address = server.address;
        Ok(Self {
            shared,
            identity,
            address,
            server: Mutex::new(Some(server)),
        })
    }

    /// The base URL, without a slash at its end.
    pub fn url(&self) -> String {
        let scheme = if self.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate authority in PEM, if it speaks TLS.
    pub fn authority(&self) -> Option<&str> {
        self.identity
            .as_ref()
            .map(|identity| identity.authority.as_str())
    }

    /// Stops listening, so that connections are refused; the world stays.
    pub fn halt(&self) {
        *lock(&self.shared.runtime) = None;
        // The server is dropped outside of the lock: it waits for its thread.
        let server = lock(&self.server).take();
        drop(server);
    }

    /// Listens again, at the same address.
    pub fn resume(&self) -> Result<(), StandInError> {
        let address = self.address;
        let mut running = lock(&self.server);
        if running.is_none() {
            let server = Server::start(address, Arc::clone(&self.shared), self.identity.clone());
            *running = Some(server.map_err(|source| StandInError::Listen { address, source })?);
        }
        Ok(())
    }
}

/// The world behind the server.
impl StandIn {
    /// An artifact to be changed.
    pub fn artifact(&self, name: &str) -> ArtifactScript<'_> {
        ArtifactScript::new(self, name)
    }

    /// Gives an artifact another name, on all branches and for all times, as somebody may by hand.
    pub fn rename(&self, artifact: &str, name: &str) {
        let mut world = lock(&self.shared.world);
        let mut artifacts = world.artifacts.iter_mut();
        if let Some(found) = artifacts.find(|known| known.id == artifact) {
            name.clone_into(&mut found.name);
        }
    }

    /// Makes a branch from `main` as it is now; tells its id.
    pub fn branch(&self, name: &str) -> String {
        lock(&self.shared.world).add_branch(name).id
    }

    /// Removes a branch.
    pub fn delete_branch(&self, name: &str) {
        lock(&self.shared.world)
            .branches
            .retain(|branch| branch.name != name);
    }

    /// Stores a query under a name.
    pub fn query(&self, name: &str, text: &str) {
        lock(&self.shared.world).put_query(name, text);
    }

    /// Removes a stored query.
    pub fn delete_query(&self, name: &str) {
        lock(&self.shared.world)
            .queries
            .retain(|query| query.name != name);
    }

    /// Makes an account, or changes its password and group.
    pub fn account(&self, name: &str, password: &str, group: Group) -> AccountScript<'_> {
        AccountScript::new(self, name, password, group)
    }

    /// Removes an API token, by its value.
    pub fn revoke_token(&self, value: &str) {
        lock(&self.shared.world)
            .tokens
            .retain(|token| token.value != value);
    }

    /// Makes all tokens invalid that were given out by logins, as a restart without a fixed secret
    /// does.
    pub fn change_secret(&self) {
        lock(&self.shared.world).change_secret();
    }

    /// Replaces stored content behind the server's back; its checksum in the graph stays.
    pub fn corrupt(&self, storage_id: &str, content: impl Into<Vec<u8>>) {
        lock(&self.shared.world)
            .objects
            .insert(storage_id.to_owned(), content.into());
    }

    /// Loses stored content.
    pub fn lose(&self, storage_id: &str) {
        lock(&self.shared.world).objects.remove(storage_id);
    }

    /// Whether calls without credentials may read; they may unless said otherwise.
    pub fn allow_anonymous(&self, is_allowed: bool) {
        lock(&self.shared.world).settings.is_anonymous_allowed = is_allowed;
    }

    /// Lifetimes of the tokens that logins give out; an hour and thirty days unless said otherwise.
    pub fn token_lifetimes(&self, access: Duration, refresh: Duration) {
        let settings = &mut lock(&self.shared.world).settings;
        (settings.access_lifetime, settings.refresh_lifetime) = (access, refresh);
    }

    /// Whether there is a web UI on all other paths; without one they crash.
    pub fn web_ui(&self, has_web_ui: bool) {
        lock(&self.shared.world).settings.has_web_ui = has_web_ui;
    }

    /// The version that the server claims to be.
    pub fn version(&self, version: &str) {
        version.clone_into(&mut lock(&self.shared.world).settings.version);
    }

    /// The time as the server sees it.
    pub fn now(&self) -> Timestamp {
        lock(&self.shared.world).now()
    }

    /// Sets the server's time, which then stands still.
    pub fn set_now(&self, now: Timestamp) {
        lock(&self.shared.world).clock.freeze_at(now);
    }

    /// Moves the server's time on.
    pub fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        lock(&self.shared.world).clock.advance(by);
    }
}

/// What happened, and what shall go wrong.
impl StandIn {
    /// All requests so far, those to the scripting interface excepted.
    pub fn journal(&self) -> Vec<Call> {
        lock(&self.shared.journal).calls.clone()
    }

    /// How many requests so far had this method and a path that begins like this.
    pub fn count(&self, method: &str, path: &str) -> usize {
        let journal = lock(&self.shared.journal);
        journal
            .calls
            .iter()
            .filter(|call| call.method == method && call.path.starts_with(path))
            .count()
    }

    /// The largest number of requests that were in work at the same time.
    pub fn max_in_flight(&self) -> usize {
        lock(&self.shared.journal).max_in_flight
    }

    /// Forgets all requests.
    pub fn clear_journal(&self) {
        lock(&self.shared.journal).clear();
    }

    /// Arms a fault; faults are asked in the order in which they were armed.
    pub fn fault(&self, fault: Fault) -> u64 {
        let mut faults = lock(&self.shared.faults);
        let id = faults.last().map_or(1, |armed| armed.id + 1);
        faults.push(faults::Armed {
            id,
            fault,
            calls: 0,
        });
        id
    }

    /// Disarms one fault.
    pub fn disarm(&self, id: u64) {
        lock(&self.shared.faults).retain(|armed| armed.id != id);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        lock(&self.shared.faults).clear();
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.shared.world).events.clone()
    }

    /// Sends every event from now on to a receiver, as often as the real server tries.
    pub fn subscribe(&self, subscription: Subscription) {
        lock(&self.shared.subscriptions).push(subscription);
    }

    /// Sends one signed webhook, once, and tells the receiver's status.
    pub async fn send_webhook(
        &self,
        url: &str,
        key: &str,
        generation: Generation,
        event: &Event,
    ) -> Result<u16, WebhookError> {
        let (url, key) = (url.to_owned(), Some(key.to_owned()));
        let subscription = Subscription {
            url,
            key,
            generation,
            event: "all".to_owned(),
        };
        webhook::send(&subscription, event, self.now()).await
    }
}

/// Runs a stand-in with the world of the lab at an address until the future is dropped.
pub async fn serve(address: SocketAddr) -> Result<(), StandInError> {
    let standin = StandIn::start_with(&Options { address, tls: None })?;
    seed_like_lab(&standin);
    std::future::pending().await
}

/// A thread that panicked while it held a lock has left nothing half done that matters here.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
