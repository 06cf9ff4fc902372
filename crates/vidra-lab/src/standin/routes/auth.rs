//! Login, refresh, logout.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use jiff::{Timestamp, fmt::rfc2822};

use super::{Asked, required};
use crate::standin::{
    identity::Presented,
    json::Json,
    respond::{self, Refusal},
    token::{Claims, Purpose},
    world::World,
};

pub(super) fn login(world: &mut World, asked: &Asked<'_>) -> Result<Response, Refusal> {
    let [username, password] = required(&asked.json()?, ["username", "password"])?;
    let account = world
        .accounts
        .iter()
        .find(|account| account.name == username);
    let unknown = || {
        Refusal::new(
            StatusCode::NOT_FOUND,
            "That login user doesn't exist in the system",
        )
    };
    let account = account.ok_or_else(unknown)?;
    if account.password != password {
        return Err(Refusal::unauthorized("Incorrect password"));
    }
    let account = account.id.clone();
    let session = world.next_id();
    world.sessions.insert(session.clone());
    let access = issue(world, &account, &session, Purpose::Access);
    let refresh = issue(world, &account, &session, Purpose::Refresh);
    let body = Json::object([
        ("access_token", Json::text(&access)),
        ("refresh_token", Json::text(&refresh)),
    ]);
    let mut response = respond::json(StatusCode::OK, &body);
    let settings = &world.settings;
    keep(
        &mut response,
        "access_token",
        &access,
        settings.access_lifetime.as_secs(),
    );
    keep(
        &mut response,
        "refresh_token",
        &refresh,
        settings.refresh_lifetime.as_secs(),
    );
    Ok(response)
}

/// The refresh token stays the same; only a new access token is made.
pub(super) fn refresh(world: &mut World, asked: &Asked<'_>) -> Result<Response, Refusal> {
    let presented = Presented::of(&asked.parts.headers).jwt("refresh_token");
    let missing = "A JWT refresh token is required to perform this operation.";
    let token = presented.ok_or_else(|| Refusal::unauthorized(missing))?;
    let claims = world.claims(&token)?;
    if claims.purpose != Purpose::Refresh {
        let message = "Invalid token, current token is not a refresh token";
        return Err(Refusal::unauthorized(message));
    }
    if !world.sessions.contains(&claims.session) {
        let message = "The provided refresh token has been invalidated in the database";
        return Err(Refusal::unauthorized(message));
    }
    let access = issue(world, &claims.account, &claims.session, Purpose::Access);
    let body = Json::object([("access_token", Json::text(&access))]);
    let mut response = respond::json(StatusCode::OK, &body);
    keep(
        &mut response,
        "access_token",
        &access,
        world.settings.access_lifetime.as_secs(),
    );
    Ok(response)
}

/// Forgets the session; access tokens that were given out stay good until they expire.
pub(super) fn logout(world: &mut World, asked: &Asked<'_>) -> Result<Response, Refusal> {
    let presented = Presented::of(&asked.parts.headers).jwt("access_token");
    let missing = "A JWT access token is required to perform this operation.";
    let token = presented.ok_or_else(|| Refusal::unauthorized(missing))?;
    let (_, claims) = world.by_access_token(&token)?;
    world.sessions.remove(&claims.session);
    let mut response = respond::json(StatusCode::OK, &Json::Null);
    let expired = rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&Timestamp::now())
        .unwrap_or_default();
    for name in ["access_token", "refresh_token"] {
        let cookie = format!("{name}=\"\"; expires={expired}; Max-Age=0; Path=/; SameSite=lax");
        set_cookie(&mut response, &cookie);
    }
    Ok(response)
}

fn issue(world: &World, account: &str, session: &str, purpose: Purpose) -> String {
    let lifetime = match purpose {
        Purpose::Access => world.settings.access_lifetime,
        Purpose::Refresh => world.settings.refresh_lifetime,
    };
    let now = world.now().as_second();
    Claims {
        account: account.to_owned(),
        not_before: now,
        expires: now.saturating_add_unsigned(lifetime.as_secs()),
        purpose,
        session: session.to_owned(),
    }
    .sign(&world.settings.secret)
}

fn keep(response: &mut Response, name: &str, value: &str, seconds: u64) {
    let cookie = format!("{name}={value}; HttpOnly; Max-Age={seconds}; Path=/; SameSite=lax");
    set_cookie(response, &cookie);
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}
