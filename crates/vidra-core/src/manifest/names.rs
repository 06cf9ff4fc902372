//! Which strings may stand in the path of a URL to the API server.

/// Longest name of an object and of an API group, as in DNS.
const LONGEST_NAME: usize = 253;
/// Longest DNS label: namespaces, versions; also taken for kinds.
const LONGEST_LABEL: usize = 63;

/// The rule that a name breaks, if any. Stricter checks (a Service's name is a DNS label, a
/// role's is not) are the API server's.
pub(super) fn name_fault(name: &str) -> Option<&'static str> {
    if name.len() > LONGEST_NAME {
        return Some("is longer than 253 characters");
    }
    if name == "." || name == ".." {
        return Some("is a relative path; choose another name");
    }
    let is_safe = name.bytes().all(is_path_byte);
    (!is_safe).then_some("may have only letters, digits and - . _ : ~ @ ! $ & ' ( ) * + , ; =")
}

/// What RFC 3986 allows unescaped in one segment of a path.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~@!$&'()*+,;=".contains(&byte)
}

/// A DNS label: a namespace or a version.
pub(super) fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// A kind: letters and digits that begin with a letter.
pub(super) fn is_kind(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.len() <= LONGEST_LABEL
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Group and version of an `apiVersion`; the core group is empty.
pub(super) fn split_api_version(text: &str) -> Option<(&str, &str)> {
    let (group, version) = match text.split_once('/') {
        Some((group, version)) if is_group(group) => (group, version),
        Some(_) => return None,
        None => ("", text),
    };
    is_label(version).then_some((group, version))
}

fn is_group(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}
