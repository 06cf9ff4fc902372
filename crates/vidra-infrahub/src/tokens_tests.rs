use std::sync::atomic::AtomicUsize;

use secrecy::ExposeSecret;

use super::*;

/// Gives out tokens as scripted and counts.
struct Script {
    lifetime: Option<Duration>,
    refresh: fn() -> Result<Granted, Error>,
    login_fails: bool,
    logins: AtomicUsize,
    refreshes: AtomicUsize,
}

fn granted(lifetime: Option<Duration>) -> Granted {
    Granted {
        access: "access".into(),
        refresh: None,
        lifetime,
    }
}

impl Script {
    fn new(lifetime: Duration) -> Self {
        Self {
            lifetime: Some(lifetime),
            refresh: || Ok(granted(Some(Duration::from_secs(100)))),
            login_fails: false,
            logins: AtomicUsize::new(0),
            refreshes: AtomicUsize::new(0),
        }
    }

    fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.logins), count(&self.refreshes))
    }
}

impl Issuer for Script {
    async fn login(&self) -> Result<Granted, Error> {
        self.logins.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
        if self.login_fails {
            return Err(Error::CredentialsRejected { message: None });
        }
        Ok(Granted {
            refresh: Some("refresh".into()),
            ..granted(self.lifetime)
        })
    }

    async fn refresh(&self, token: &SecretString) -> Result<Granted, Error> {
        assert_eq!(token.expose_secret(), "refresh");
        self.refreshes.fetch_add(1, Ordering::SeqCst);
        (self.refresh)()
    }
}

fn keeper() -> Keeper {
    Keeper::new(Duration::from_secs(10))
}

#[tokio::test]
async fn fifty_calls_at_once_make_one_login() {
    let now = Instant::now();
    let (keeper, script) = (keeper(), Script::new(Duration::from_secs(100)));
    let calls = (0..50).map(|_| keeper.access(&script, None, now));
    let results = futures::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(script.counts(), (1, 0));
}

#[tokio::test]
async fn fifty_calls_that_wait_for_a_failing_login_share_its_failure() {
    let now = Instant::now();
    let (keeper, mut script) = (keeper(), Script::new(Duration::from_secs(100)));
    script.login_fails = true;
    let calls = (0..50).map(|_| keeper.access(&script, None, now));
    let results = futures::future::join_all(calls).await;
    assert!(results.iter().all(Result::is_err));
    assert_eq!(script.counts(), (1, 0));
}

#[tokio::test]
async fn refused_credentials_are_tried_again_only_after_a_while() {
    let mut now = Instant::now();
    let (keeper, mut script) = (keeper(), Script::new(Duration::from_secs(100)));
    script.login_fails = true;
    for _ in 0..5 {
        assert!(keeper.access(&script, None, now).await.is_err());
    }
    assert_eq!(script.counts(), (1, 0));
    now += Duration::from_secs(11);
    script.login_fails = false;
    assert!(keeper.access(&script, None, now).await.is_ok());
    assert_eq!(script.counts(), (2, 0));
}

#[tokio::test]
async fn a_token_is_refreshed_before_its_end_and_the_refresh_token_is_kept() {
    let mut now = Instant::now();
    let (keeper, script) = (keeper(), Script::new(Duration::from_secs(100)));
    keeper.access(&script, None, now).await.unwrap();
    now += Duration::from_secs(70);
    keeper.access(&script, None, now).await.unwrap();
    assert_eq!(script.counts(), (1, 0));
    now += Duration::from_secs(10);
    keeper.access(&script, None, now).await.unwrap();
    assert_eq!(script.counts(), (1, 1));
    now += Duration::from_secs(80);
    keeper.access(&script, None, now).await.unwrap();
    assert_eq!(script.counts(), (1, 2));
}

#[tokio::test]
async fn a_refused_refresh_leads_to_a_login() {
    let mut now = Instant::now();
    let (keeper, mut script) = (keeper(), Script::new(Duration::from_secs(100)));
    script.refresh = || Err(Error::CredentialsRejected { message: None });
    keeper.access(&script, None, now).await.unwrap();
    now += Duration::from_secs(80);
    keeper.access(&script, None, now).await.unwrap();
    assert_eq!(script.counts(), (2, 1));
}

#[tokio::test]
async fn a_server_that_cannot_refresh_now_does_not_make_a_good_token_bad() {
    let mut now = Instant::now();
    let (keeper, mut script) = (keeper(), Script::new(Duration::from_secs(100)));
    script.refresh = || Err(Error::Unavailable { status: 503 });
    let first = keeper.access(&script, None, now).await.unwrap();
    now += Duration::from_secs(80);
    let kept = keeper.access(&script, None, now).await.unwrap();
    assert_eq!(
        (kept.generation, script.counts()),
        (first.generation, (1, 1))
    );
    now += Duration::from_secs(30);
    assert!(keeper.access(&script, None, now).await.is_err());
}

#[tokio::test]
async fn a_refresh_that_is_broken_does_not_keep_a_login_from_working() {
    let broken: [fn() -> Result<Granted, Error>; 3] = [
        || Err(Error::Crashed { status: 500 }),
        || Err(Error::WebPage { status: 200 }),
        || Err(Error::Malformed),
    ];
    for refresh in broken {
        let mut now = Instant::now();
        let (keeper, mut script) = (keeper(), Script::new(Duration::from_secs(100)));
        script.refresh = refresh;
        keeper.access(&script, None, now).await.unwrap();
        now += Duration::from_secs(110);
        keeper.access(&script, None, now).await.unwrap();
        assert_eq!(script.counts(), (2, 1));
    }
}

#[tokio::test]
async fn a_refused_token_leads_to_one_login_however_late_the_refusals_arrive() {
    let now = Instant::now();
    let (keeper, script) = (keeper(), Script::new(Duration::from_secs(100)));
    let old = keeper.access(&script, None, now).await.unwrap().generation;
    for _ in 0..50 {
        let new = keeper.access(&script, Some(old), now).await.unwrap();
        assert_ne!(new.generation, old);
    }
    assert_eq!(script.counts(), (2, 0));
}

fn token(claims: &str) -> String {
    format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims))
}

#[test]
fn a_lifetime_is_what_the_token_says_whatever_our_clock_says() {
    let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
    let long_ago = token(r#"{"iat":1000,"exp":4600}"#);
    assert_eq!(lifetime(&long_ago, now), Some(Duration::from_hours(1)));
    let without = token(&format!(r#"{{"exp":{}}}"#, now.as_second() + 60));
    assert_eq!(lifetime(&without, now), Some(Duration::from_mins(1)));
}

#[test]
fn a_token_that_says_nothing_has_no_lifetime() {
    let now = Timestamp::UNIX_EPOCH;
    for text in [
        "",
        "opaque",
        "a.b.c",
        "a.!!.c",
        &token("[]"),
        &token(r#"{"exp":"x"}"#),
    ] {
        assert_eq!(lifetime(text, now), None, "{text}");
    }
    assert_eq!(lifetime(&token(r#"{"iat":2,"exp":1}"#), now), None);
    let endless = token(&format!(r#"{{"iat":0,"exp":{}}}"#, i64::MAX));
    assert!(lifetime(&endless, now).is_some());
}
