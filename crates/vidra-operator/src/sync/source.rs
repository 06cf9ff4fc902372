//! Where a sync reads from. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use vidra_api::InfrahubSync;
use vidra_infrahub::{Address, Error, Origin, TargetDate, View};

use super::{
    credentials::{CredentialsError, Secrets, Wish, pick},
    failure::SyncError,
};

/// Everything that decides what Infrahub answers. Syncs with equal sources are answered by one
/// query.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source {
    /// The server.
    pub(crate) address: Address,
    /// The branch.
    pub(crate) branch: String,
    /// The point in time; now if absent.
    pub(crate) date: Option<TargetDate>,
    /// The Secret with the credentials; anonymous if absent.
    pub(crate) secret: Option<String>,
    /// Secret and key of the CA bundle.
    pub(crate) authority: Option<(String, String)>,
}

impl Source {
    /// What Infrahub is asked about.
    pub(crate) fn view(&self) -> View<'_> {
        View {
            branch: &self.branch,
            at: self.date.as_ref(),
        }
    }
}

/// The origin of the oldest sync on each host.
#[derive(Debug, Default)]
pub(crate) struct Firsts(HashMap<String, Origin>);

impl Firsts {
    /// The origin of the oldest sync on the host of a URL.
    pub(crate) fn on_host_of(&self, url: &str) -> Option<&Origin> {
        let origin = Origin::parse(url).ok()?;
        self.0.get(origin.host())
    }

    pub(crate) fn of<'a>(syncs: impl Iterator<Item = &'a Arc<InfrahubSync>>) -> Self {
        let mut oldest: HashMap<String, (Option<Time>, String, Origin)> = HashMap::new();
        for sync in syncs {
            let Ok(origin) = Origin::parse(&sync.spec.source.infrahub_api_url) else {
                continue;
            };
            let age = (sync.creation_timestamp(), sync.name_any());
            let known = oldest.get(origin.host());
            let is_older =
                known.is_none_or(|(created, name, _)| (&age.0, &age.1) < (created, name));
            if is_older {
                oldest.insert(origin.host().to_owned(), (age.0, age.1, origin));
            }
        }
        let origins = oldest.into_iter();
        Self(
            origins
                .map(|(host, (_, _, origin))| (host, origin))
                .collect(),
        )
    }
}

/// Where a sync reads from, or why that cannot be said.
pub(crate) fn resolve(
    sync: &InfrahubSync,
    secrets: Option<&Secrets>,
    firsts: &Firsts,
    namespace: &str,
) -> Result<Source, SyncError> {
    let source = &sync.spec.source;
    let address = Address::parse(&source.infrahub_api_url)?;
    let date = TargetDate::parse(source.date().unwrap_or_default()).map_err(Error::InvalidDate)?;
    if source.artifact_name().is_empty() {
        let what = "artifact's name";
        return Err(Error::InvalidName { what }.into());
    }
    let secrets = secrets.ok_or_else(|| CredentialsError::Unlisted {
        namespace: namespace.to_owned(),
    })?;
    let origin = address.origin();
    let wish = Wish {
        origin,
        named: source.credentials_ref.as_ref().map(|it| it.name.as_str()),
        first: firsts.0.get(origin.host()).unwrap_or(origin),
        namespace,
    };
    let secret = pick(secrets, &wish)?;
    let authority = source.ca_bundle_ref.as_ref();
    let authority = authority.map(|it| (it.name.clone(), it.key().to_owned()));
    Ok(Source {
        address,
        branch: source.branch().to_owned(),
        date,
        secret,
        authority,
    })
}

/// The names that syncs with a source ask for.
pub(crate) fn names(
    source: &Source,
    syncs: &BTreeMap<String, Arc<InfrahubSync>>,
    secrets: Option<&Secrets>,
    namespace: &str,
) -> BTreeSet<String> {
    let firsts = Firsts::of(syncs.values());
    let active = syncs.values().filter(|sync| !sync.spec.suspend);
    active
        .filter(|sync| {
            resolve(sync, secrets, &firsts, namespace).is_ok_and(|found| found == *source)
        })
        .map(|sync| sync.spec.source.artifact_name().to_owned())
        .collect()
}
