//! The names under which Vidra owns things. They are fixed: changing one orphans fields on every
//! managed object in every cluster.

use std::fmt;

use crate::{identity::ObjectKey, inventory::Origin, manifest::digest};

/// Prefix of the annotation that marks an owner; the rest of the key is a hash of the owner.
pub const OWNER_KEY_PREFIX: &str = "vidra.infrahub.operators.com/owner-";

/// What a mark says behind `created` or `adopted` when its owner leaves the decision to another.
const YIELDS: &str = "+yields";

/// The API server refuses longer field manager names.
const FIELD_MANAGER_LIMIT: usize = 128;

/// Who owns an object: one `VidraResource` of one installation of Vidra.
///
/// The installation keeps two management clusters apart that share a target cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId {
    installation: String,
    name: String,
}

impl OwnerId {
    /// Names the owner.
    pub fn new(installation: &str, name: &str) -> Self {
        Self {
            installation: installation.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The name of the `VidraResource`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The field manager under which this owner applies.
    pub fn field_manager(&self) -> String {
        let full = format!("vidra/{self}");
        if full.len() <= FIELD_MANAGER_LIMIT {
            return full;
        }
        format!(
            "vidra/{}/sha256-{}",
            self.installation,
            &digest(&self.to_string())[..40]
        )
    }

    /// The annotation that marks this owner on one object.
    ///
    /// There is one key per owner, so that server-side apply itself keeps the set of owners. The
    /// value is bound to the object: a copy of the annotation on another object says nothing. It
    /// says whether Vidra made the object or found it, so that whoever joins later knows too.
    pub fn mark(&self, object: &ObjectKey, terms: Terms<'_>) -> Mark {
        let found = match terms.origin {
            Origin::Adopted => "adopted",
            Origin::Announced | Origin::Created | Origin::Inherited => "created",
        };
        let yields = if terms.yields { YIELDS } else { "" };
        let Terms {
            precedence,
            content,
            ..
        } = terms;
        Mark {
            key: self.mark_key(),
            value: format!(
                "{self} {precedence} {found}{yields} {content} {}",
                object.path()
            ),
        }
    }

    /// The key of this owner's mark.
    pub fn mark_key(&self) -> String {
        format!("{OWNER_KEY_PREFIX}{}", &digest(&self.to_string())[..16])
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.installation, self.name)
    }
}

/// The short, stable name of an installation, made from the uid of its `kube-system` Namespace.
pub fn installation_from_uid(uid: &str) -> String {
    digest(uid)[..8].to_owned()
}

/// On which terms an owner has an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms<'a> {
    /// Who decides when two owners want different content: the higher number.
    pub precedence: i32,
    /// Whether Vidra made the object or found it.
    pub origin: Origin,
    /// Whether the owner wants other content and leaves the decision to a stronger one. The
    /// stronger one reads it, so that both can say so.
    pub yields: bool,
    /// A short digest of the content that the owner wants. Owners that yielded to it see by it
    /// that it has changed its mind.
    pub content: &'a str,
}

/// An ownership annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The annotation's key.
    pub key: String,
    /// The annotation's value.
    pub value: String,
}

/// A mark found on an object and understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadMark {
    /// The owner.
    pub owner: OwnerId,
    /// Its precedence when two owners want different content.
    pub precedence: i32,
    /// Whether this owner says that the object was there before Vidra.
    pub adopted: bool,
    /// Whether this owner wants other content and leaves the decision to a stronger one.
    pub yields: bool,
    /// The digest of the content that this owner wants.
    pub content: String,
}

impl ReadMark {
    /// Whether this owner decides when another one wants other content. Of two with equal
    /// precedence it is the one whose name comes first, so that the answer is never open.
    pub fn is_stronger_than(&self, precedence: i32, other: &OwnerId) -> bool {
        (self.precedence, other) > (precedence, &self.owner)
    }
}

/// Reads an annotation as a mark of an owner of this object.
///
/// Answers `None` for other annotations, for marks copied from another object and for marks
/// whose key does not fit their value.
pub fn read_mark(key: &str, value: &str, object: &ObjectKey) -> Option<ReadMark> {
    key.strip_prefix(OWNER_KEY_PREFIX)?;
    let mut parts = value.splitn(5, ' ');
    let (installation, name) = parts.next()?.split_once('/')?;
    let precedence = parts.next()?.parse().ok()?;
    let standing = parts.next()?;
    let content = parts.next()?.to_owned();
    if parts.next()? != object.path() {
        return None;
    }
    let owner = OwnerId::new(installation, name);
    (owner.mark_key() == key).then_some(ReadMark {
        owner,
        precedence,
        adopted: standing.starts_with("adopted"),
        yields: standing.ends_with(YIELDS),
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> ObjectKey {
        ObjectKey::new("apps", "Deployment", Some("shop"), "web")
    }

    fn terms(precedence: i32, origin: Origin, yields: bool) -> Terms<'static> {
        Terms {
            precedence,
            origin,
            yields,
            content: "0a1b2c3d",
        }
    }

    #[test]
    fn a_mark_is_read_back_as_its_owner() {
        let owner = OwnerId::new("0123abcd", "artifact-1");
        let mark = owner.mark(&web(), terms(7, Origin::Adopted, false));
        let read = read_mark(&mark.key, &mark.value, &web());
        assert_eq!(
            read,
            Some(ReadMark {
                owner,
                precedence: 7,
                adopted: true,
                yields: false,
                content: "0a1b2c3d".to_owned(),
            })
        );
    }

    #[test]
    fn a_yielding_mark_is_read_back_as_one() {
        let owner = OwnerId::new("0123abcd", "installed");
        for origin in [Origin::Created, Origin::Adopted] {
            let mark = owner.mark(&web(), terms(-1, origin, true));
            let read = read_mark(&mark.key, &mark.value, &web());
            assert_eq!(
                read.map(|read| (read.yields, read.adopted)),
                Some((true, origin == Origin::Adopted))
            );
        }
    }

    #[test]
    fn a_mark_copied_to_another_object_says_nothing() {
        let mark =
            OwnerId::new("0123abcd", "artifact-1").mark(&web(), terms(0, Origin::Created, false));
        let other = ObjectKey::new("apps", "Deployment", Some("shop"), "web-copy");
        assert_eq!(read_mark(&mark.key, &mark.value, &other), None);
    }

    #[test]
    fn a_mark_under_a_foreign_key_says_nothing() {
        let mark =
            OwnerId::new("0123abcd", "artifact-1").mark(&web(), terms(0, Origin::Created, false));
        let forged = format!("{OWNER_KEY_PREFIX}0000000000000000");
        assert_eq!(read_mark(&forged, &mark.value, &web()), None);
    }

    #[test]
    fn the_names_are_fixed_for_ever() {
        let owner = OwnerId::new(&installation_from_uid("uid-1"), "artifact-1");
        assert_eq!(owner.field_manager(), "vidra/4a49acf8/artifact-1");
        assert_eq!(
            owner.mark(&web(), terms(0, Origin::Created, false)).value,
            "4a49acf8/artifact-1 0 created 0a1b2c3d apps/Deployment/shop/web"
        );
    }

    #[test]
    fn a_long_name_still_fits_a_field_manager() {
        let long = OwnerId::new("0123abcd", &"n".repeat(253)).field_manager();
        assert!(long.len() <= FIELD_MANAGER_LIMIT);
        assert_ne!(
            long,
            OwnerId::new("0123abcd", &"n".repeat(252)).field_manager()
        );
    }
}
