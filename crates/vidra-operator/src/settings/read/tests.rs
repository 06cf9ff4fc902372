use super::*;

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    owned.collect()
}

/// The value that a key has after reading, and what is wrong with it.
fn value_of(key: &str, text: &str) -> (String, Vec<String>) {
    let base = Settings::default();
    let mut reading = read(&data(&[(key, text)]), &base, &base);
    let value = place(&mut reading.settings, key).unwrap().show();
    let problems = reading.problems.iter().map(ToString::to_string).collect();
    (value, problems)
}

#[test]
fn good_values_are_taken() {
    for (key, text, value) in [
        ("requeueSyncAfter", "30s", "30s"),
        ("requeueSyncAfter", "1s", "1s"),
        ("requeueSyncAfter", "1h30m", "1h30m"),
        ("requeueSyncAfter", "1.5m", "1m30s"),
        ("requeueSyncAfter", "0", "0s"),
        ("requeueSyncAfter", "0s", "0s"),
        ("requeueSyncAfter", " 2m\n", "2m"),
        ("requeueResourcesAfter", "8760h", "8760h"),
        ("requeueResourcesAfter", "1000ms", "1s"),
        ("deepPassAfter", "1m", "1m"),
        ("deepPassAfter", "0", "0s"),
        ("queryName", "MyArtifacts", "\"MyArtifacts\""),
        ("queryName", "", "\"\""),
        ("eventBasedReconcile", "false", "false"),
        ("eventBasedReconcile", "False", "false"),
        ("eventBasedReconcile", "0", "false"),
        ("eventBasedReconcile", "1", "true"),
        ("resourceWorkers", "1", "1"),
        ("resourceWorkers", "64", "64"),
        ("downloads", "3", "3"),
        ("pruneMaxPercent", "0", "0"),
        ("pruneMaxPercent", "100", "100"),
        ("pruneMaxCount", "0", "0"),
        ("pruneMaxCount", "100000", "100000"),
        ("largestArtifact", "40Mi", "40Mi"),
        ("largestArtifact", "64Mi", "64Mi"),
        ("largestArtifact", "2048", "2Ki"),
        ("largestArtifact", "5M", "5000000"),
    ] {
        assert_eq!(
            value_of(key, text),
            (value.to_owned(), vec![]),
            "{key}: {text:?}"
        );
    }
}

#[test]
fn bad_values_change_nothing_and_are_told_with_what_is_expected() {
    for (key, text, expected) in [
        ("requeueSyncAfter", "", "a duration such as"),
        ("requeueSyncAfter", "10", "a duration such as"),
        ("requeueSyncAfter", "1 minute", "a duration such as"),
        ("requeueSyncAfter", "-1m", "a duration such as"),
        ("requeueSyncAfter", "1d", "a duration such as"),
        ("requeueSyncAfter", "999ms", "at least 1s"),
        ("requeueSyncAfter", "1ns", "at least 1s"),
        ("requeueSyncAfter", "8761h", "at most 8760h"),
        ("requeueSyncAfter", "99999999999999999999h", "at most 8760h"),
        ("requeueResourcesAfter", "0.5s", "at least 1s"),
        ("deepPassAfter", "59s", "at least 1m"),
        ("queryName", "two\nlines", "one line"),
        ("eventBasedReconcile", "yes", "true or false"),
        ("eventBasedReconcile", "", "true or false"),
        ("resourceWorkers", "0", "a number from 1 to 64"),
        ("resourceWorkers", "65", "a number from 1 to 64"),
        ("resourceWorkers", "-1", "a number from 1 to 64"),
        ("resourceWorkers", "many", "a number from 1 to 64"),
        ("downloads", "0", "a number from 1 to 64"),
        ("downloads", "8.0", "a number from 1 to 64"),
        ("pruneMaxPercent", "101", "a number from 0 to 100"),
        ("pruneMaxPercent", "50%", "a number from 0 to 100"),
        ("pruneMaxCount", "-1", "a number, 0 or more"),
        ("largestArtifact", "0", "64Mi, from 1Ki to 64Mi"),
        ("largestArtifact", "2Gi", "64Mi, from 1Ki to 64Mi"),
        ("largestArtifact", "64MB", "64Mi, from 1Ki to 64Mi"),
        ("largestArtifact", "Mi", "64Mi, from 1Ki to 64Mi"),
        ("largestArtifact", "99999999999Gi", "64Mi, from 1Ki to 64Mi"),
    ] {
        let (value, problems) = value_of(key, text);
        let default = place(&mut Settings::default(), key).unwrap().show();
        assert_eq!(value, default, "{key}: {text:?}");
        let [problem] = &problems[..] else {
            panic!("{key}: {text:?}: {problems:?}");
        };
        assert!(
            problem.starts_with(&format!("{key} is {text:?}, ")),
            "{problem}"
        );
        assert!(problem.contains(expected), "{problem}");
        assert!(
            problem.ends_with(&format!("it stays at {default}")),
            "{problem}"
        );
    }
}

#[test]
fn a_value_of_any_length_makes_a_short_text() {
    let (_, problems) = value_of("queryName", &"x".repeat(1_000_000));
    assert!(problems[0].len() < 300, "{}", problems[0].len());
}

#[test]
fn a_bad_value_keeps_the_last_good_one_of_its_key_and_the_others_apply() {
    let base = Settings::default();
    let last = Settings {
        requeue_sync_after: Duration::from_secs(7),
        requeue_resources_after: Duration::from_secs(8),
        workers: 3,
        ..base.clone()
    };
    let named = data(&[
        ("requeueSyncAfter", "soon"),
        ("requeueResourcesAfter", "9s"),
    ]);
    let reading = read(&named, &base, &last);
    let wanted = Settings {
        requeue_sync_after: Duration::from_secs(7),
        requeue_resources_after: Duration::from_secs(9),
        ..base
    };
    assert_eq!(
        reading.settings, wanted,
        "what is not named is as in the base"
    );
    assert_eq!(reading.problems.len(), 1, "{:?}", reading.problems);
}

#[test]
fn what_came_from_the_command_line_is_kept_even_where_a_configuration_could_not_say_it() {
    let base = Settings {
        requeue_resources_after: Duration::from_millis(10),
        ..Settings::default()
    };
    let reading = read(&data(&[("requeueResourcesAfter", "1ms")]), &base, &base);
    assert_eq!(reading.settings, base);
    assert_eq!(reading.problems.len(), 1);
}

#[test]
fn every_key_has_its_own_place() {
    for key in KEYS {
        let mut settings = Settings::default();
        let mut slot = place(&mut settings, key).unwrap();
        let text = match slot {
            Place::Timer(..) => "3h",
            Place::Flag(_) => "false",
            Place::Bytes(_) => "3Mi",
            _ => "3",
        };
        slot.put(text).unwrap();
        let differing = differences(&Settings::default(), &settings);
        let [only] = &differing[..] else {
            panic!("{key}: {differing:?}");
        };
        assert!(only.starts_with(&format!("{key} is ")), "{only}");
        let mut copy = Settings::default();
        let slot = place(&mut settings, key).unwrap();
        place(&mut copy, key).unwrap().take(slot);
        assert_eq!(copy, settings, "{key}");
    }
}

#[test]
fn unknown_keys_of_a_configuration_are_named_with_what_may_be_meant() {
    let text = unknown_keys(&data(&[
        ("requeueSyncAfter", "1m"),
        ("requeueResourceAfter", "1m"),
        ("colour", "blue"),
    ]));
    let text = text.unwrap();
    assert!(
        text.contains("\"requeueResourceAfter\" (did you mean requeueResourcesAfter?)"),
        "{text}"
    );
    assert!(text.contains("\"colour\""), "{text}");
    assert_eq!(unknown_keys(&data(&[("requeueSyncAfter", "1m")])), None);
}

#[test]
fn many_unknown_keys_make_a_short_text() {
    let mut many = data(&[("queryName", "q")]);
    many.extend((0..100).map(|number| (format!("{}{number}", "k".repeat(250)), String::new())));
    let text = unknown_keys(&many).unwrap();
    assert!(text.len() < 500 && text.ends_with("and 95 more"), "{text}");
}

#[test]
fn a_config_map_of_something_else_is_no_configuration_and_only_slips_are_told() {
    let other = data(&[("nginx.conf", ""), ("colour", "blue")]);
    assert!(!is_configuration(&other));
    assert_eq!(unknown_keys(&other), None);
    let slip = data(&[("colour", "blue"), ("requeueSyncsAfter", "1m")]);
    assert!(!is_configuration(&slip));
    let text = unknown_keys(&slip).unwrap();
    assert!(
        text.contains("requeueSyncAfter?") && !text.contains("colour"),
        "{text}"
    );
}
