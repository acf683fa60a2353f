//! Settings of the trees.

use crate::engine::{Setting, Settings, Takes};

/// First-level directories, l1 (2.3.2).
pub static FIRST_LEVEL: Setting = Setting {
    name: "first-level",
    takes: Takes::Number { least: 1, most: 256 },
    value_name: "N",
    help: "First-level directories of a new cache, 1 to 256 (default 16). The engines that go by host need a power of two",
    lasts: true,
    made_with: "a tree of",
    unit: "first-level directories",
    missing: "has no tree of directories",
    out_of_range: "there cannot be {} first-level directories",
    nothing: None,
};

/// Second-level directories, l2 (2.3.2).
pub static SECOND_LEVEL: Setting = Setting {
    name: "second-level",
    takes: Takes::Number { least: 1, most: 256 },
    value_name: "N",
    help: "Directories in each first-level directory of a new cache, 1 to 256 (default 256). The engines that go by host need \
           a power of two",
    lasts: true,
    made_with: "a tree of",
    unit: "second-level directories",
    missing: "has no tree of directories",
    out_of_range: "there cannot be {} second-level directories",
    nothing: None,
};

/// Files in a directory, k (2.4.1). 256 is what Squid has had since.
pub static FILES_PER_DIRECTORY: Setting = Setting {
    name: "files-per-directory",
    takes: Takes::Number { least: 1, most: 65_536 },
    value_name: "N",
    help: "Files in each directory of a new cache at most, 1 to 65536 (default 256)",
    lasts: true,
    made_with: "at most",
    unit: "files in a directory",
    missing: "does not limit how many files a directory has",
    out_of_range: "a directory cannot be limited to {} files",
    nothing: None,
};

/// Whether the masks of both levels take the same bits of a host's hash.
pub static OVERLAPPING_MASKS: Setting = Setting {
    name: "overlapping-masks",
    takes: Takes::Switch { off: "bits of their own for each level", on: "the same bits for both levels" },
    value_name: "true|false",
    help: "Choose both directories by the same bits of the host's hash, so that 16 x 256 of them are 256 (default false)",
    lasts: true,
    made_with: "masks that take",
    unit: "",
    missing: "does not choose directories by the host's hash",
    out_of_range: "",
    nothing: Some(0),
};

/// How much of a cache is the mapped file (2.4.2). The paper's objects of 8 KiB and less are 70 % of what is asked for, and a
/// quarter of the bytes.
pub static MAPPED_PERCENT: Setting = Setting {
    name: "mapped-percent",
    takes: Takes::Number { least: 1, most: 90 },
    value_name: "PERCENT",
    help: "Percentage of a new cache that is one mapped file for small objects, 1 to 90 (default 25)",
    lasts: true,
    made_with: "a mapped file of",
    unit: "percent",
    missing: "has no mapped file",
    out_of_range: "a mapped file cannot have {} percent of the cache",
    nothing: None,
};

/// The page of Algorithm 1, and the largest object in the mapped file (2.4.2).
pub static PAGE_SIZE: Setting = Setting {
    name: "page-size",
    takes: Takes::Bytes,
    value_name: "SIZE",
    help: "Largest object in the mapped file of a new cache, 4KiB or 8KiB (default 8KiB); with squidmla none crosses the end of a \
           page of this size",
    lasts: true,
    made_with: "pages of",
    unit: "bytes",
    missing: "has no mapped file",
    out_of_range: "",
    nothing: None,
};

/// Who makes room in the mapped file (3.5, 3.6).
pub static CYCLIC_REPLACEMENT: Setting = Setting {
    name: "cyclic-replacement",
    takes: Takes::Switch { off: "least recently used", on: "cyclic by frequency" },
    value_name: "true|false",
    help: "Make room in the mapped file where a pointer goes round that passes over what was asked for often (FBC), and not for what was \
           asked for least recently (default false)",
    lasts: false,
    made_with: "",
    unit: "",
    missing: "has no mapped file",
    out_of_range: "",
    nothing: Some(0),
};

/// What a setting is where nothing is said.
pub fn value(settings: &Settings, setting: &'static Setting) -> u32 {
    let default = match setting.name {
        "first-level" => 16,
        "second-level" | "files-per-directory" => 256,
        "mapped-percent" => 25,
        "page-size" => 8192,
        _ => 0,
    };
    settings.get(setting).and_then(|value| u32::try_from(value).ok()).unwrap_or(default)
}

/// Of the engines that go by host: masks are powers of two less one.
pub fn wrong_masks(settings: &Settings, _: u64) -> Option<String> {
    [&FIRST_LEVEL, &SECOND_LEVEL].into_iter().find_map(|setting| {
        let value = value(settings, setting);
        let wrong = || {
            format!(
                "{value} {} cannot be told apart by bits of a hash: choose a power of two, as {}",
                setting.unit,
                value.next_power_of_two()
            )
        };
        (!value.is_power_of_two()).then(wrong)
    })
}

/// Of the engines with a mapped file.
pub fn wrong_pages(settings: &Settings, _: u64) -> Option<String> {
    let page = settings.get(&PAGE_SIZE).filter(|page| ![4096, 8192].contains(page))?;
    Some(format!("a page cannot have {page} bytes: choose 4KiB or 8KiB, or leave it out"))
}

/// Of those among them that go by host.
pub fn wrong_masks_or_pages(settings: &Settings, bytes: u64) -> Option<String> {
    wrong_masks(settings, bytes).or_else(|| wrong_pages(settings, bytes))
}
