use super::*;

const KEY: &str = "shared key with \u{fc}";
const BODY: &str = r#"{"data":{"node_id":"a-1","artifact_definition_id":"d-1"},"id":"e-1","branch":"main","event":"infrahub.artifact.updated"}"#;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn sign(key: &str, id: &str, timestamp: &str, payload: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{id}.{timestamp}.{payload}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

struct Case {
    id: String,
    timestamp: String,
    signature: String,
    body: String,
}

impl Case {
    fn good() -> Self {
        let (id, timestamp) = ("msg_1".to_owned(), "1800000000".to_owned());
        let signature = sign(KEY, &id, &timestamp, BODY);
        let body = BODY.to_owned();
        Self {
            id,
            timestamp,
            signature,
            body,
        }
    }

    fn delivery(&self) -> Delivery<'_> {
        Delivery {
            id: Some(&self.id),
            timestamp: Some(&self.timestamp),
            signature: Some(&self.signature),
            body: self.body.as_bytes(),
        }
    }

    fn judged(&self) -> Result<(), Refusal> {
        verify(&[KEY.into()], &self.delivery(), now(), &Rules::default())
    }
}

#[test]
fn a_webhook_signed_over_its_own_bytes_is_accepted() {
    assert_eq!(Case::good().judged(), Ok(()));
}

#[test]
fn every_change_of_a_signed_part_is_noticed() {
    let changed = |change: fn(&mut Case)| {
        let mut case = Case::good();
        change(&mut case);
        case.judged()
    };
    let wrong = Err(Refusal::WrongSignature);
    assert_eq!(changed(|case| case.id.push('x')), wrong);
    assert_eq!(
        changed(|case| case.timestamp = "1800000001".to_owned()),
        wrong
    );
    assert_eq!(
        changed(|case| case.body = case.body.replace("a-1", "a-2")),
        wrong
    );
    assert_eq!(
        changed(|case| case.body.push(' ')),
        Ok(()),
        "the same JSON, compact"
    );
    assert_eq!(changed(|case| case.body.push('x')), wrong);
    assert_eq!(
        changed(|case| case.signature = sign("other", "msg_1", "1800000000", BODY)),
        wrong
    );
    assert_eq!(
        changed(|case| case.signature.truncate(20)),
        Err(Refusal::Unreadable)
    );
}

#[test]
fn the_time_window_holds_on_both_sides() {
    for (offset, expected) in [
        (-301, Err(Refusal::OutsideWindow)),
        (-300, Ok(())),
        (300, Ok(())),
        (301, Err(Refusal::OutsideWindow)),
    ] {
        let mut case = Case::good();
        case.timestamp = (1_800_000_000 + offset).to_string();
        case.signature = sign(KEY, &case.id, &case.timestamp, BODY);
        assert_eq!(case.judged(), expected, "{offset}");
    }
}

#[test]
fn headers_that_are_missing_or_odd_are_refused() {
    let case = Case::good();
    let full = case.delivery();
    for delivery in [
        Delivery { id: None, ..full },
        Delivery {
            timestamp: None,
            ..full
        },
        Delivery {
            signature: None,
            ..full
        },
    ] {
        let result = verify(&[KEY.into()], &delivery, now(), &Rules::default());
        assert_eq!(result, Err(Refusal::Unsigned));
    }
    for timestamp in [
        "",
        "+1800000000",
        "18e8",
        "-1",
        "99999999999999999999",
        "9999999999999999",
    ] {
        let timestamp = Some(timestamp);
        let result = verify(
            &[KEY.into()],
            &Delivery { timestamp, ..full },
            now(),
            &Rules::default(),
        );
        assert_eq!(result, Err(Refusal::Unreadable), "{timestamp:?}");
    }
    for signature in ["", "v1", "v1,", "v2,AAAA", "v1,!!"] {
        let signature = Some(signature);
        let result = verify(
            &[KEY.into()],
            &Delivery { signature, ..full },
            now(),
            &Rules::default(),
        );
        assert!(result.is_err(), "{signature:?}");
    }
}

#[test]
fn without_a_key_nobody_is_trusted() {
    let mut case = Case::good();
    case.signature = sign("", &case.id, &case.timestamp, BODY);
    for keys in [vec![], vec![SecretString::from("")]] {
        let result = verify(&keys, &case.delivery(), now(), &Rules::default());
        assert_eq!(result, Err(Refusal::NoKey));
    }
}

#[test]
fn any_key_and_any_of_several_signatures_will_do() {
    let mut case = Case::good();
    case.signature = format!("v2,AAAA v1,AAAA {}", case.signature);
    let keys = ["old".into(), KEY.into()];
    assert_eq!(
        verify(&keys, &case.delivery(), now(), &Rules::default()),
        Ok(())
    );
}

#[test]
fn a_body_over_the_limit_is_not_looked_at() {
    let case = Case::good();
    let rules = Rules {
        body_limit: 10,
        ..Rules::default()
    };
    let result = verify(&[], &case.delivery(), now(), &rules);
    assert_eq!(result, Err(Refusal::TooLarge));
}

#[test]
fn another_attempt_for_the_same_event_is_a_repetition() {
    let receiver = Receiver::new(Rules::default());
    let first = Case::good();
    let mut second = Case::good();
    second.id = "msg_2".to_owned();
    second.signature = sign(KEY, &second.id, &second.timestamp, BODY);
    let accept = |case: &Case| {
        receiver
            .accept(&[KEY.into()], &case.delivery(), now())
            .unwrap()
    };
    let hint = Hint {
        event: Some("infrahub.artifact.updated".to_owned()),
        branch: Some("main".to_owned()),
        artifact_id: Some("a-1".to_owned()),
        definition_id: Some("d-1".to_owned()),
        ..Hint::default()
    };
    assert_eq!(accept(&first), Accepted::Fresh(hint));
    assert_eq!(accept(&second), Accepted::Repeated);
}

#[test]
fn a_refused_webhook_is_not_remembered() {
    let receiver = Receiver::new(Rules::default());
    let mut forged = Case::good();
    forged.signature = sign("other", &forged.id, &forged.timestamp, BODY);
    let keys = [KEY.into()];
    assert!(receiver.accept(&keys, &forged.delivery(), now()).is_err());
    let good = Case::good();
    let accepted = receiver.accept(&keys, &good.delivery(), now());
    assert!(matches!(accepted, Ok(Accepted::Fresh(_))));
}

#[test]
fn a_signed_body_that_is_no_event_is_refused() {
    let receiver = Receiver::new(Rules::default());
    for body in ["", "[]", "nonsense", r#"{"data":7}"#] {
        let mut case = Case::good();
        body.clone_into(&mut case.body);
        case.signature = sign(KEY, &case.id, &case.timestamp, body);
        let result = receiver.accept(&[KEY.into()], &case.delivery(), now());
        assert_eq!(result, Err(Refusal::NoEvent), "{body}");
    }
}
