//! Owners that want different content for one object: who decides, and who knows about it.
//!
//! All of it is read from the object's metadata. An owner that leaves the decision to a stronger
//! one says so in its mark, so the stronger one sees it too, after a restart and from another
//! management cluster as well.

use crate::{
    observed::Observed,
    owner::{OwnerId, ReadMark},
    ownership::marks,
};

/// How one owner stands to others that want other content for the same object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rivalry {
    /// Owners that leave the decision to us or to somebody stronger still. If we leave the object,
    /// they are our heirs.
    pub weaker: Vec<OwnerId>,
    /// Whether we leave the decision to others.
    pub yields: bool,
    /// The stronger owners as they were seen: when one of them changes its mind, its precedence
    /// or goes, what we left to it has to be asked for again.
    stronger: Vec<ReadMark>,
}

impl Rivalry {
    /// Reads the rivalry over a live object.
    pub fn over(live: &Observed, me: &OwnerId) -> Self {
        let (mine, others): (Vec<_>, Vec<_>) =
            marks(live).into_iter().partition(|mark| mark.owner == *me);
        let Some(mine) = mine.into_iter().next() else {
            return Self::default();
        };
        let (stronger, weaker): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|other| other.is_stronger_than(mine.precedence, me));
        Self {
            weaker: weaker
                .into_iter()
                .filter(|other| other.yields)
                .map(|other| other.owner)
                .collect(),
            yields: mine.yields,
            stronger: if mine.yields { stronger } else { Vec::new() },
        }
    }

    /// Whether what we left to others has to be asked for again, now that the object looks so.
    pub fn is_open_again(&self, now: &Self) -> bool {
        now.yields && (now.stronger.is_empty() || self.stronger != now.stronger)
    }

    /// What people should know, if anything.
    pub fn sentence(&self) -> Option<String> {
        let names: Vec<&str> = self.stronger.iter().map(|mark| mark.owner.name()).collect();
        let weaker: Vec<&str> = self.weaker.iter().map(OwnerId::name).collect();
        let lost = self.yields.then(|| {
            format!(
                "other content is wanted by VidraResource {}, which decides",
                names.join(", ")
            )
        });
        let won = (!self.weaker.is_empty()).then(|| {
            format!(
                "other content is wanted by VidraResource {}; ours decides",
                weaker.join(", ")
            )
        });
        lost.or(won)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{inventory::Origin, observed::tests::observed, owner::Terms};

    fn owner(name: &str) -> OwnerId {
        OwnerId::new("0123abcd", name)
    }

    fn put(live: &mut Observed, name: &str, precedence: i32, yields: bool, content: &str) {
        let terms = Terms {
            precedence,
            origin: Origin::Created,
            yields,
            content,
        };
        let mark = owner(name).mark(&live.key, terms);
        live.annotations.insert(mark.key, mark.value);
    }

    /// An object of `strong` (precedence 5) and `weak` (precedence 1), who yields.
    fn contested() -> Observed {
        let mut live = observed(vec![]);
        put(&mut live, "strong", 5, false, "aa");
        put(&mut live, "weak", 1, true, "bb");
        live
    }

    #[test]
    fn both_owners_name_each_other() {
        let weak = Rivalry::over(&contested(), &owner("weak")).sentence();
        let strong = Rivalry::over(&contested(), &owner("strong")).sentence();
        assert!(weak.is_some_and(|text| text.contains("strong, which decides")));
        assert!(strong.is_some_and(|text| text.contains("weak; ours decides")));
    }

    #[test]
    fn owners_of_equal_content_are_no_rivals() {
        let mut live = contested();
        put(&mut live, "weak", 1, false, "aa");
        for name in ["weak", "strong", "stranger"] {
            assert_eq!(
                Rivalry::over(&live, &owner(name)).sentence(),
                None,
                "{name}"
            );
        }
    }

    #[test]
    fn the_question_is_open_again_when_the_stronger_owner_writes_or_goes_and_not_before() {
        let (live, me) = (contested(), owner("weak"));
        let known = Rivalry::over(&live, &me);
        assert!(!known.is_open_again(&Rivalry::over(&live, &me)));
        let mut written = live.clone();
        put(&mut written, "strong", 5, false, "bb");
        assert!(known.is_open_again(&Rivalry::over(&written, &me)));
        let mut gone = live;
        gone.annotations.remove(&owner("strong").mark_key());
        let gone = Rivalry::over(&gone, &me);
        assert!(known.is_open_again(&gone) && gone.is_open_again(&gone));
        assert!(!Rivalry::default().is_open_again(&Rivalry::default()));
    }

    #[test]
    fn of_equal_precedence_the_first_name_decides() {
        let mut live = observed(vec![]);
        for name in ["a", "b"] {
            put(&mut live, name, 0, true, "cc");
        }
        assert_eq!(Rivalry::over(&live, &owner("a")).weaker, [owner("b")]);
        assert!(Rivalry::over(&live, &owner("b")).weaker.is_empty());
    }
}
