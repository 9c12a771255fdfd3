//! `--wait`, in minikube's words.

use std::collections::BTreeSet;

use flotilla_core::Condition;
use flotilla_engine::converge::Wait;
use flotilla_spec::error::SpecError;

/// What the words stand for, or the first that stands for nothing.
pub(super) fn conditions(words: &[String]) -> Result<BTreeSet<Condition>, SpecError> {
    let all = || Condition::ALL.iter().map(|(condition, _)| *condition).collect();
    match words {
        [] => Ok(Wait::CLUSTER.into()),
        [word] if word == "all" || word == "true" => Ok(all()),
        [word] if word == "none" || word == "false" => Ok(BTreeSet::new()),
        words => words.iter().map(|word| condition(word)).collect(),
    }
}

fn condition(word: &str) -> Result<Condition, SpecError> {
    // minikube's word for the pods of kube-system.
    let word = if word == "extra" { "system_pods" } else { word };
    let found = Condition::ALL.iter().find(|(_, name)| *name == word);
    found.map(|(condition, _)| *condition).ok_or_else(|| {
        let known = Condition::ALL.map(|(_, name)| name).join(", ");
        SpecError::UnknownCondition { given: word.to_owned(), known }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Option<usize> {
        conditions(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).ok().map(|set| set.len())
    }

    #[test]
    fn words_stand_for_conditions() {
        assert_eq!(of(&[]), Some(6));
        assert_eq!(of(&["all"]), Some(9));
        assert_eq!(of(&["true"]), Some(9));
        assert_eq!(of(&["false"]), Some(0));
        assert_eq!(of(&["none"]), Some(0));
        assert_eq!(of(&["kubelet", "dns"]), Some(2));
        assert_eq!(of(&["extra", "system_pods"]), Some(1));
        assert_eq!(of(&["kubelet", "everything"]), None);
    }
}
