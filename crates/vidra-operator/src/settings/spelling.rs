//! Words that people have typed: showing them, and telling slips from other words. Pure.

/// How much is shown of what somebody has typed.
const LONGEST_QUOTE: usize = 64;
/// Letters that may be wrong, missing or too many in a slip.
const MOST_SLIPS: usize = 2;

/// A text in quotes, on one line and of bounded length.
pub(super) fn quoted(text: &str) -> String {
    let mut letters = text.chars();
    let shown: String = letters.by_ref().take(LONGEST_QUOTE).collect();
    let rest = if letters.next().is_some() { "…" } else { "" };
    format!("{shown:?}{rest}")
}

/// Whether one word is probably meant to be the other.
pub(super) fn is_alike(word: &str, other: &str) -> bool {
    let letters = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|letter| letter.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let (word, other) = (letters(word), letters(other));
    word.len().abs_diff(other.len()) <= MOST_SLIPS && distance(&word, &other) <= MOST_SLIPS
}

/// How many letters have to be changed, added or removed.
fn distance(word: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in word.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, known) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != known);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_from_other_words() {
        for slip in [
            "requeueSyncsAfter",
            "requeuesyncafter",
            "requeue-sync-after",
            "requeueSynAfter",
            "reqeueSyncAftr",
        ] {
            assert!(is_alike(slip, "requeueSyncAfter"), "{slip}");
        }
        for word in ["requeueResourcesAfter", "sync", "", "requeueSyncAfterward"] {
            assert!(!is_alike(word, "requeueSyncAfter"), "{word}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_on_one_line() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        let long = quoted(&"ä".repeat(10_000));
        assert_eq!(long.chars().count(), LONGEST_QUOTE + 3);
    }
}
