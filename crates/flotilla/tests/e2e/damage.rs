//! A damaged bundle is found out, and a used one stays.

use std::fs;

use crate::lab;

fn verify(home: &std::path::Path) -> (i32, String) {
    let output = lab::run(home, &["bundle", "verify", lab::VERSION]);
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub(crate) fn verify_names_the_file_with_one_flipped_bit_and_the_missing_one() {
    let home = lab::home_with_bundle();
    let kubelet = home.path().join("bundles").join(lab::digest()).join("rootfs/usr/local/bin/kubelet");
    lab::replace(&kubelet, |bytes| bytes[12_345_678] ^= 1);
    let (status, text) = verify(home.path());
    assert_eq!(status, 18, "{text}");
    assert!(text.contains("rootfs/usr/local/bin/kubelet: content"), "{text}");
    fs::remove_file(&kubelet).unwrap();
    let (status, text) = verify(home.path());
    assert_eq!(status, 18, "{text}");
    assert!(text.contains("rootfs/usr/local/bin/kubelet: missing"), "{text}");
}

pub(crate) fn a_damaged_part_is_made_again_and_not_used() {
    let home = lab::home_with_parts();
    let parts = home.path().join("cache/parts");
    let directory = fs::read_dir(&parts)
        .unwrap()
        .flatten()
        .find(|item| item.file_name().to_string_lossy().starts_with("pause-3.10.2"))
        .unwrap();
    lab::replace(&directory.path().join("files/pause"), |bytes| bytes[1000] ^= 1);
    let text = lab::run(home.path(), &["bundle", "build"]);
    let text = String::from_utf8_lossy(&text.stderr).into_owned();
    assert!(text.contains("pause 3.10.2 is damaged"), "{text}");
    assert!(text.contains("kubernetes v1.37.1: nothing to do"), "only that part is made again: {text}");
    assert_eq!(lab::bundle_store(home.path()), [lab::digest()]);
}

pub(crate) fn remove_refuses_while_a_cluster_uses_the_bundle() {
    let home = lab::home_with_bundle();
    let node = home.path().join("clusters/demo/nodes/demo-m02");
    fs::create_dir_all(&node).unwrap();
    fs::write(node.join("bundle"), format!("{}\n", lab::digest())).unwrap();
    let refused = lab::run(home.path(), &["bundle", "remove", lab::VERSION]);
    assert_eq!(refused.status.code(), Some(11));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("node demo-m02 of cluster demo"));
    fs::remove_file(node.join("bundle")).unwrap();
    lab::succeed(home.path(), &["bundle", "remove", lab::VERSION]);
    assert!(lab::bundle_store(home.path()).is_empty());
}
