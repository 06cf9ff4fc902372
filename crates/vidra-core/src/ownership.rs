//! Whose object is it: may we take it, and may we delete it.

use crate::{
    inventory::{Entry, Origin},
    observed::Observed,
    owner::{OwnerId, ReadMark, read_mark},
};

/// The Go operator's list of owners.
pub const GO_OWNED_BY: &str = "vidraresource.infrahub.operators.com/owned-by";

/// The annotation that keeps an object from being pruned.
pub const PRUNE: &str = "vidra.infrahub.operators.com/prune";

/// Labels and annotations by which other tools say that an object is theirs.
const TOOL_MARKS: [(&str, &str); 8] = [
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("meta.helm.sh/release-name", "Helm"),
    ("configsync.gke.io/resource-id", "Config Sync"),
    ("kapp.k14s.io/app", "kapp"),
    ("objectset.rio.cattle.io/id", "Fleet"),
];

/// What to do with an existing object that we did not make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adoption {
    /// Leave it alone.
    Never,
    /// Manage it if nobody claims it.
    #[default]
    IfUnowned,
    /// Manage it, whoever claims it.
    Always,
}

/// How an existing object stands to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It carries our mark.
    Ours {
        /// Whether our mark says that it was there before us.
        adopted: bool,
    },
    /// Other owners of Vidra have it; we may join them.
    Shared {
        /// Whether it was there before any of them.
        adopted: bool,
    },
    /// The Go operator made it for us.
    FromGoOperator,
    /// Nobody claims it.
    Unclaimed,
    /// Somebody else claims it.
    Claimed {
        /// Who, for people.
        by: String,
    },
}

/// How a live object stands to an owner.
pub fn standing(live: &Observed, me: &OwnerId) -> Standing {
    let marks = marks(live);
    if let Some(mine) = marks.iter().find(|mark| mark.owner == *me) {
        return Standing::Ours {
            adopted: mine.adopted,
        };
    }
    let go_owners = go_owners(live);
    if go_owners.iter().any(|name| name == me.name()) {
        return Standing::FromGoOperator;
    }
    if let Some(controller) = live.foreign_controller() {
        return Standing::Claimed {
            by: format!("{} {}", controller.kind, controller.name),
        };
    }
    if !marks.is_empty() || !go_owners.is_empty() {
        return Standing::Shared {
            adopted: marks.iter().any(|mark| mark.adopted),
        };
    }
    match tool_mark(live) {
        Some(by) => Standing::Claimed { by },
        None => Standing::Unclaimed,
    }
}

/// With which origin an existing object may be taken, or who forbids it.
pub fn may_take(standing: &Standing, adoption: Adoption) -> Result<Origin, String> {
    match (standing, adoption) {
        (Standing::FromGoOperator, _) => Ok(Origin::Inherited),
        (Standing::Ours { adopted: false } | Standing::Shared { adopted: false }, _) => {
            Ok(Origin::Created)
        }
        (Standing::Ours { adopted: true } | Standing::Shared { adopted: true }, _)
        | (Standing::Unclaimed, Adoption::IfUnowned | Adoption::Always)
        | (Standing::Claimed { .. }, Adoption::Always) => Ok(Origin::Adopted),
        (Standing::Unclaimed, Adoption::Never) => {
            Err("it exists already and adoption is Never".to_owned())
        }
        (Standing::Claimed { by }, _) => Err(format!("it belongs to {by}")),
    }
}

/// Where an object comes from whose making nobody told us about. In doubt it was there before us.
pub fn origin_of(live: &Observed, me: &OwnerId) -> Origin {
    if live.was_born_of(&me.field_manager()) {
        return Origin::Created;
    }
    let mut others = marks(live)
        .into_iter()
        .filter(|mark| mark.owner != *me)
        .peekable();
    let is_made_by_vidra = others.peek().is_some() && others.all(|mark| !mark.adopted);
    if is_made_by_vidra {
        Origin::Created
    } else {
        Origin::Adopted
    }
}

/// How to part with an object that is no longer wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parting {
    /// Delete it, with preconditions.
    Delete,
    /// Other owners keep it: withdraw our fields.
    Leave,
    /// It was there before us, or must not be deleted: take our marks off and leave the values.
    Release {
        /// Why, for people.
        why: String,
    },
    /// It is not ours any more: forget it.
    Forget {
        /// Why, for people.
        why: String,
    },
}

/// Decides how to part with a live object. Nothing is deleted that is not provably ours alone.
pub fn part_with(entry: &Entry, live: &Observed, me: &OwnerId) -> Parting {
    let others = co_owners(live, me);
    match standing(live, me) {
        Standing::Ours { .. } => part_with_marked(entry, live, me, !others.is_empty()),
        Standing::FromGoOperator if entry.origin == Origin::Inherited => {
            part_with_marked(entry, live, me, !others.is_empty())
        }
        _ => Parting::Forget {
            why: "it no longer carries our mark".to_owned(),
        },
    }
}

fn part_with_marked(entry: &Entry, live: &Observed, me: &OwnerId, is_shared: bool) -> Parting {
    if is_shared {
        return Parting::Leave;
    }
    let is_another = entry.uid.as_ref().is_some_and(|uid| *uid != live.uid);
    if is_another && !live.was_born_of(&me.field_manager()) {
        return Parting::Release {
            why: "somebody made it anew".to_owned(),
        };
    }
    if let Some(controller) = live.foreign_controller() {
        let why = format!("it belongs to {} {}", controller.kind, controller.name);
        return Parting::Release { why };
    }
    if live
        .annotations
        .get(PRUNE)
        .is_some_and(|value| value == "disabled")
    {
        return Parting::Release {
            why: format!("annotation {PRUNE} is disabled"),
        };
    }
    let is_ours = match entry.origin {
        Origin::Created | Origin::Inherited => true,
        Origin::Adopted => false,
        Origin::Announced => live.was_born_of(&me.field_manager()),
    };
    if is_ours {
        Parting::Delete
    } else {
        Parting::Release {
            why: "it was there before Vidra".to_owned(),
        }
    }
}

/// The other owners of an object, for people.
pub fn co_owners(live: &Observed, me: &OwnerId) -> Vec<String> {
    let marked = marks(live)
        .into_iter()
        .filter(|mark| mark.owner != *me)
        .map(|mark| mark.owner.name().to_owned());
    let listed = go_owners(live).into_iter().filter(|name| name != me.name());
    let mut names: Vec<String> = marked.chain(listed).collect();
    names.sort();
    names.dedup();
    names
}

/// All marks on an object that are bound to it.
pub fn marks(live: &Observed) -> Vec<ReadMark> {
    live.annotations
        .iter()
        .filter_map(|(key, value)| read_mark(key, value, &live.key))
        .collect()
}

fn go_owners(live: &Observed) -> Vec<String> {
    let Some(list) = live.annotations.get(GO_OWNED_BY) else {
        return Vec::new();
    };
    list.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

fn tool_mark(live: &Observed) -> Option<String> {
    TOOL_MARKS.iter().find_map(|(key, tool)| {
        let value = live
            .annotations
            .get(*key)
            .or_else(|| live.labels.get(*key))?;
        Some(format!("{tool} ({key}={value})"))
    })
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

    fn marked(owners: &[(&OwnerId, Origin)]) -> Observed {
        let mut live = observed(vec![entry(MANAGER, "Apply", "2026-11-16T02:00:00Z")]);
        for (owner, origin) in owners {
            let terms = crate::owner::Terms {
                precedence: 0,
                origin: *origin,
                yields: false,
                content: "aa",
            };
            let mark = owner.mark(&live.key, terms);
            live.annotations.insert(mark.key, mark.value);
        }
        live
    }

    fn known(origin: Origin) -> Entry {
        let live = observed(vec![]);
        Entry {
            uid: Some(live.uid),
            ..Entry::announced(live.key, "v1", origin)
        }
    }

    fn deployment_reference() -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            is_controller: true,
        }
    }

    #[test]
    fn what_we_made_and_own_alone_is_deleted() {
        let live = marked(&[(&me(), Origin::Created)]);
        assert_eq!(
            part_with(&known(Origin::Created), &live, &me()),
            Parting::Delete
        );
    }

    #[test]
    fn what_others_own_too_is_left_to_them() {
        let other = OwnerId::new("0123abcd", "two");
        let live = marked(&[(&me(), Origin::Created), (&other, Origin::Created)]);
        assert_eq!(
            part_with(&known(Origin::Created), &live, &me()),
            Parting::Leave
        );
    }

    #[test]
    fn an_owner_of_the_same_name_in_another_installation_is_another_owner() {
        let namesake = OwnerId::new("89efcdab", "one");
        let live = marked(&[(&me(), Origin::Created), (&namesake, Origin::Created)]);
        assert_eq!(
            part_with(&known(Origin::Created), &live, &me()),
            Parting::Leave
        );
    }

    #[test]
    fn what_somebody_made_anew_with_our_marks_is_released() {
        let mut live = marked(&[(&me(), Origin::Created)]);
        live.uid = "uid-2".to_owned();
        assert_eq!(
            part_with(&known(Origin::Created), &live, &me()),
            Parting::Delete,
            "born of our own apply"
        );
        live.managed_fields = vec![entry("kubectl-create", "Update", "2026-11-16T02:00:00Z")];
        let parting = part_with(&known(Origin::Created), &live, &me());
        assert!(matches!(parting, Parting::Release { .. }), "{parting:?}");
    }

    #[test]
    fn what_was_there_before_us_is_released() {
        let live = marked(&[(&me(), Origin::Adopted)]);
        let parting = part_with(&known(Origin::Adopted), &live, &me());
        assert!(matches!(parting, Parting::Release { .. }), "{parting:?}");
    }

    #[test]
    fn what_does_not_carry_our_mark_is_forgotten() {
        let parting = part_with(&known(Origin::Created), &observed(vec![]), &me());
        assert!(matches!(parting, Parting::Forget { .. }), "{parting:?}");
    }

    #[test]
    fn what_belongs_to_a_controller_is_never_deleted() {
        let mut live = marked(&[(&me(), Origin::Created)]);
        live.owner_references.push(deployment_reference());
        let parting = part_with(&known(Origin::Created), &live, &me());
        assert!(matches!(parting, Parting::Release { .. }), "{parting:?}");
    }

    #[test]
    fn an_announced_object_is_deleted_only_if_it_was_born_of_our_apply() {
        let mut live = marked(&[(&me(), Origin::Created)]);
        assert_eq!(
            part_with(&known(Origin::Announced), &live, &me()),
            Parting::Delete
        );
        live.managed_fields
            .push(entry("kubectl-create", "Update", "2026-11-16T01:00:00Z"));
        let parting = part_with(&known(Origin::Announced), &live, &me());
        assert!(matches!(parting, Parting::Release { .. }), "{parting:?}");
    }

    #[test]
    fn the_annotation_keeps_an_object_from_being_pruned() {
        let mut live = marked(&[(&me(), Origin::Created)]);
        live.annotations
            .insert(PRUNE.to_owned(), "disabled".to_owned());
        let parting = part_with(&known(Origin::Created), &live, &me());
        assert!(matches!(parting, Parting::Release { .. }), "{parting:?}");
    }

    #[test]
    fn claims_of_other_tools_are_respected_unless_told_otherwise() {
        for (key, tool) in TOOL_MARKS {
            let mut live = observed(vec![]);
            live.labels.insert(key.to_owned(), "x".to_owned());
            let standing = standing(&live, &me());
            let refused = may_take(&standing, Adoption::IfUnowned).expect_err("claimed");
            assert!(refused.contains(tool), "{refused}");
            assert_eq!(may_take(&standing, Adoption::Always), Ok(Origin::Adopted));
        }
    }

    #[test]
    fn a_controllers_object_is_claimed() {
        let mut live = observed(vec![]);
        live.owner_references.push(deployment_reference());
        assert!(may_take(&standing(&live, &me()), Adoption::IfUnowned).is_err());
    }

    #[test]
    fn an_object_of_the_go_operator_is_taken_over_and_its_other_owners_count() {
        let mut live = observed(vec![]);
        live.annotations
            .insert(GO_OWNED_BY.to_owned(), "one, two".to_owned());
        live.owner_references.push(OwnerReference {
            api_version: "infrahub.operators.com/v1alpha1".to_owned(),
            kind: "VidraResource".to_owned(),
            name: "one".to_owned(),
            is_controller: true,
        });
        assert_eq!(standing(&live, &me()), Standing::FromGoOperator);
        assert_eq!(
            part_with(&known(Origin::Inherited), &live, &me()),
            Parting::Leave
        );
    }

    #[test]
    fn whoever_meets_another_owner_in_the_making_shares_its_origin() {
        let other = OwnerId::new("0123abcd", "two");
        let mut made = marked(&[(&other, Origin::Created)]);
        made.managed_fields.clear();
        assert_eq!(origin_of(&made, &me()), Origin::Created);
        let mut found = marked(&[(&other, Origin::Adopted)]);
        found.managed_fields.clear();
        assert_eq!(origin_of(&found, &me()), Origin::Adopted);
        assert_eq!(origin_of(&observed(vec![]), &me()), Origin::Adopted);
    }

    #[test]
    fn whoever_joins_an_adopted_object_adopts_it_too() {
        let other = OwnerId::new("0123abcd", "two");
        let live = marked(&[(&other, Origin::Adopted)]);
        let taken = may_take(&standing(&live, &me()), Adoption::IfUnowned);
        assert_eq!(taken, Ok(Origin::Adopted));
    }
}
