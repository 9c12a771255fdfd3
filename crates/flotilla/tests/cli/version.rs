use insta::assert_snapshot;

use super::home;

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

#[test]
fn version_in_words() {
    let ran = home().run(["version"]).success();
    assert_eq!(ran.stdout, format!("flotilla version: {VERSION}\n"));
    assert_eq!(ran.stderr, "");
}

#[test]
fn version_alone() {
    assert_eq!(home().run(["version", "--short"]).success().stdout, format!("{VERSION}\n"));
}

#[test]
fn version_as_a_flag() {
    assert_eq!(home().run(["--version"]).success().stdout, format!("flotilla {VERSION}\n"));
}

#[test]
fn version_for_scripts() {
    let ran = home().run(["version", "-o", "json"]).success();
    assert_eq!(ran.json()["flotillaVersion"], VERSION);
    assert_snapshot!(ran.to_string().replace(VERSION, "[VERSION]"), @r#"
    status: 0
    ----- stdout -----
    {
      "flotillaVersion": "[VERSION]"
    }
    ----- stderr -----
    "#);
}
