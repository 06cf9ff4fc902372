//! The Secrets in Vidra's own namespace: their metadata is watched, their content is read when it
//! is needed and kept nowhere but in the session that uses it.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex},
};

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{WatchStreamExt, watcher},
};
use secrecy::SecretString;
use tracing::debug;
use vidra_api::names::{CONTENT_LABEL, credential_keys};
use vidra_core::trigger::Trigger;
use vidra_infrahub::{Credentials, Origin};

use super::{
    Controller,
    credentials::{CredentialsError, Facts, Secrets},
    source::{Firsts, Source},
};
use crate::{latch::Latch, lock};

/// What is known of the Secrets; nothing before the first complete list.
#[derive(Default)]
pub(crate) struct KnownSecrets {
    secrets: Mutex<Option<Arc<Secrets>>>,
    /// Open once they were listed.
    pub(crate) listed: Latch,
}

impl KnownSecrets {
    /// The Secrets as last seen.
    pub(crate) fn get(&self) -> Option<Arc<Secrets>> {
        lock(&self.secrets).clone()
    }

    fn replace(&self, secrets: Secrets) {
        *lock(&self.secrets) = Some(Arc::new(secrets));
    }

    fn change(&self, change: impl FnOnce(&mut Secrets)) {
        let mut known = lock(&self.secrets);
        change(Arc::make_mut(known.get_or_insert_default()));
    }
}

/// What a Secret for Infrahub holds.
pub(crate) struct Keys {
    /// Who we are.
    pub(crate) credentials: Credentials,
    /// What Infrahub signs its webhooks with.
    pub(crate) webhook: Option<SecretString>,
}

impl Controller {
    /// Follows the metadata of the Secrets for ever.
    pub(crate) async fn follow_secrets(&self) {
        let namespace = &self.settings.get().namespace;
        let api: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.cluster.client.clone(), namespace);
        // Stored content is in Secrets as well, and there is much of it.
        let config = watcher::Config::default().labels(&format!("!{CONTENT_LABEL}"));
        let mut stream = pin!(watcher(api, config).default_backoff());
        let mut listed = Secrets::new();
        loop {
            match stream.try_next().await {
                Ok(None) => return,
                Ok(Some(watcher::Event::Init)) => listed.clear(),
                Ok(Some(watcher::Event::InitApply(secret))) => {
                    listed.insert(secret.name_any(), facts(&secret));
                }
                Ok(Some(watcher::Event::InitDone)) => {
                    let listed = std::mem::take(&mut listed);
                    self.take_secrets(|known| known.replace(listed));
                }
                Ok(Some(watcher::Event::Apply(secret))) => self.take_secrets(|known| {
                    known.change(|all| drop(all.insert(secret.name_any(), facts(&secret))));
                }),
                Ok(Some(watcher::Event::Delete(secret))) => self.take_secrets(|known| {
                    known.change(|all| drop(all.remove(&secret.name_any())));
                }),
                Err(error) => debug!(%error, "the watch of Secrets begins anew"),
            }
        }
    }

    /// Takes a change, and wakes every sync for which it means something.
    fn take_secrets(&self, change: impl FnOnce(&KnownSecrets)) {
        let before = self.secrets.get();
        let sources_before = self.sources();
        change(&self.secrets);
        self.forget_keys();
        let after = self.secrets.get();
        let changed: BTreeSet<&String> = names_of(before.as_deref())
            .chain(names_of(after.as_deref()))
            .filter(|name| {
                let of = |all: &Option<Arc<Secrets>>| all.as_ref()?.get(*name).cloned();
                of(&before) != of(&after)
            })
            .collect();
        let sources = self.sources();
        let concerned = sources.iter().filter(|(name, source)| {
            let is_moved = sources_before.get(*name) != Some(*source);
            is_moved || source.as_ref().is_ok_and(|it| uses(it, &changed))
        });
        self.wake(concerned.map(|(name, _)| name), Trigger::Event);
        self.secrets.listed.open();
    }

    /// Where each sync reads from, or why that cannot be said.
    pub(crate) fn sources(&self) -> BTreeMap<String, Result<Source, String>> {
        let syncs = lock(&self.syncs).clone();
        let secrets = self.secrets.get();
        let settings = self.settings.get();
        let firsts = Firsts::of(syncs.values());
        let resolve = |sync| {
            let namespace = &settings.namespace;
            let found = super::source::resolve(sync, secrets.as_deref(), &firsts, namespace);
            found.map_err(|error| error.to_string())
        };
        syncs
            .iter()
            .map(|(name, sync)| (name.clone(), resolve(sync)))
            .collect()
    }

    /// Reads the Secret with the credentials.
    ///
    /// It was chosen by what a watch has shown. What it says by now counts.
    pub(crate) async fn read_credentials(
        &self,
        name: &str,
        origin: &Origin,
    ) -> Result<Keys, CredentialsError> {
        let secret = self.read_secret(name).await?;
        let now = Facts::new(String::new(), secret.labels(), secret.annotations());
        if !now.may_go_to(origin) {
            let name = name.to_owned();
            return Err(CredentialsError::Changed { name });
        }
        let text = |key: &str| text(&secret, key);
        let incomplete = || CredentialsError::Incomplete {
            name: name.to_owned(),
        };
        let credentials = match text(credential_keys::TOKEN) {
            Some(token) => Credentials::token(&token.into()),
            None => Credentials::password(
                &text(credential_keys::USERNAME).ok_or_else(incomplete)?,
                &text(credential_keys::PASSWORD)
                    .ok_or_else(incomplete)?
                    .into(),
            ),
        };
        let webhook = text(credential_keys::WEBHOOK_KEY);
        Ok(Keys {
            credentials: credentials.map_err(|_| incomplete())?,
            webhook: webhook
                .map(|key| key.trim().to_owned())
                .filter(|key| !key.is_empty())
                .map(SecretString::from),
        })
    }

    /// Reads a CA bundle.
    pub(crate) async fn read_bundle(
        &self,
        name: &str,
        key: &str,
    ) -> Result<String, CredentialsError> {
        let secret = self.read_secret(name).await?;
        text(&secret, key).ok_or_else(|| CredentialsError::NoBundle {
            name: name.to_owned(),
            key: key.to_owned(),
        })
    }

    async fn read_secret(&self, name: &str) -> Result<Secret, CredentialsError> {
        let namespace = &self.settings.get().namespace;
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let found = self.cluster.read(&path).await;
        found
            .map_err(|source| CredentialsError::Unreadable {
                name: name.to_owned(),
                source,
            })?
            .ok_or_else(|| CredentialsError::Missing {
                name: name.to_owned(),
                namespace: namespace.clone(),
            })
    }
}

fn facts(secret: &PartialObjectMeta<Secret>) -> Facts {
    let version = secret.resource_version().unwrap_or_default();
    Facts::new(version, secret.labels(), secret.annotations())
}

fn names_of(secrets: Option<&Secrets>) -> impl Iterator<Item = &String> {
    secrets.into_iter().flat_map(Secrets::keys)
}

fn uses(source: &Source, changed: &BTreeSet<&String>) -> bool {
    let authority = source.authority.as_ref().map(|(name, _)| name);
    let used = source.secret.as_ref().into_iter().chain(authority);
    used.into_iter().any(|name| changed.contains(name))
}

/// A text in a Secret; what is no text or empty is as good as not there.
fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text).filter(|text| !text.trim().is_empty())
}
