//! What is run for which tier.

use std::time::Duration;

use crate::clock::Limits;

/// What a person, or CI, wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tier {
    Fast,
    Core,
    /// Both: what CI runs.
    FastAndCore,
    Full,
    /// Tests on real clusters whose names contain one of these.
    Named(Vec<String>),
}

impl Tier {
    /// None if the words are no command line.
    pub(crate) fn of(words: &[String]) -> Option<Self> {
        Some(match words {
            [] => Self::FastAndCore,
            [word, names @ ..] if word == "e2e" => Self::Named(names.to_vec()),
            [word] => match word.as_str() {
                "fast" => Self::Fast,
                "core" => Self::Core,
                "full" => Self::Full,
                _ => return None,
            },
            _ => return None,
        })
    }

    pub(crate) fn has_fast(&self) -> bool {
        matches!(self, Self::Fast | Self::FastAndCore | Self::Full)
    }

    pub(crate) fn has_core(&self) -> bool {
        matches!(self, Self::Core | Self::FastAndCore | Self::Full)
    }
}

/// Limits of stages on a slow machine with nothing compiled. Those of fast and core add up to less than CI's 90 minutes.
pub(crate) mod limit {
    use super::{Duration, Limits};

    pub(crate) const FORMATTING: Duration = Duration::from_mins(1);
    pub(crate) const SCRIPTS: Duration = Duration::from_mins(1);
    pub(crate) const COMPILING: Duration = Duration::from_mins(12);
    pub(crate) const UNIT_TESTS: Limits = Limits {
        all: Duration::from_mins(10),
        binary: Duration::from_mins(5),
        again: Duration::from_mins(5),
        alone: Duration::from_mins(2),
    };
    pub(crate) const LINTS: Duration = Duration::from_mins(6);
    pub(crate) const BUNDLE: Duration = Duration::from_mins(30);
    pub(crate) const CONTRACT: Limits = of_one_binary(5, 5);
    /// Each test of these has a limit of its own as well.
    pub(crate) const CORE: Limits = of_one_binary(24, 15);
    pub(crate) const FULL: Limits = of_one_binary(90, 30);

    /// Minutes for the binary, and for its tests that run again alone.
    const fn of_one_binary(all: u64, again: u64) -> Limits {
        let (all, again) = (Duration::from_mins(all), Duration::from_mins(again));
        Limits { all, binary: all, again, alone: again }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_what_ci_runs_fit_into_its_own() {
        use limit::{BUNDLE, COMPILING, CONTRACT, CORE, FORMATTING, LINTS, SCRIPTS, UNIT_TESTS};
        let tests = [UNIT_TESTS, CONTRACT, CORE].map(|limits| limits.all);
        let all = [&[FORMATTING, SCRIPTS, COMPILING, LINTS, BUNDLE][..], &tests].concat();
        assert!(all.iter().sum::<Duration>() < Duration::from_mins(90));
    }

    #[test]
    fn words_are_tiers() {
        let of = |line: &str| Tier::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of(""), Some(Tier::FastAndCore));
        assert_eq!(of("fast"), Some(Tier::Fast));
        assert_eq!(of("e2e nodes faults"), Some(Tier::Named(vec!["nodes".to_owned(), "faults".to_owned()])));
        assert_eq!(of("fast core"), None);
        assert_eq!(of("quick"), None);
    }
}
