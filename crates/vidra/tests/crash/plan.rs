//! Crashes as data: what was under way, at which write, and when.

use std::{fmt, str::FromStr};

use crate::scenario::Scenario;

/// When the operator is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The API server never gets the write.
    Before,
    /// The API server has done it, the operator never hears of it.
    During,
    /// The operator has the answer.
    After,
}

/// One crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// Which write, counted from 1.
    pub(crate) write: usize,
    pub(crate) phase: Phase,
}

impl Plan {
    /// Every crash of a scenario with so many writes, or the one that the environment asks for.
    pub(crate) fn all(scenario: Scenario, writes: usize) -> Vec<Self> {
        let phases = [Phase::Before, Phase::During, Phase::After];
        let all = (1..=writes).flat_map(|write| {
            phases.map(|phase| Self {
                scenario,
                write,
                phase,
            })
        });
        let wanted = Self::wanted();
        all.filter(|plan| wanted.is_none_or(|wanted| wanted == *plan))
            .collect()
    }

    /// The one crash that the environment asks for.
    pub(crate) fn wanted() -> Option<Self> {
        let text = std::env::var("VIDRA_CRASH_PLAN").ok()?;
        Some(text.parse().expect("VIDRA_CRASH_PLAN=scenario/write/phase"))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            Phase::Before => "before",
            Phase::During => "during",
            Phase::After => "after",
        };
        write!(formatter, "{}/{}/{phase}", self.scenario.name(), self.write)
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<&str> = text.split('/').collect();
        let [scenario, write, phase] = parts[..] else {
            return Err(format!("{text:?} is not scenario/write/phase"));
        };
        let scenario = Scenario::ALL.into_iter().find(|it| it.name() == scenario);
        let phase = match phase {
            "before" => Phase::Before,
            "during" => Phase::During,
            "after" => Phase::After,
            other => return Err(format!("there is no phase {other:?}")),
        };
        Ok(Self {
            scenario: scenario.ok_or_else(|| format!("no scenario of {text:?} is known"))?,
            write: write
                .parse()
                .map_err(|error| format!("{write:?}: {error}"))?,
            phase,
        })
    }
}

#[test]
fn a_plan_can_be_named_and_found_again() {
    for scenario in Scenario::ALL {
        for plan in Plan::all(scenario, 2) {
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
    }
}
