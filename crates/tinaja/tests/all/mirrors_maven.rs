//! Maven through a mirror, by the ready file: a project whose parent and whose extension are in a repository made here.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::mirrors::Lab;
use super::tunnels::PYTHON;
use tinaja_testkit::tools::{client, output, run};

const GROUP: &str = "maven2/org/tinaja";

fn pom(name: &str, packaging: &str) -> String {
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.tinaja</groupId><artifactId>{name}</artifactId>\
         <version>1.0</version><packaging>{packaging}</packaging></project>"
    )
}

/// Puts a file into the repository, with the sum by which clients check it.
fn put(lab: &Lab, path: &str, content: &[u8]) {
    lab.index.put(path, content);
    let sum = run(Command::new("sha1sum").arg(lab.index.files.join(path)));
    lab.index.put(&format!("{path}.sha1"), sum.split(' ').next().unwrap());
}

/// A jar with some bytes in it that do not shrink.
fn jar(lab: &Lab) -> Vec<u8> {
    let make = "import os, zipfile\nzip = zipfile.ZipFile('water.jar', 'w')\nzip.writestr('water', os.urandom(100000))\nzip.close()";
    run(Command::new(PYTHON).args(["-c", make]).current_dir(lab.home.dir.path()));
    fs::read(lab.home.path("water.jar")).unwrap()
}

/// A machine that has never run Maven reads a project, for which it needs its parent and the extension's jar. Without a plugin: those would
/// come from elsewhere.
fn validate(lab: &Lab) -> Vec<u8> {
    let machine = TempDir::new().unwrap();
    let project = "<project><modelVersion>4.0.0</modelVersion><artifactId>user</artifactId><packaging>pom</packaging>\
        <parent><groupId>org.tinaja</groupId><artifactId>parent</artifactId><version>1.0</version></parent>\
        <build><extensions><extension><groupId>org.tinaja</groupId><artifactId>water</artifactId><version>1.0</version>\
        </extension></extensions></build></project>";
    let url = format!("http://{}/maven/", lab.home.listen);
    let mirror = format!("<mirror><id>tinaja</id><mirrorOf>*</mirrorOf><url>{url}</url></mirror>");
    fs::write(machine.path().join("pom.xml"), project).unwrap();
    fs::write(machine.path().join("settings.xml"), format!("<settings><mirrors>{mirror}</mirrors></settings>"))
        .unwrap();
    let repository = machine.path().join("repository");
    let mut maven = client("mvn", machine.path());
    // A sum that is wrong is an error.
    maven.args(["-B", "-ntp", "-C", "-s", "settings.xml", "validate"]);
    run(maven.arg(format!("-Dmaven.repo.local={}", repository.display())));
    fs::read(repository.join("org/tinaja/water/1.0/water-1.0.jar")).unwrap()
}

#[test]
fn maven_reads_a_project_whose_parent_and_extension_are_elsewhere() {
    if output(Command::new("sh").args(["-c", "command -v mvn"])).stdout.is_empty() {
        eprintln!("skipped: there is no mvn here");
        return;
    }
    let lab = Lab::new();
    let jar = jar(&lab);
    put(&lab, &format!("{GROUP}/parent/1.0/parent-1.0.pom"), pom("parent", "pom").as_bytes());
    put(&lab, &format!("{GROUP}/water/1.0/water-1.0.pom"), pom("water", "jar").as_bytes());
    put(&lab, &format!("{GROUP}/water/1.0/water-1.0.jar"), &jar);
    // Maven gives each extension this, unless it has another of the kind.
    put(&lab, "maven2/org/codehaus/plexus/plexus-utils/1.1/plexus-utils-1.1.pom", b"<project/>");
    put(&lab, "maven2/org/codehaus/plexus/plexus-utils/1.1/plexus-utils-1.1.jar", &jar);
    let _tinaja = lab.start_ready("maven", &lab.index.url("/maven2/"));
    assert!(validate(&lab) == jar);
    let before = lab.index.count();
    assert!(before >= 8, "files and their sums: {:?}", lab.index.asked_after(0));
    // All of these are versions, which never change: the source hears nothing.
    assert!(validate(&lab) == jar);
    assert_eq!(lab.index.asked_after(before), []);
    // What is said of a snapshot is validated each time, and what there is not yet is asked for again.
    let (snapshot, missing) = (format!("{GROUP}/x/1-SNAPSHOT/x-1.pom"), format!("{GROUP}/x/2/x-2.pom"));
    lab.index.put(&snapshot, "first");
    let get =
        |path: &str| tinaja_testkit::client::get(lab.home.listen, &path.replace("maven2", "/maven")).unwrap().text();
    assert_eq!([get(&snapshot), get(&missing)], ["first", "none"]);
    lab.index.put(&snapshot, "second");
    lab.index.put(&missing, "there");
    assert_eq!([get(&snapshot), get(&missing)], ["second", "there"]);
}
