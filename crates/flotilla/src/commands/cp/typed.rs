//! A path as it is typed: `m02:/etc/hosts`, `./file`.

use flotilla_ops::cp::Place;

/// `-`: standard input or output.
pub(super) fn is_stream(place: &Place) -> bool {
    matches!(place, Place::Host(path) if path == "-")
}

/// Source and target. If neither says that it is in a node, the target is, as minikube has it.
///
/// `name` is a node that was named before them: a path that begins with `:` is there. Without it, in the primary one.
pub(super) fn ends(name: Option<&str>, source: &str, target: &str) -> [Place; 2] {
    let read = |text: &str| match text.split_once(':') {
        Some(("", path)) => Place::Node(name.map(str::to_owned), path.to_owned()),
        // As scp has it: `./a:b` is a file of the host's.
        Some((node, path)) if !node.contains('/') => Place::Node(Some(node.to_owned()), path.to_owned()),
        _ => Place::Host(text.to_owned()),
    };
    let (source, target) = (read(source), read(target));
    let is_there = |end: &Place| matches!(end, Place::Node(node, _) if node.as_deref() == name);
    let only_target = matches!(source, Place::Host(_)) || name.is_some() && !is_there(&source);
    match target {
        Place::Host(path) if only_target && path != "-" => {
            [source, Place::Node(name.map(str::to_owned), path)]
        }
        target => [source, target],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: Option<&str>, source: &str, target: &str) -> String {
        ends(name, source, target)
            .map(|end| match end {
                Place::Host(path) => path,
                Place::Node(node, path) => format!("<{}>{path}", node.unwrap_or_default()),
            })
            .join(" -> ")
    }

    #[test]
    fn a_path_says_where_it_is() {
        assert_eq!(told(None, "a", "m02:/b"), "a -> <m02>/b");
        assert_eq!(told(None, "m02:/a", "b"), "<m02>/a -> b");
        assert_eq!(told(None, "m02:/a", "demo-m03:b"), "<m02>/a -> <demo-m03>b");
        assert_eq!(told(None, "./a:b", "m02:"), "./a:b -> <m02>");
        assert_eq!(told(None, ":/a", "b"), "<>/a -> b");
    }

    #[test]
    fn a_dash_is_standard_input_or_output() {
        let [source, target] = ends(None, "m02:/a", "-");
        assert!(!is_stream(&source) && is_stream(&target));
        let [source, target] = ends(None, "-", "m02:/a");
        assert!(is_stream(&source) && !is_stream(&target));
        assert_eq!(told(None, "-", "/a"), "- -> <>/a");
        assert!(!is_stream(&ends(None, "./-", "m02:/a")[0]), "a file of that name");
    }

    #[test]
    fn where_none_says_it_the_target_is_in_the_node() {
        assert_eq!(told(None, "a", "/b"), "a -> <>/b");
        assert_eq!(told(Some("m02"), "a", "/b"), "a -> <m02>/b");
    }

    #[test]
    fn a_node_named_before_them_is_that_of_the_colon() {
        assert_eq!(told(Some("m02"), ":/a", "b"), "<m02>/a -> b");
        assert_eq!(told(Some("m02"), "a", ":/b"), "a -> <m02>/b");
        assert_eq!(told(Some("m02"), ":/a", "m03:/b"), "<m02>/a -> <m03>/b");
        assert_eq!(told(Some("m02"), "m03:/a", "/b"), "<m03>/a -> <m02>/b");
    }
}
