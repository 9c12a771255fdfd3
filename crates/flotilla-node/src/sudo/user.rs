//! Users and groups of a node, by name or by number (`#1000`).

use super::SudoError;

const GROUPS: &str = "/etc/group";

/// A user whom `sudo -u` names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
}

impl User {
    /// Looks a user up in the text of `/etc/passwd`. A number that nobody has is a user without a name.
    pub(super) fn find(users: &str, wanted: &str) -> Result<Self, SudoError> {
        let number = number(wanted);
        let found = users.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            let is_it = name == wanted || number == Some(uid);
            is_it.then(|| Self { name: name.to_owned(), uid, gid, home: home.to_owned() })
        });
        let nameless = |uid| Self { name: wanted.to_owned(), uid, gid: uid, home: "/".to_owned() };
        found.or_else(|| number.map(nameless)).ok_or_else(|| unknown("user", wanted))
    }
}

/// The number of a group.
pub(super) fn group(wanted: &str) -> Result<u32, SudoError> {
    let groups =
        std::fs::read_to_string(GROUPS).map_err(|source| SudoError::Read { file: GROUPS, source })?;
    find_group(&groups, wanted)
}

fn find_group(groups: &str, wanted: &str) -> Result<u32, SudoError> {
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(wanted)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.or_else(|| number(wanted)).ok_or_else(|| unknown("group", wanted))
}

fn number(wanted: &str) -> Option<u32> {
    wanted.strip_prefix('#').unwrap_or(wanted).parse().ok()
}

fn unknown(what: &'static str, name: &str) -> SudoError {
    SudoError::Unknown { what, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_have_names_and_numbers() {
        let users = "root:x:0:0:root:/root:/bin/bash\nweb:x:33:34:web:/srv:/bin/sh\n";
        let web = User { name: "web".to_owned(), uid: 33, gid: 34, home: "/srv".to_owned() };
        for wanted in ["web", "#33", "33"] {
            assert_eq!(User::find(users, wanted).unwrap(), web);
        }
        assert_eq!(User::find(users, "#1000").unwrap().uid, 1000);
        assert_eq!(User::find(users, "docker").unwrap_err().to_string(), "unknown user docker");
        assert_eq!(find_group("root:x:0:\nweb:x:34:web\n", "web").unwrap(), 34);
        assert_eq!(find_group("root:x:0:\n", "adm").unwrap_err().to_string(), "unknown group adm");
    }
}
