//! Taking over an object in place, leaving one to others, and letting go of one: edits of metadata
//! only.
//!
//! Fields that were written by *Update* (by the Go operator, by `kubectl apply` of old, by
//! `before-first-apply`) stay alive under that manager and could never be removed by ours. So on
//! the first apply their ownership is moved to our manager; what is not in our manifest then goes
//! with the apply, as if we had always applied the object.

use serde_json::{Value, json};

use crate::{
    fields::{FieldPath, FieldsEntry},
    observed::Observed,
    owner::OwnerId,
    ownership::GO_OWNED_BY,
};

/// Managers of clients that state a whole object by Update.
const WHOLE_OBJECT_MANAGERS: [&str; 4] = [
    "kubectl-client-side-apply",
    "kubectl-create",
    "kubectl-replace",
    "before-first-apply",
];

/// The edits that take an object over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Takeover {
    operations: Vec<Value>,
}

impl Takeover {
    /// Plans the takeover of an object, if anything has to be taken over.
    pub fn plan(live: &Observed, me: &OwnerId) -> Option<Self> {
        let manager = me.field_manager();
        let mut operations = Vec::new();
        operations.extend(move_fields(live, &manager));
        operations.extend(drop_go_references(live));
        operations.extend(drop_go_owner(live, me));
        (!operations.is_empty()).then_some(Self { operations })
    }

    /// The JSON patch operations.
    pub fn operations(&self) -> Vec<Value> {
        self.operations.clone()
    }
}

/// The JSON patch operations that take our marks off an object and leave all values in place.
pub fn release_operations(live: &Observed, me: &OwnerId) -> Vec<Value> {
    let kept = entries_of_others(live, me).map(to_json).collect();
    let mut operations = vec![replace_entries(kept)];
    if live.labels.contains_key("managed-by") {
        operations.push(remove("labels", "managed-by"));
    }
    for key in live.annotations.keys() {
        if *key == me.mark_key() || key == "managed-by" {
            operations.push(remove("annotations", key));
        }
    }
    operations
}

/// The JSON patch operations that take our own mark off an object that others keep and leave all
/// values in place. Our fields are the heirs' from then on: the next apply of an heir changes them
/// to its own values, and removes what it does not want, in one write. Without heirs they are
/// nobody's.
pub fn bequest_operations(live: &Observed, me: &OwnerId, heirs: &[OwnerId]) -> Vec<Value> {
    let heirs: Vec<String> = heirs.iter().map(OwnerId::field_manager).collect();
    let estate = live.entry_of(&me.field_manager()).map(|ours| {
        let mut estate = ours.clone();
        FieldPath::of_fields(&["metadata", "annotations", &me.mark_key()])
            .remove_from_tree(&mut estate.fields);
        estate
    });
    let kept = entries_of_others(live, me).map(|entry| {
        let is_heir = heirs.iter().any(|heir| entry.is_apply_of(heir));
        let mut entry = entry.clone();
        // Paths of another version may name other fields.
        let same = estate
            .iter()
            .filter(|it| is_heir && it.api_version == entry.api_version);
        same.for_each(|estate| merge(&mut entry.fields, &estate.fields));
        to_json(&entry)
    });
    let mut operations = vec![replace_entries(kept.collect())];
    if live.annotations.contains_key(&me.mark_key()) {
        operations.push(remove("annotations", &me.mark_key()));
    }
    operations
}

fn entries_of_others<'a>(
    live: &'a Observed,
    me: &OwnerId,
) -> impl Iterator<Item = &'a FieldsEntry> {
    let manager = me.field_manager();
    let entries = live.managed_fields.iter();
    entries.filter(move |entry| !entry.is_apply_of(&manager))
}

fn replace_entries(mut entries: Vec<Value>) -> Value {
    if entries.is_empty() {
        // An empty list means "leave it as it is"; one empty entry means "nobody owns anything".
        entries.push(json!({}));
    }
    replace("/metadata/managedFields", &Value::Array(entries))
}

fn move_fields(live: &Observed, manager: &str) -> Option<Value> {
    let (moved, kept): (Vec<&FieldsEntry>, Vec<&FieldsEntry>) = live
        .managed_fields
        .iter()
        .partition(|entry| is_moved(entry, manager));
    let template = *moved.first()?;
    let mut fields = json!({});
    for entry in &moved {
        merge(&mut fields, &entry.fields);
    }
    for path in bookkeeping() {
        path.remove_from_tree(&mut fields);
    }
    let ours = FieldsEntry {
        manager: manager.to_owned(),
        operation: "Apply".to_owned(),
        subresource: None,
        fields,
        ..template.clone()
    };
    let mut entries: Vec<Value> = kept
        .into_iter()
        .filter(|entry| !entry.is_apply_of(manager))
        .map(to_json)
        .collect();
    entries.push(to_json(&with_existing(ours, live, manager)));
    Some(replace("/metadata/managedFields", &Value::Array(entries)))
}

/// What we already own under our name stays ours.
fn with_existing(mut ours: FieldsEntry, live: &Observed, manager: &str) -> FieldsEntry {
    if let Some(existing) = live.entry_of(manager) {
        merge(&mut ours.fields, &existing.fields);
        ours.api_version.clone_from(&existing.api_version);
    }
    ours
}

fn is_moved(entry: &FieldsEntry, manager: &str) -> bool {
    let is_content = entry.subresource.as_deref().unwrap_or_default().is_empty();
    let is_go_operator = entry.owns(&FieldPath::of_fields(&[
        "metadata",
        "annotations",
        GO_OWNED_BY,
    ]));
    let is_whole = WHOLE_OBJECT_MANAGERS.contains(&entry.manager.as_str());
    entry.operation == "Update"
        && is_content
        && (is_go_operator || is_whole || entry.manager == manager)
}

/// What the Go operator wrote for itself: edited by this patch, so it must not become ours and
/// vanish with the next apply while other owners still need it.
fn bookkeeping() -> [FieldPath; 2] {
    [
        FieldPath::of_fields(&["metadata", "annotations", GO_OWNED_BY]),
        FieldPath::of_fields(&["metadata", "ownerReferences"]),
    ]
}

fn drop_go_references(live: &Observed) -> Vec<Value> {
    // Removed from the back, so that the indices in front stay true.
    let positions = live.owner_references.iter().enumerate().rev();
    positions
        .filter(|(_, reference)| reference.is_of_go_operator())
        .map(|(index, _)| {
            json!({"op": "remove", "path": format!("/metadata/ownerReferences/{index}")})
        })
        .collect()
}

fn drop_go_owner(live: &Observed, me: &OwnerId) -> Option<Value> {
    let list = live.annotations.get(GO_OWNED_BY)?;
    let mut others: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != me.name())
        .collect();
    others.sort_unstable();
    others.dedup();
    if others.is_empty() {
        return Some(remove("annotations", GO_OWNED_BY));
    }
    let shorter = others.join(",");
    let path = format!("/metadata/annotations/{}", escape(GO_OWNED_BY));
    (shorter != *list).then(|| replace(&path, &Value::String(shorter)))
}

fn to_json(entry: &FieldsEntry) -> Value {
    json!({
        "manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version,
        "time": entry.time, "fieldsType": "FieldsV1", "fieldsV1": entry.fields,
        "subresource": entry.subresource.clone().unwrap_or_default(),
    })
}

fn merge(into: &mut Value, from: &Value) {
    let (Some(target), Some(source)) = (into.as_object_mut(), from.as_object()) else {
        return;
    };
    for (key, value) in source {
        merge(
            target.entry(key.clone()).or_insert_with(|| json!({})),
            value,
        );
    }
}

fn replace(path: &str, value: &Value) -> Value {
    json!({"op": "replace", "path": path, "value": value})
}

fn remove(map: &str, key: &str) -> Value {
    json!({"op": "remove", "path": format!("/metadata/{map}/{}", escape(key))})
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{
        OwnerReference,
        tests::{MANAGER, entry, observed},
    };

    fn me() -> OwnerId {
        OwnerId::new("0123abcd", "one")
    }

    fn go_entry() -> FieldsEntry {
        let mut go = entry("manager", "Update", "2026-11-16T01:00:00Z");
        go.fields = json!({"f:data": {"f:a": {}, "f:b": {}}, "f:metadata": {
            "f:annotations": {".": {}, format!("f:{GO_OWNED_BY}"): {}},
            "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}}});
        go
    }

    fn go_object(owners: &str) -> Observed {
        let mut live = observed(vec![go_entry()]);
        live.annotations
            .insert(GO_OWNED_BY.to_owned(), owners.to_owned());
        live.owner_references.push(OwnerReference {
            api_version: "infrahub.operators.com/v1alpha1".to_owned(),
            kind: "VidraResource".to_owned(),
            name: "one".to_owned(),
            is_controller: true,
        });
        live
    }

    fn operation<'a>(operations: &'a [Value], path: &str) -> Option<&'a Value> {
        operations
            .iter()
            .find(|operation| operation["path"] == path)
    }

    #[test]
    fn the_go_operators_fields_become_ours_and_its_bookkeeping_goes() {
        let takeover = Takeover::plan(&go_object("one,one"), &me()).expect("something to do");
        let operations = takeover.operations();
        let entries = &operation(&operations, "/metadata/managedFields").expect("moved")["value"];
        assert_eq!(entries[0]["manager"], MANAGER);
        assert_eq!(entries[0]["operation"], "Apply");
        assert_eq!(
            entries[0]["fieldsV1"]["f:data"],
            json!({"f:a": {}, "f:b": {}})
        );
        assert!(
            entries[0]["fieldsV1"]["f:metadata"]
                .get("f:ownerReferences")
                .is_none()
        );
        assert!(operation(&operations, "/metadata/ownerReferences/0").is_some());
        let annotation = format!("/metadata/annotations/{}", escape(GO_OWNED_BY));
        assert_eq!(
            operation(&operations, &annotation).expect("dropped")["op"],
            "remove"
        );
    }

    #[test]
    fn other_owners_in_the_go_operators_list_stay_in_it() {
        let operations = Takeover::plan(&go_object("one,two,two"), &me())
            .expect("work")
            .operations();
        let annotation = format!("/metadata/annotations/{}", escape(GO_OWNED_BY));
        assert_eq!(
            operation(&operations, &annotation).expect("shortened")["value"],
            "two"
        );
    }

    #[test]
    fn fields_of_a_person_who_edited_one_field_stay_theirs() {
        let edited = observed(vec![entry(
            "kubectl-edit",
            "Update",
            "2026-11-16T01:00:00Z",
        )]);
        assert_eq!(Takeover::plan(&edited, &me()), None);
    }

    #[test]
    fn releasing_takes_the_marks_off_and_keeps_the_other_managers() {
        let mut live = observed(vec![
            entry("kubectl-create", "Update", "2026-11-16T01:00:00Z"),
            entry(MANAGER, "Apply", "2026-11-16T02:00:00Z"),
        ]);
        live.annotations.insert(me().mark_key(), "x".to_owned());
        live.annotations.insert("theirs".to_owned(), "y".to_owned());
        let operations = release_operations(&live, &me());
        let entries = operation(&operations, "/metadata/managedFields").expect("kept");
        assert_eq!(entries["value"].as_array().map(Vec::len), Some(1));
        assert_eq!(operations.len(), 2);
    }

    /// An object of ours with `data.a` and `data.ours`, and of another owner with `data.a`.
    fn shared_with(other: &OwnerId, version: &str) -> Observed {
        let mut ours = entry(MANAGER, "Apply", "2026-11-16T02:00:00Z");
        ours.fields = json!({
            "f:data": {"f:a": {}, "f:ours": {}},
            "f:metadata": {"f:annotations": {format!("f:{}", me().mark_key()): {}}},
        });
        let mut theirs = entry(&other.field_manager(), "Apply", "2026-11-16T02:00:01Z");
        theirs.api_version = version.to_owned();
        let person = entry("kubectl-edit", "Update", "2026-11-16T02:00:02Z");
        let mut live = observed(vec![ours, theirs, person]);
        live.annotations.insert(me().mark_key(), "x".to_owned());
        live.labels
            .insert("managed-by".to_owned(), "vidra".to_owned());
        live
    }

    /// The data fields that each manager has after a bequest.
    fn after_bequest(live: &Observed, heirs: &[OwnerId]) -> Vec<(String, Value)> {
        let operations = bequest_operations(live, &me(), heirs);
        assert_eq!(
            operations.len(),
            2,
            "the entries and the mark: {operations:?}"
        );
        let mark = format!("/metadata/annotations/{}", escape(&me().mark_key()));
        assert!(operation(&operations, &mark).is_some());
        let entries = operation(&operations, "/metadata/managedFields").expect("entries");
        let entries = entries["value"].as_array().expect("a list").iter();
        entries
            .map(|it| {
                let marks = it["fieldsV1"].pointer("/f:metadata/f:annotations");
                assert!(marks.is_none_or(|marks| *marks == json!({})), "{marks:?}");
                let manager = it["manager"].as_str().unwrap_or_default();
                (manager.to_owned(), it["fieldsV1"]["f:data"].clone())
            })
            .collect()
    }

    #[test]
    fn heirs_get_our_fields_and_nobody_else_does() {
        let heir = OwnerId::new("0123abcd", "two");
        let left = after_bequest(&shared_with(&heir, "v1"), std::slice::from_ref(&heir));
        let wanted = [
            (heir.field_manager(), json!({"f:a": {}, "f:ours": {}})),
            ("kubectl-edit".to_owned(), json!({"f:a": {}})),
        ];
        assert_eq!(left, wanted);
    }

    #[test]
    fn without_an_heir_our_fields_are_nobodys() {
        let other = OwnerId::new("0123abcd", "two");
        for (version, heirs) in [("v1", vec![]), ("v2", vec![other.clone()])] {
            let left = after_bequest(&shared_with(&other, version), &heirs);
            let wanted = [other.field_manager(), "kubectl-edit".to_owned()];
            assert_eq!(left, wanted.map(|manager| (manager, json!({"f:a": {}}))));
        }
    }
}
