//! `--wait`, in minikube's words.

use std::collections::BTreeSet;
use std::time::Duration;

use flotilla_engine::EngineError;
use flotilla_engine::converge::Wait;
use flotilla_engine::port::Condition;
use flotilla_spec::error::SpecError;

use crate::failure::Failure;

/// A pod can run.
const DEFAULT: [Condition; 3] =
    [Condition::ApiServer, Condition::NodeReady, Condition::DefaultServiceAccount];

/// What a command waits for that does not let people choose.
pub(crate) fn default() -> Wait {
    Wait { conditions: DEFAULT.into(), limit: Duration::from_mins(6) }
}

pub(super) fn conditions(words: &[String]) -> Result<BTreeSet<Condition>, Failure> {
    let all = || Condition::ALL.iter().map(|(condition, _)| *condition).collect();
    match words {
        [] => Ok(DEFAULT.into()),
        [word] if word == "all" || word == "true" => Ok(all()),
        [word] if word == "none" || word == "false" => Ok(BTreeSet::new()),
        words => words.iter().map(|word| condition(word)).collect(),
    }
}

fn condition(word: &str) -> Result<Condition, Failure> {
    let found = Condition::ALL.iter().find(|(_, name)| *name == word);
    Ok(found.map(|(condition, _)| *condition).ok_or_else(|| {
        let known = Condition::ALL.map(|(_, name)| name).join(", ");
        EngineError::Spec(vec![SpecError::UnknownCondition { given: word.to_owned(), known }])
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<usize> {
        conditions(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).ok().map(|set| set.len())
    }

    #[test]
    fn words_stand_for_conditions() {
        assert_eq!(of(&[]), Some(3));
        assert_eq!(of(&["all"]), Some(6));
        assert_eq!(of(&["none"]), Some(0));
        assert_eq!(of(&["kubelet", "system_pods"]), Some(2));
        assert_eq!(of(&["kubelet", "everything"]), None);
    }
}
