//! What a `VidraResource` asks for, in the words of the domain. Pure.

use vidra_api::{Adoption as ApiAdoption, FieldConflicts, ImmutableFields, VidraResource};
use vidra_core::{guard::Budget, ownership::Adoption};

use crate::settings::Settings;

/// The policies of one owner.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// Whether fields that others hold are taken from them.
    pub(crate) is_forced: bool,
    /// What to do with objects that exist already.
    pub(crate) adoption: Adoption,
    /// Whether a change of an immutable field recreates the object.
    pub(crate) recreates: bool,
    /// Who decides between two owners.
    pub(crate) precedence: i32,
    /// Whether stale objects are deleted at all.
    pub(crate) prunes: bool,
    /// How much may be deleted in one go.
    pub(crate) budget: Budget,
}

impl Policy {
    pub(crate) fn of(resource: &VidraResource, settings: &Settings) -> Self {
        let spec = &resource.spec;
        let prune = &spec.prune;
        Self {
            is_forced: spec.field_conflicts == FieldConflicts::Force,
            adoption: match spec.adoption {
                ApiAdoption::Never => Adoption::Never,
                ApiAdoption::IfUnowned => Adoption::IfUnowned,
                ApiAdoption::Always => Adoption::Always,
            },
            recreates: spec.immutable_fields == ImmutableFields::Recreate,
            precedence: spec.precedence,
            prunes: spec.prune.is_enabled(),
            budget: Budget {
                max_percent: prune
                    .max_percent
                    .map_or(settings.budget.max_percent, |_| prune.max_percent()),
                max_count: prune
                    .max_count
                    .map_or(settings.budget.max_count, |_| prune.max_count() as usize),
                allowed_kinds: spec
                    .prune
                    .allow_kinds
                    .iter()
                    .map(|kind| kind.as_str().to_owned())
                    .collect(),
                ..settings.budget.clone()
            },
        }
    }
}
