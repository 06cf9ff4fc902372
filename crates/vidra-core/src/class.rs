//! What kind of failure it is, which alone decides about retrying.

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The input is wrong; only a change of the input helps.
    Invalid,
    /// Something else has to happen first (a CRD, a namespace that ends, a finalizer).
    Waiting,
    /// Somebody else holds or changed what we wanted to write.
    Conflict,
    /// We are not allowed to; somebody has to change permissions, quotas or policies.
    Denied,
    /// A passing fault of a server or a network.
    Transient,
    /// A defect of ours; a retry is harmless, but somebody should look.
    Fatal,
}

impl Class {
    /// The stable name for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Waiting => "Waiting",
            Self::Conflict => "Conflict",
            Self::Denied => "Denied",
            Self::Transient => "Transient",
            Self::Fatal => "Fatal",
        }
    }
}
