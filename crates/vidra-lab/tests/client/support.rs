//! A stand-in and a session with it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use vidra_infrahub::{
    Address, Artifact, Credentials, Error, Listing, Policy, Session, Sessions, View,
};
use vidra_lab::standin::{ADMIN, ADMIN_TOKEN, StandIn};

pub(crate) const MAIN: View<'static> = View {
    branch: "main",
    at: None,
};

pub(crate) fn address(standin: &StandIn) -> Address {
    Address::parse(&standin.url()).unwrap()
}

pub(crate) fn password() -> Credentials {
    Credentials::password(ADMIN.0, &ADMIN.1.into()).unwrap()
}

pub(crate) fn token() -> Credentials {
    Credentials::token(&ADMIN_TOKEN.into()).unwrap()
}

pub(crate) fn session(standin: &StandIn, credentials: &Credentials) -> Arc<Session> {
    session_with(standin, credentials, Policy::default())
}

pub(crate) fn session_with(
    standin: &StandIn,
    credentials: &Credentials,
    policy: Policy,
) -> Arc<Session> {
    let sessions = Sessions::new(policy);
    sessions
        .session(&address(standin), credentials, standin.authority())
        .unwrap()
}

/// Gives up soon; for servers that never answer.
pub(crate) fn impatient() -> Policy {
    Policy {
        header: Duration::from_millis(700),
        idle: Duration::from_millis(500),
        whole: Duration::from_millis(1500),
        list_limit: 64 << 10,
        content_limit: 64 << 10,
        ..Policy::default()
    }
}

pub(crate) fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Lists one name with our own query.
pub(crate) async fn list(session: &Session, name: &str) -> Result<Vec<Artifact>, Error> {
    let listing = session.list_artifacts(&MAIN, &names([name]), None).await?;
    Ok(only(listing))
}

pub(crate) fn only(listing: Listing) -> Vec<Artifact> {
    assert_eq!(listing.artifacts.len(), 1);
    listing.artifacts.into_values().next().unwrap()
}
