//! What an author asks for one object, by annotations under [`POLICY_PREFIX`].

use serde_json::{Map, Value};

use super::{error::Refusal, field_path::FieldPath};

/// Prefix of all our annotations.
pub const POLICY_PREFIX: &str = "vidra.infrahub.operators.com/";

/// How an object is applied; annotation `ssa`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApplyMode {
    /// The manifest wins over everybody else's values. The default.
    #[default]
    Override,
    /// Conflicts with other managers are left to them.
    Merge,
    /// Created when absent, never changed afterwards.
    IfNotPresent,
    /// Not applied at all.
    Ignore,
}

/// The annotations of one object, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPolicy {
    /// Delete the object when it leaves the manifest; annotation `prune`, on by default.
    pub prune: bool,
    /// How to apply; annotation `ssa`.
    pub apply: ApplyMode,
    /// Delete and create again when an immutable field changes; annotation `recreate`, off by
    /// default.
    pub recreate: bool,
    /// Fields that are not ours to keep; annotation `ignore`.
    pub ignore: Vec<FieldPath>,
}

impl Default for ObjectPolicy {
    fn default() -> Self {
        Self {
            prune: true,
            apply: ApplyMode::Override,
            recreate: false,
            ignore: Vec::new(),
        }
    }
}

impl ObjectPolicy {
    /// Reads the policy of an object and says what is wrong with it.
    pub(super) fn read(body: &Value) -> (Self, Vec<Refusal>) {
        let mut reader = Reader {
            annotations: body
                .pointer("/metadata/annotations")
                .and_then(Value::as_object),
            faults: Vec::new(),
        };
        let default = Self::default();
        let policy = Self {
            prune: reader.switch("prune").unwrap_or(default.prune),
            apply: reader.apply_mode().unwrap_or(default.apply),
            recreate: reader.switch("recreate").unwrap_or(default.recreate),
            ignore: reader.ignored_fields(),
        };
        (policy, reader.faults)
    }
}

struct Reader<'b> {
    annotations: Option<&'b Map<String, Value>>,
    faults: Vec<Refusal>,
}

impl<'b> Reader<'b> {
    /// Values of another type are refused elsewhere.
    fn text(&self, name: &str) -> Option<&'b str> {
        self.annotations?
            .get(&format!("{POLICY_PREFIX}{name}"))?
            .as_str()
            .map(str::trim)
    }

    fn switch(&mut self, name: &str) -> Option<bool> {
        match self.text(name)? {
            "enabled" => Some(true),
            "disabled" => Some(false),
            _ => self.fault(name, "enabled or disabled"),
        }
    }

    fn apply_mode(&mut self) -> Option<ApplyMode> {
        match self.text("ssa")? {
            "Override" => Some(ApplyMode::Override),
            "Merge" => Some(ApplyMode::Merge),
            "IfNotPresent" => Some(ApplyMode::IfNotPresent),
            "Ignore" => Some(ApplyMode::Ignore),
            _ => self.fault("ssa", "Override, Merge, IfNotPresent or Ignore"),
        }
    }

    fn ignored_fields(&mut self) -> Vec<FieldPath> {
        let Some(text) = self.text("ignore") else {
            return Vec::new();
        };
        let entries = text
            .split([',', '\n'])
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        let mut paths = Vec::new();
        for entry in entries {
            match FieldPath::parse(entry) {
                Ok(path) => paths.push(path),
                Err(error) => {
                    self.fault::<()>("ignore", &format!("a list of field paths: {error}"));
                }
            }
        }
        if paths.is_empty() && self.faults.is_empty() {
            self.fault::<()>(
                "ignore",
                "a list of field paths, for example /spec/replicas",
            );
        }
        paths
    }

    fn fault<T>(&mut self, name: &str, expected: &str) -> Option<T> {
        let annotation = format!("{POLICY_PREFIX}{name}");
        self.faults.push(Refusal::BadPolicy {
            annotation,
            expected: expected.to_owned(),
        });
        None
    }
}
