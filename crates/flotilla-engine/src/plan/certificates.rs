//! Renews certificates before programs read them.

use std::collections::BTreeMap;

use flotilla_spec::{NodeName, NodeSpec, Role};

use super::{Action, Plan, Scope};

impl Plan {
    /// Renews due certificates when these machines and all control planes are on: all control planes share the
    /// administrator's certificate, and they sign those of workers.
    pub(super) fn renew(
        &mut self,
        scope: Scope<'_>,
        machines: &BTreeMap<NodeName, usize>,
        after: &[Option<usize>],
    ) -> Option<usize> {
        let is_due = |node: &&NodeSpec| scope.observed.due.contains(&node.name);
        let due: Vec<_> = scope.to_run().filter(is_due).map(|node| node.name.clone()).collect();
        if due.is_empty() {
            return None;
        }
        let needed = scope.to_run().filter(|node| node.role == Role::ControlPlane || is_due(node));
        let booted = needed.map(|node| machines.get(&node.name).copied());
        let after: Vec<_> = after.iter().copied().chain(booted).collect();
        let names: Vec<_> = due.iter().map(NodeName::as_ref).collect();
        let title = format!("renewing the certificates of {}", names.join(", "));
        Some(self.add(Action::Renew(due), title, &after, 2000))
    }
}
