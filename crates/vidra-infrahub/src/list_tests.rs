use super::*;

fn page(count: u64, ids: &[&str]) -> Connection<Node> {
    let node = |id: &&str| {
        let value = |text: &str| json!({ "value": text });
        json!({ "node": {
            "id": id, "name": value("manifest"), "status": value("Ready"),
            "content_type": value("application/yaml"), "checksum": value("c"),
            "storage_id": value("s"), "object": { "node": null }, "definition": { "node": null },
        }})
    };
    let edges: Vec<_> = ids.iter().map(node).collect();
    serde_json::from_value(json!({ "count": count, "edges": edges })).unwrap()
}

/// Feeds pages until one completes the list or fails.
fn read(pages: &[(u64, &[&str])]) -> Result<Vec<String>, Error> {
    let wanted = BTreeSet::from(["manifest".to_owned()]);
    let request = Request {
        filter: "name__values",
        wanted: &wanted,
        query: None,
    };
    let mut reading = Reading::default();
    for (count, ids) in pages {
        if reading.add(page(*count, ids), &request)? {
            break;
        }
    }
    Ok(reading
        .found
        .into_iter()
        .map(|artifact| artifact.id)
        .collect())
}

#[test]
fn pages_that_fit_make_a_list() {
    assert_eq!(read(&[(0, &[])]).unwrap(), Vec::<String>::new());
    assert_eq!(read(&[(2, &["a", "b"])]).unwrap(), ["a", "b"]);
    let three: &[(u64, &[&str])] = &[(4, &["a", "b"]), (4, &["b", "c"]), (4, &["c", "d"])];
    assert_eq!(read(three).unwrap(), ["a", "b", "c", "d"]);
}

#[test]
fn a_list_that_is_shorter_or_longer_than_it_says_is_refused() {
    for pages in [
        &[(1, &[] as &[&str])][..],
        &[(0, &["a"])],
        &[(1, &["a", "b"])],
        &[(3, &["a", "b"]), (3, &["b"])],
        &[(u64::MAX, &["a"])],
    ] {
        assert_eq!(read(pages).unwrap_err().code(), "Incomplete", "{pages:?}");
    }
}

#[test]
fn a_list_that_changes_between_pages_is_noticed() {
    for pages in [
        // Something was added, and the count tells.
        &[(3, &["a", "b"] as &[&str]), (4, &["b", "c"])][..],
        // One before the border went and another came at the end: the count stays.
        &[(3, &["a", "b"]), (3, &["c", "d"])],
        // One came before the border and another went at the end.
        &[(3, &["a", "b"]), (3, &["a", "b"])],
        // The rest is gone.
        &[(3, &["a", "b"]), (3, &[])],
        // The same one twice.
        &[(4, &["a", "b"]), (4, &["b", "a"])],
        &[(2, &["a", "a"])],
    ] {
        assert_eq!(read(pages).unwrap_err().code(), "ListChanged", "{pages:?}");
    }
}

#[test]
fn a_server_that_ignores_the_filter_is_not_believed() {
    let wanted = BTreeSet::from(["other".to_owned()]);
    let request = Request {
        filter: "name__values",
        wanted: &wanted,
        query: None,
    };
    let error = Reading::default()
        .add(page(1, &["a"]), &request)
        .unwrap_err();
    assert_eq!(error.code(), "Unexpected");
}

#[test]
fn every_name_is_in_the_listing_even_without_artifacts() {
    let names = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let listing = listing(&names, Vec::new());
    assert_eq!(listing.artifacts.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert!(listing.artifacts.values().all(Vec::is_empty));
}
