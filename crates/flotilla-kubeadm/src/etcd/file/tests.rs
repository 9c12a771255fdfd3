use std::fs::File;

use flotilla_testkit::with_checksum;
use proptest::prelude::*;

use super::*;

/// What a cluster's authority looks like: no proof depends on what is in between.
pub(crate) const OWN: &str = "-----BEGIN CERTIFICATE-----\nb3Vycw==\n-----END CERTIFICATE-----\n";
const OTHER: &str = "-----BEGIN CERTIFICATE-----\ndGhlaXJz\n-----END CERTIFICATE-----\n";

fn varint_of(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// etcd's message for a key, as the database has it.
fn key_value(key: &[u8], revision: usize, value: &[u8]) -> Vec<u8> {
    let mut message = [&[0x0a][..], &varint_of(key.len()), key, &[0x10, 2, 0x18]].concat();
    message.extend([&varint_of(revision)[..], &[0x20, 1, 0x2a], &varint_of(value.len()), value].concat());
    message
}

fn root_ca(revision: usize, authority: &str) -> Vec<u8> {
    let value = [b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap ca.crt\x12", authority.as_bytes(), b"\x1a\0"].concat();
    key_value(ROOT_CA, revision, &value)
}

fn cluster_info(revision: usize, authority: &str) -> Vec<u8> {
    let value = format!(
        "k8s\0 clusters:\n- cluster:\n    certificate-authority-data: {}\n",
        BASE64.encode(authority)
    );
    key_value(CLUSTER_INFO, revision, value.as_bytes())
}

/// A database with these contents somewhere in it.
fn database(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * PAGE];
    bytes[MARK_AT..MARK_AT + MARK.len()].copy_from_slice(&MARK);
    for content in contents {
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(&[7; 100]);
    }
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    bytes
}

fn file_of(bytes: &[u8]) -> Box<dyn Content> {
    Box::new(std::io::Cursor::new(bytes.to_vec()))
}

/// A snapshot of the cluster whose authority is [`OWN`].
pub(crate) fn own_snapshot() -> SnapshotFile {
    check(file_of(&with_checksum(database(&[root_ca(300, OWN)])))).unwrap()
}

fn origin(contents: &[Vec<u8>]) -> SnapshotOrigin {
    let file = check(file_of(&with_checksum(database(contents)))).unwrap();
    assert!(file.has_checksum);
    super::origin(&file, OWN.as_bytes())
}

#[test]
fn a_snapshot_proves_of_which_cluster_it_is() {
    assert_eq!(origin(&[root_ca(300, OWN)]), SnapshotOrigin::ThisCluster);
    assert_eq!(origin(&[root_ca(300, OTHER)]), SnapshotOrigin::AnotherCluster);
    assert_eq!(origin(&[cluster_info(300, OWN)]), SnapshotOrigin::ThisCluster);
    assert_eq!(origin(&[cluster_info(300, OTHER)]), SnapshotOrigin::AnotherCluster);
    assert_eq!(origin(&[]), SnapshotOrigin::Unknown);
}

#[test]
fn another_clusters_authority_elsewhere_in_it_proves_nothing() {
    let of_a_person = key_value(b"/registry/configmaps/default/clusters", 400, OWN.as_bytes());
    assert_eq!(origin(std::slice::from_ref(&of_a_person)), SnapshotOrigin::Unknown);
    assert_eq!(origin(&[of_a_person, root_ca(300, OTHER)]), SnapshotOrigin::AnotherCluster);
    let longer = [ROOT_CA, b"-copy"].concat();
    assert_eq!(origin(&[key_value(&longer, 400, OWN.as_bytes())]), SnapshotOrigin::Unknown);
}

#[test]
fn of_several_revisions_the_newest_counts() {
    // A snapshot of another cluster was restored by force, and its authority replaced.
    assert_eq!(origin(&[root_ca(100_000, OWN), root_ca(300, OTHER)]), SnapshotOrigin::ThisCluster);
    assert_eq!(origin(&[root_ca(300, OWN), root_ca(100_000, OTHER)]), SnapshotOrigin::AnotherCluster);
    assert_eq!(origin(&[root_ca(300, OWN), cluster_info(100_000, OTHER)]), SnapshotOrigin::ThisCluster);
    // The deletion of a key has no value.
    assert_eq!(origin(&[root_ca(300, OWN), key_value(ROOT_CA, 400, b"")]), SnapshotOrigin::ThisCluster);
}

#[test]
fn an_object_is_found_wherever_the_reading_stops() {
    for before in [CHUNK - REACH, CHUNK, 2 * CHUNK] {
        for shift in [0, 10, 60, 200] {
            let filler = vec![1; before - 2 * PAGE - 100 - shift];
            assert_eq!(
                origin(&[filler, root_ca(300, OWN)]),
                SnapshotOrigin::ThisCluster,
                "{before} - {shift}"
            );
        }
    }
}

#[test]
fn what_is_no_snapshot_is_refused() {
    for text in [&b""[..], b"root:x:0:0:root:/root:/bin/bash\n", &[0; 4096], &MARK] {
        let refused = check(file_of(text));
        assert!(matches!(refused, Err(SnapshotError::NotSnapshot)), "{refused:?}");
    }
    let endless = check(Box::new(File::open("/dev/zero").unwrap()));
    assert!(matches!(endless, Err(SnapshotError::NotSnapshot)), "{endless:?}");
}

#[test]
fn the_database_of_a_member_is_one_without_a_checksum() {
    let file = check(file_of(&database(&[root_ca(300, OWN)]))).unwrap();
    assert!(!file.has_checksum);
    assert_eq!(super::origin(&file, OWN.as_bytes()), SnapshotOrigin::ThisCluster);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_snapshot_with_any_bit_flipped_or_cut_off_anywhere_is_refused(place in any::<prop::sample::Index>(), bit in 0..8) {
        let whole = with_checksum(database(&[root_ca(300, OWN)]));
        let at = place.index(whole.len());
        let mut flipped = whole.clone();
        flipped[at] ^= 1u8 << bit;
        prop_assert!(check(file_of(&flipped)).is_err());
        match check(file_of(&whole[..at])) {
            Err(_) => {}
            // Whole sectors: it passes for a database, which needs --force.
            Ok(file) => prop_assert!(!file.has_checksum && at % 512 == 0),
        }
    }

    #[test]
    fn nothing_in_a_file_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), revision in 0..9usize) {
        let mangled = [ROOT_CA, &[0x10, 2, 0x18], &varint_of(revision), &bytes].concat();
        prop_assert!(check(file_of(&database(&[mangled]))).is_ok());
    }
}
