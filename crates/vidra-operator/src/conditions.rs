//! Conditions: what a status says to people and to `kubectl wait`. Pure, but for the time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What a condition says.
pub(crate) struct Saying {
    /// Whether the condition holds; `None`: it is not known.
    pub(crate) holds: Option<bool>,
    /// Why, in one word.
    pub(crate) reason: &'static str,
    /// Why, in a sentence.
    pub(crate) message: String,
}

impl Saying {
    pub(crate) fn new(holds: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: Some(holds),
            reason,
            message: message.into(),
        }
    }
}

/// Sets a condition; its transition time moves only when its status does.
pub(crate) fn say(
    conditions: &mut Vec<Condition>,
    kind: &str,
    generation: i64,
    now: Timestamp,
    saying: Saying,
) {
    let text = match saying.holds {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let known = conditions
        .iter()
        .find(|known| known.type_ == kind && known.status == text);
    let last_transition_time = known.map_or(Time(now), |known| known.last_transition_time.clone());
    let condition = Condition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: saying.reason.to_owned(),
        message: saying.message,
        observed_generation: Some(generation),
        last_transition_time,
    };
    conditions.retain(|known| known.type_ != kind);
    conditions.push(condition);
    conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
}

/// Removes a condition that has nothing to say.
pub(crate) fn unsay(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|known| known.type_ != kind);
}

/// The time as it is written into a status.
pub(crate) fn now() -> Timestamp {
    // Full seconds: that is all that the API keeps, and what is read back must compare equal.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}
